"""Measure test errors on the embedded sources: softmatch's methods and those of scikit-learn, on the same splits.

    python benchmarks/embedded.py --first-seed 1000 --seeds 20      # everything, on seeds that no setting was chosen on
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
        found["softmatch: baseline, labels only"] = Outcome(result.supervised_test_error, result.supervised_seconds)
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


def read_store(path: Path | None) -> dict[str, dict[str, Outcome]]:
    """Read the outcomes of earlier jobs, by job."""
    if path is None or not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {line["job"]: {name: Outcome(**outcome) for name, outcome in line["rows"].items()} for line in lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--methods", nargs="+", default=[*METHODS, "scikit-learn"])
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--store", type=Path, help="file for every outcome; a job whose outcome it holds is not run again")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    stored = read_store(options.store)
    for setting in options.settings:
        source, labels = SETTINGS[setting]
        jobs = [(source, labels, seed, name) for seed in seeds for name in options.methods]
        missing = [job for job in jobs if str(job) not in stored]
        with ProcessPoolExecutor(options.processes) as pool:
            for job, outcomes in zip(missing, pool.map(work, missing), strict=True):
                stored[str(job)] = outcomes
                if options.store is not None:
                    rows = {name: vars(outcome) for name, outcome in outcomes.items()}
                    with options.store.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({"job": str(job), "rows": rows}, ensure_ascii=False) + "\n")
        found: dict[str, list[Outcome]] = {}
        for job in jobs:
            for name, outcome in stored[str(job)].items():
                found.setdefault(name, []).append(outcome)
        steps = make_config(find_source(source).defaults).steps
        print(f"\n## {source}, {labels} labels, {steps:,} steps, seeds {seeds[0]} … {seeds[-1]}\n\n{table(found)}", flush=True)


if __name__ == "__main__":
    main()
