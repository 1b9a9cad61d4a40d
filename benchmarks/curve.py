"""Check the predictions of `softmatch curve` against trainings with more labels.

    python benchmarks/curve.py run --store curve.jsonl                               # digits, a table of 64 numbers
    python benchmarks/curve.py run --store curve.jsonl --features NAME=features.npz  # arrays x and y, such as features of photos
    python benchmarks/curve.py print --store curve.jsonl

For each seed, labels are drawn at random, the same number for each class. A run and its curve see these labels only. Then the
labels are doubled twice, the same training is repeated, and its true error on all samples without a label is compared with the
prediction. Runs in the store are not repeated. Prints Markdown: predicted and true error in per cent, and how often the 95 %
interval held it.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.datasets import load_digits

import softmatch
from softmatch.training.learning_curve import AHEAD, learning_curve

Array = npt.NDArray[Any]
Row = dict[str, Any]


def draw(truth: Array, per_class: int, seed: int) -> Array:
    """Labels of `per_class` samples of each class, −1 for all others; more labels contain fewer."""
    generator, labels = np.random.default_rng(seed), np.full(len(truth), -1)
    for label in np.unique(truth):
        chosen = generator.permutation(np.flatnonzero(truth == label))[:per_class]
        labels[chosen] = label
    return labels


def true_error(items: Array, truth: Array, labels: Array, folder: Path, settings: Row) -> float:
    """Error on the samples without a label of a model that was trained with these labels."""
    softmatch.train((items, labels), out=folder, evaluation="none", baseline=False, **settings)
    model, hidden = softmatch.load_model(folder), labels < 0
    made = model.predict_proba(model.preparation(items[hidden])).argmax(-1).numpy()
    return float((np.array(model.classes).astype(int)[made] != truth[hidden]).mean())


def measure(name: str, items: Array, truth: Array, per_class: int, seed: int, steps: int) -> Row:
    settings: Row = {"steps": steps, "seed": seed, "threads": 1, "keep": "method"}
    labels = draw(truth, per_class, seed)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        softmatch.train((items, labels), out=run, **settings)
        curve = learning_curve(run, (items, labels))
        errors = {}
        for multiple in (1, *AHEAD):
            more = draw(truth, multiple * per_class, seed)
            errors[multiple] = true_error(items, truth, more, Path(folder) / str(multiple), settings)
    now = curve.measured[-1]
    found = {1: (now.error, now.interval)} | {m: (p.error, p.interval) for m, p in zip(AHEAD, curve.predicted, strict=True)}
    cells = [[m, errors[m], found[m][0], *found[m][1]] for m in (1, *AHEAD)]
    return {
        "data": name,
        "labels": int((labels >= 0).sum()),
        "seed": seed,
        "steps": steps,
        "cells": cells,
        "verdict": curve.verdict,
    }


def read(store: Path) -> list[Row]:
    return [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []


def sets(options: argparse.Namespace) -> Iterator[tuple[str, Array, Array]]:
    if not options.features:
        digits = load_digits()
        yield "digits", digits.data.astype(np.float32), digits.target
    for given in options.features:
        name, _, path = given.partition("=")
        found = np.load(path)
        yield name, found["x"].astype(np.float32), found["y"].astype(int)


def show(rows: list[Row]) -> None:
    print("| data | labels | times the labels | true error | predicted | mean of the difference | inside the 95 % interval |")
    print("|---|---|---|---|---|---|---|")
    for name, labels in sorted({(row["data"], row["labels"]) for row in rows}):
        same = [row for row in rows if (row["data"], row["labels"]) == (name, labels)]
        for place, multiple in enumerate((1, *AHEAD)):
            _, true, said, low, high = np.array([row["cells"][place] for row in same]).T
            spread = [f"{100 * v.mean():.1f} ± {100 * v.std(ddof=1):.1f}" for v in (true, said)]
            inside = int(((low <= true) & (true <= high)).sum())
            what = "the run itself" if multiple == 1 else f"{multiple} ×"
            difference = f"{100 * (said - true).mean():+.1f}"
            print(f"| {name} | {labels} | {what} | {spread[0]} | {spread[1]} | {difference} | {inside} of {len(same)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("run", "print"))
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--features", nargs="*", default=())
    parser.add_argument("--per-class", type=int, default=4)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--first-seed", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    if options.what == "run":
        torch.set_num_threads(1)
        for name, items, truth in sets(options):
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                key = (name, options.per_class * len(np.unique(truth)), seed, options.steps)
                if any((r["data"], r["labels"], r["seed"], r["steps"]) == key for r in read(options.store)):
                    continue
                row = measure(name, items, truth, options.per_class, seed, options.steps)
                with options.store.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(json.dumps(row["cells"]), flush=True)
    else:
        show(read(options.store))


if __name__ == "__main__":
    main()
