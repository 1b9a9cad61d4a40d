"""Measure how far an error is off when the labels were chosen: on all labels, and on those of random samples.

    python benchmarks/chosen_labels.py --store chosen.jsonl                    # digits, 16 seeds, about 15 minutes on one thread
    python benchmarks/chosen_labels.py --store chosen.jsonl --image-features NAME=features.npz     # arrays x and y of other data
    python benchmarks/chosen_labels.py --store chosen.jsonl --text-features NAME=features.npz

A labeller who knows the truth labels what `softmatch suggest` proposes, round by round: typical samples first, then doubtful
ones, and a share of random ones. After the last round a model is trained in two ways on the same labels: without their purposes,
so that the cross-fit measures on all of them, and with them, so that it measures on the random ones. Both errors are compared
with the error of the saved model on a large test set that took no part in anything.

There are two settings: few labels of the pool, and so many that the random samples of later rounds come from an easier rest. The
third figure of a setting would correct that: it weighs the errors on chosen and on random samples by the shares of the pool that
they stand for. Features are read as in benchmarks/choosing.py. Seeds in the store are not repeated. Prints Markdown.
"""

import argparse
import csv
import json
import statistics
import tempfile
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from features import given_features
from sklearn.datasets import load_digits

import softmatch
from softmatch.data.readers.csv_files import read_columns
from softmatch.inference.suggest import cold_start, suggest
from softmatch.training.job import Result

QUICK: dict[str, Any] = {
    "unlabeled_batch": 64,
    "labeled_batch": 32,
    "baseline": False,
    "threads": 1,
    "device": "cpu",
    "evaluate_every": 10_000,
}


class Outcome(NamedTuple):
    """Errors of one seed, and whether the 95 % intervals contain the true error of their model."""

    true: float
    on_all: float
    covered_all: bool
    true_again: float
    on_random: float
    covered_random: bool
    weighted: float
    random: int


def simulate(
    data: tuple[npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]],
    options: argparse.Namespace,
    rounds: int,
    seed: int,
    folder: Path,
) -> Outcome:
    """Label in rounds, and measure in both ways."""
    x, y, own = data
    order = np.random.default_rng(seed).permutation(len(x))
    pool, test = order[: options.pool], order[options.pool : options.pool + options.test]
    np.savez(folder / "pool.npz", x=x[pool], y=np.full(len(pool), -1))
    source, labels = str(folder / "pool.npz"), folder / "labels.csv"
    given: list[dict[str, str]] = []
    settings = {**own, **QUICK, "steps": options.steps, "seed": seed, "labels_from": labels}
    for number in range(rounds):
        out, share = folder / f"{number}.csv", options.random_share
        if not given:
            cold_start(source, options.per_round, out, seed=seed, random_share=share)
        else:
            run = softmatch.train(source, out=folder / f"run-{number}", evaluation="none", **settings).run
            suggest(run, options.per_round, out, seed=seed, device="cpu", random_share=share)
        columns = read_columns(out)
        for name, purpose in zip(columns["name"], columns["purpose"], strict=True):
            given.append({"name": name, "label": str(y[pool[int(name) - 1]]), "purpose": purpose})
        write(labels, given)
    honest = softmatch.train(source, out=folder / "random", evaluation="crossfit", **settings)
    write(labels, [{**row, "purpose": ""} for row in given])
    naive = softmatch.train(source, out=folder / "all", evaluation="crossfit", **settings)
    assert (naive.measured_on, honest.measured_on) == ("all", "random")
    right = dict(zip(*(read_columns(naive.run / "held_out.csv")[key] for key in ("name", "right")), strict=True))
    wrong = {
        kind: [right[row["name"]] == "no" for row in given if row["purpose"] == kind and row["name"] in right]
        for kind in ("chosen", "random")
    }
    share = sum(row["purpose"] == "chosen" for row in given) / len(pool)
    weighted = share * statistics.mean(wrong["chosen"]) + (1 - share) * statistics.mean(wrong["random"])
    truth, truth_again = true_error(naive.run, x[test], y[test]), true_error(honest.run, x[test], y[test])
    return Outcome(truth, *measured(naive, truth), truth_again, *measured(honest, truth_again), weighted, len(wrong["random"]))


def measured(result: Result, true: float) -> tuple[float, bool]:
    """Return the measured error, and whether its interval contains the true one."""
    low, high = result.test_error_interval or (1.0, 0.0)
    return result.test_error or 0.0, low <= true <= high


def write(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def true_error(run: Path, x: npt.NDArray[Any], y: npt.NDArray[Any]) -> float:
    model = softmatch.load_model(run)
    predicted = model.predict_proba(model.preparation(x)).argmax(-1).tolist()
    wrong: list[bool] = [model.classes[made] != str(label) for made, label in zip(predicted, y.tolist(), strict=True)]
    return sum(wrong) / len(wrong)


def rows_of(found: list[Outcome]) -> list[str]:
    """Rows of the table: mean error, bias, mean absolute deviation, coverage."""
    ways: dict[str, list[tuple[float, float, bool | None]]] = {
        "all labels (as without purposes)": [(each.on_all, each.true, each.covered_all) for each in found],
        "random labels only (`measured_on: random`)": [(each.on_random, each.true_again, each.covered_random) for each in found],
        "both, weighted by their share of the pool": [(each.weighted, each.true, None) for each in found],
    }
    rows = []
    for name, figures in ways.items():
        off = [100 * (made - true) for made, true, _ in figures]
        spread = statistics.stdev(off) / len(off) ** 0.5
        covered = "–" if figures[0][2] is None else f"{sum(bool(each[2]) for each in figures)} of {len(figures)}"
        error, true = (100 * statistics.mean(column) for column in ([each[0] for each in figures], [each[1] for each in figures]))
        bias, away = f"{statistics.mean(off):+.1f} ± {spread:.1f}".replace("-", "−"), statistics.mean(map(abs, off))
        rows.append(f"| {name} | {error:.1f} | {true:.1f} | {bias} | {away:.1f} | {covered} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image-features", nargs="*", default=(), metavar="NAME=FILE")
    parser.add_argument("--text-features", nargs="*", default=(), metavar="NAME=FILE", help="default: digits, as vectors")
    parser.add_argument("--pool", type=int, default=1000, help="samples that may be labelled")
    parser.add_argument("--test", type=int, default=797, help="samples for the true error")
    parser.add_argument("--rounds", type=int, nargs="+", default=[2, 5])
    parser.add_argument("--per-round", type=int, default=60)
    parser.add_argument("--random-share", type=float, default=0.2)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--store", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    sets = given_features(options)
    if not sets:
        x, y = load_digits(return_X_y=True)
        sets = {"digits": ((x / 16).astype(np.float32), y, {})}
    numbers = {key: getattr(options, key) for key in ("pool", "test", "per_round", "random_share", "steps")}
    for (title, data), rounds in product(sets.items(), options.rounds):
        found = []
        for seed in range(options.seeds):
            key = {"data": title, "rounds": rounds, "seed": seed, **numbers}
            stored = [json.loads(line) for line in options.store.read_text().splitlines()] if options.store.exists() else []
            known = [row["found"] for row in stored if key.items() <= row.items()]
            if not known:
                with tempfile.TemporaryDirectory() as folder:
                    known = [simulate(data, options, rounds, seed, Path(folder))]
                with options.store.open("a") as file:
                    file.write(json.dumps({**key, "found": known[0]}) + "\n")
            found.append(Outcome(*known[0]))
        labels = f"{rounds} rounds of {options.per_round} labels, {found[0].random} of them random"
        print(f"## {title}: {labels}, in a pool of {options.pool:,}\n")
        print("| error measured on | measured % | true % | bias | mean deviation | 95 % interval contains the truth |")
        print("|---|---|---|---|---|---|", *rows_of(found), sep="\n")
        about = f"{options.seeds} seeds, {options.steps} steps, test set of {min(options.test, len(data[0]) - options.pool):,}"
        print(f"\n{about}; bias: measured minus true, mean ± standard error.\n")


if __name__ == "__main__":
    main()
