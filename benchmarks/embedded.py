"""Measure test errors on the embedded sources: softmatch's methods and those of scikit-learn, on the same splits.

    python benchmarks/embedded.py                          # everything, 10 seeds
    python benchmarks/embedded.py --settings two-moons --seeds 3 --methods softmatch

Seed s decides the test set and the labelled samples; every row uses the same splits. Prints Markdown: mean ± standard
deviation over the seeds in per cent, and the mean seconds of one fit on this machine.
"""

import argparse
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC
from torch import Tensor

import softmatch
from softmatch.config import make_config
from softmatch.data import find_source
from softmatch.training.opening import open_again
from softmatch.training.setup import prepare_job

SETTINGS = {"digits-40": ("digits", 40), "digits-10": ("digits", 10), "two-moons": ("two-moons", 4)}
METHODS = ("softmatch", "fixmatch", "flexmatch")


@dataclass(frozen=True)
class Outcome:
    error: float
    seconds: float


def ours(source: str, labels: int, seed: int, method: str) -> dict[str, Outcome]:
    """Train with softmatch itself, run folder included; the first method also trains the baseline."""
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, Any] = {"labels": labels, "seed": seed, "method": method, "threads": 1}
        result = softmatch.train(source, baseline=method == METHODS[0], out=Path(folder) / "run", **settings)
    assert result.test_error is not None
    found = {f"softmatch: {method}": Outcome(result.test_error, result.seconds - (result.supervised_seconds or 0.0))}
    if result.supervised_test_error is not None and result.supervised_seconds is not None:
        found["softmatch: supervised twin"] = Outcome(result.supervised_test_error, result.supervised_seconds)
    return found


def scikit_learn(source: str, labels: int, seed: int) -> dict[str, Outcome]:
    """Fit the classifiers a user would try, on the same training pool, labels and test set."""
    task = prepare_job(open_again(source, make_config(find_source(source).defaults, {"labels": labels, "seed": seed})))
    pool, test = task.split.unlabeled, task.test
    assert isinstance(task.examples.items, Tensor)
    assert isinstance(test[0], Tensor)
    train_x, test_x = (items.flatten(1).double().numpy() for items in (task.examples.items[pool], test[0]))
    if source == "digits":
        train_x, test_x = train_x / 255.0, test_x / 255.0
    else:
        scaler = StandardScaler().fit(train_x)
        train_x, test_x = scaler.transform(train_x), scaler.transform(test_x)
    labelled = np.isin(pool.numpy(), task.split.labeled.numpy())
    partly = np.where(labelled, task.examples.labels[pool].numpy(), -1)
    classifiers: dict[str, Callable[[], Any]] = {
        "LabelSpreading (knn)": lambda: LabelSpreading(kernel="knn", max_iter=200),
        "LabelSpreading (rbf, γ = 20)": lambda: LabelSpreading(kernel="rbf", gamma=20, max_iter=200),
        "LabelSpreading (rbf, γ = 5)": lambda: LabelSpreading(kernel="rbf", gamma=5, max_iter=200),
        "LabelPropagation (rbf, γ = 20)": lambda: LabelPropagation(kernel="rbf", gamma=20, max_iter=5000),
        "LabelPropagation (knn)": lambda: LabelPropagation(kernel="knn", max_iter=5000),
        "self-training (SVC)": lambda: SelfTrainingClassifier(SVC(probability=True, gamma="scale", random_state=seed)),
        "SVC, labels only": lambda: SVC(gamma="scale"),
        "logistic regression, labels only": lambda: LogisticRegression(max_iter=2000),
    }
    found = {}
    for name, make in classifiers.items():
        started = time.perf_counter()
        classifier = make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # convergence and deprecation notes of scikit-learn
            alone = name.endswith("labels only")
            classifier.fit(train_x[labelled] if alone else train_x, partly[labelled] if alone else partly)
            wrong = classifier.predict(test_x) != test[1].numpy()
        found[f"scikit-learn: {name}"] = Outcome(float(wrong.mean()), time.perf_counter() - started)
    return found


def work(job: tuple[str, int, int, str]) -> dict[str, Outcome]:
    torch.set_num_threads(1)
    source, labels, seed, method = job
    return scikit_learn(source, labels, seed) if method == "scikit-learn" else ours(source, labels, seed, method)


def table(rows: dict[str, list[Outcome]]) -> str:
    lines = ["| | test error % | range | n | seconds |", "|---|---|---|---|---|"]
    for name, outcomes in sorted(rows.items(), key=lambda row: statistics.mean(o.error for o in row[1])):
        errors = [100 * outcome.error for outcome in outcomes]
        spread = statistics.stdev(errors) if len(errors) > 1 else 0.0
        seconds = statistics.mean(outcome.seconds for outcome in outcomes)
        lines.append(
            f"| {name} | {statistics.mean(errors):.2f} ± {spread:.2f} | {min(errors):.1f}–{max(errors):.1f} "
            f"| {len(errors)} | {seconds:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, help="file for every single result, in addition")
    options = parser.parse_args()
    everything = {}
    for setting in options.settings:
        source, labels = SETTINGS[setting]
        names = (*options.methods, "scikit-learn")
        jobs = [(source, labels, seed, name) for name in names for seed in range(options.seeds)]
        rows: dict[str, list[Outcome]] = {}
        with ProcessPoolExecutor(options.processes) as pool:
            for outcomes in pool.map(work, jobs):
                for name, outcome in outcomes.items():
                    rows.setdefault(name, []).append(outcome)
        defaults = make_config(find_source(source).defaults)
        title = f"{source}, {labels} labels, {defaults.steps:,} steps, seeds 0 … {options.seeds - 1}"
        print(f"\n## {title}\n\n{table(rows)}", flush=True)
        everything[setting] = {name: [vars(outcome) for outcome in outcomes] for name, outcomes in rows.items()}
    if options.json is not None:
        options.json.write_text(json.dumps(everything, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
