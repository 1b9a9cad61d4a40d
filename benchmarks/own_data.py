"""Check on data like a user's own whether the error that a run reports without a test set is correct.

    python benchmarks/own_data.py write DATA --cifar10 cifar10.npz --clinc150 clinc150/     # makes the sources of each seed
    python benchmarks/own_data.py run DATA --store runs.jsonl --seeds 5 [--sources table ink intents photos] [--encoder FOLDER]
    python benchmarks/own_data.py run DATA --store runs.jsonl --only-print

`write` makes the sources a user would have, for each seed, with a test file that training never sees:

- photos: a folder of 10,000 CIFAR-10 images as PNG, 400 of them in class folders and the rest in unlabeled/;
- intents: the 15,000 texts of CLINC150's train split as CSV, 10 labels for each of its 150 intents;
- table: scikit-learn's breast cancer data (569 rows of 30 numbers), 20 labels for each of 2 classes;
- ink: scikit-learn's digits as a table (1,797 rows of 64 numbers), 4 labels for each of 10 classes; of either table, 30 % of the
  rows are the test file.

`run` trains on each with the defaults and without the test file: the run itself estimates its error (cross-fit or hold-out).
Then the saved model predicts the test file, which gives the true error, and the baseline is trained on the labels only.
Runs in the store are not repeated. Prints Markdown, mean ± standard deviation over the seeds.
"""

import argparse
import csv
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import softmatch
from softmatch.data.records import Columns
from softmatch.inference.predict import predict

SOURCES = ("table", "ink", "intents", "photos")
Row = dict[str, Any]


def write_photos(target: Path, archive: Path, seed: int, number: int = 10_000, per_class: int = 40, tests: int = 2000) -> None:
    """Write class folders, unlabeled/ and, next to them, photos-test/."""
    names = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    with np.load(archive) as found:
        data = {key: found[key] for key in found.files}  # each look into the archive would unpack all of it
    random = np.random.default_rng(seed)
    chosen = random.permutation(len(data["x_train"]))[:number]
    labels = data["y_train"].ravel()
    given: dict[int, int] = dict.fromkeys(range(10), 0)
    for position in chosen:
        label = int(labels[position])
        given[label] += 1
        folder = target / "photos" / (names[label] if given[label] <= per_class else "unlabeled")
        _save(folder / f"{position:05d}.png", data["x_train"][position])
    for position in random.permutation(len(data["x_test"]))[:tests]:
        name = names[int(data["y_test"].ravel()[position])]
        _save(target / "photos-test" / name / f"{position:05d}.png", data["x_test"][position])


def _save(path: Path, pixels: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def write_intents(target: Path, folder: Path, seed: int, per_class: int = 10) -> None:
    """Write intents.csv and intents-test.csv."""
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    order = np.random.default_rng(seed).permutation(len(rows))
    given: dict[str, int] = {}
    kept = []
    for row in (rows[position] for position in order):
        given[row["label"]] = given.get(row["label"], 0) + 1
        kept.append((row["text"], row["label"] if given[row["label"]] <= per_class else ""))
    tests = [json.loads(line) for line in (folder / "test.jsonl").read_text().splitlines()]
    write_csv(target / "intents.csv", ("text", "label"), kept)
    write_csv(target / "intents-test.csv", ("text", "label"), [(row["text"], row["label"]) for row in tests])


def write_table(target: Path, name: str, seed: int) -> None:
    """Write NAME.csv and NAME-test.csv, with the labels in the column `kind`."""
    from sklearn.datasets import load_breast_cancer, load_digits

    data, per_class = (load_breast_cancer(), 20) if name == "table" else (load_digits(), 4)
    order = np.random.default_rng(seed).permutation(len(data.target))
    tests = round(0.3 * len(order))
    header = (*(str(column) for column in data.feature_names), "kind")
    given: dict[int, int] = {}
    rows = []
    for position in order[tests:]:
        label = int(data.target[position])
        given[label] = given.get(label, 0) + 1
        rows.append((*data.data[position], data.target_names[label] if given[label] <= per_class else ""))
    write_csv(target / f"{name}.csv", header, rows)
    write_csv(target / f"{name}-test.csv", header, [(*data.data[p], data.target_names[data.target[p]]) for p in order[:tests]])


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(header)
        table.writerows(rows)


def run(data: Path, source: str, seed: int, encoder: str | None) -> Row:
    """Return what a run reports about itself, and the true figures."""
    where, suffix = data / str(seed), "" if source == "photos" else ".csv"
    options: dict[str, Any] = {"seed": seed, "label": "kind"} if source in ("table", "ink") else {"seed": seed}
    if source == "intents":
        options |= {"encoder": encoder}
    with tempfile.TemporaryDirectory() as folder:
        alone = softmatch.train(where / f"{source}{suffix}", out=Path(folder) / "alone", **options)
        test = where / f"{source}-test{suffix}"
        columns = Columns(label=options["label"]) if "label" in options else None
        true = predict(alone.run, test, Path(folder) / "predictions.csv", columns)
        twin = softmatch.train(where / f"{source}{suffix}", test=test, method="supervised", out=Path(folder) / "twin", **options)
    return {
        "source": source,
        "encoder": None if encoder is None or source != "intents" else Path(encoder).name,
        "seed": seed,
        "labels": alone.labels,
        "measured": alone.evaluation,
        "said": alone.test_error,
        "interval": alone.test_error_interval,
        "difference_said": alone.difference,
        "difference_interval": alone.difference_interval,
        "true": true.error,
        "twin": twin.test_error,
        "ece": None if alone.calibration is None else alone.calibration["ece"],
        "ece_scaled": None if alone.calibration is None else alone.calibration["ece_scaled"],
        "seconds": alone.seconds,
    }


def spread(values: Sequence[float | None], digits: int = 1) -> str:
    known = [100 * value for value in values if value is not None]
    if not known:
        return "–"
    deviation = f" ± {statistics.stdev(known):.{digits}f}" if len(known) > 1 else ""
    return f"{statistics.mean(known):.{digits}f}{deviation}"


def print_table(rows: Sequence[Row]) -> None:
    """Print errors in per cent, how often the interval contains the true error, and whether the verdict was right."""
    print("| source | labels | seeds | error reported | true error | in interval | baseline, true | ECE % → scaled | s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for key in dict.fromkeys((row["source"], row["encoder"]) for row in rows):
        those = [row for row in rows if (row["source"], row["encoder"]) == key]
        measured = [row for row in those if row["said"] is not None]
        inside = sum(row["interval"][0] <= row["true"] <= row["interval"][1] for row in measured)
        name = key[0] if key[1] is None else f"{key[0]}, frozen {key[1]}"
        ece = f"{spread([row['ece'] for row in those])} → {spread([row['ece_scaled'] for row in those])}"
        said, true, twin = (spread([row[figure] for row in those]) for figure in ("said", "true", "twin"))
        seconds = statistics.median(row["seconds"] for row in those)
        print(
            f"| {name} | {those[0]['labels']} | {len(those)} | {said} | {true} | {inside} of {len(measured)} "
            f"| {twin} | {ece} | {seconds:.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=("write", "run"))
    parser.add_argument("data", type=Path)
    parser.add_argument("--cifar10", type=Path, help="cifar10.npz: x_train, y_train, x_test, y_test")
    parser.add_argument("--clinc150", type=Path, help="folder with train.jsonl and test.jsonl (text, label)")
    parser.add_argument("--store", type=Path, default=Path("own_data.jsonl"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--sources", nargs="+", choices=SOURCES, default=SOURCES)
    parser.add_argument("--encoder", help="pretrained encoder for the texts")
    parser.add_argument("--only-print", action="store_true")
    given = parser.parse_args()
    if given.job == "write":
        for seed in range(given.seeds):
            for name in ("table", "ink"):
                write_table(given.data / str(seed), name, seed)
            if given.clinc150 is not None:
                write_intents(given.data / str(seed), given.clinc150, seed)
            if given.cifar10 is not None:
                write_photos(given.data / str(seed), given.cifar10, seed)
        return
    rows: list[Row] = [json.loads(line) for line in given.store.read_text().splitlines()] if given.store.exists() else []
    encoder = None if given.encoder is None else Path(given.encoder).name
    for source in given.sources if not given.only_print else ():
        for seed in range(given.first_seed, given.first_seed + given.seeds):
            key = (source, encoder if source == "intents" else None, seed)
            if any((row["source"], row["encoder"], row["seed"]) == key for row in rows):
                continue
            rows.append(run(given.data, source, seed, given.encoder))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
            with given.store.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    print_table(rows)


if __name__ == "__main__":
    main()
