"""A small run folder as training leaves it, with switches for what may be missing or strange."""

import json
import math
from pathlib import Path
from typing import Any

import torch
import yaml

from softmatch.calibration import Calibration, calibrate
from softmatch.metrics import BINS
from softmatch.runs.folder import RunFolder

STEPS, EVERY = 60, 5
CLASSES = ("upper", "lower")
Record = dict[str, Any]


def make_run(
    path: Path,
    *,
    method: str = "softmatch",
    classes: tuple[str, ...] = CLASSES,
    twin: bool = True,
    finished: bool = True,
    truth: bool = True,
    boundary: bool = True,
    steps: int = STEPS,
    evaluation: str | None = None,
    result: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
) -> RunFolder:
    """Write the folder's files; `result` and `settings` replace single figures.

    With an `evaluation` (test, holdout, crossfit, none) the run is one on a user's own data; without, an older run.
    """
    run = RunFolder.create(path)
    twin = twin and method != "supervised"
    config = {"source": "two-moons", "labels": 4, "method": method, "steps": steps, "seed": 0, "twin": twin, "lr": 0.03}
    (path / "config.yaml").write_text(yaml.safe_dump({**config, "method_options": {}, **(settings or {})}, sort_keys=False))
    run.write_json("split.json", {"seed": 0, "labeled": [0, 1, 2, 3], "unlabeled": list(range(1200)), "test": [1200, 1201]})
    for step in range(EVERY, steps + 1, EVERY):
        measured = evaluation != "none"
        run.append_record(make_record(step, len(classes), method, truth, measured))
        if twin:
            run.baseline().append_record(make_record(step, len(classes), "supervised", measured=measured))
    if boundary:
        run.write_json("boundary.json", make_boundary())
        if twin:
            run.baseline().write_json("boundary.json", make_boundary())
    if finished:
        found = make_result(method, classes, twin, truth, steps) | (make_own(evaluation, classes, twin) if evaluation else {})
        run.write_json("result.json", found | (result or {}))
    return run


def make_result(method: str, classes: tuple[str, ...], twin: bool, truth: bool, steps: int) -> Record:
    pseudo = method != "supervised"
    return {
        "run": None,
        "method": method,
        "labels": 4,
        "steps": steps,
        "seed": 0,
        "test_samples": 1539,
        "test_error": 0.026,
        "test_error_interval": [0.018, 0.034],
        "supervised_test_error": 0.154 if twin else None,
        "difference": -0.128 if twin else None,
        "difference_interval": [-0.159, -0.098] if twin else None,
        "quantity": 0.9 if pseudo else None,
        "quality": 0.87 if pseudo and truth else None,
        "seconds": 75.4,
        "supervised_seconds": 9.1 if twin else None,
        "class_errors": dict.fromkeys(classes, 0.1),
        "versions": {"softmatch": "0.1.0", "torch": "2.13.0", "python": "3.11.7"},
    }


def make_own(evaluation: str, classes: tuple[str, ...], twin: bool) -> Record:
    """What result.json holds besides, for a user's own data."""
    samples, folds = (None, None) if evaluation == "none" else (240, 5 if evaluation == "crossfit" else None)
    reason = "3 labelled samples are too few: label 20 or more, or give a test set." if samples is None else None
    labels = [4 + 3 * (place % 5) for place in range(len(classes))]
    own: Record = {
        "evaluation": {"kind": evaluation, "samples": samples or 0, "folds": folds, "reason": reason},
        "calibration": make_calibration(samples).as_dict() if samples else None,
        "classes": [
            {
                "name": name,
                "labels": labels[place],
                "test_samples": (samples or 0) // len(classes) + place % 2 if samples else 0,
                "error": (place * 7 % 20) / 20 if samples else None,
                "supervised_error": (place * 3 % 20) / 20 if samples and twin else None,
                "precision": None if place % 9 == 8 or not samples else 1 - (place * 7 % 20) / 25,
                "recall": 1 - (place * 7 % 20) / 20 if samples else None,
            }
            for place, name in enumerate(classes)
        ],
        "warnings": [reason, "The class “lower” has one label only: label a few more of it."] if reason else [],
        "test_samples": samples or 0,
        "labels": {"crossfit": samples, "none": 3}.get(evaluation, 100),
    }
    if not samples:
        unknown = ("test_error", "test_error_interval", "supervised_test_error", "difference", "difference_interval")
        own |= dict.fromkeys(unknown) | {"class_errors": dict.fromkeys(classes)}
    return own


def make_calibration(samples: int, temperature: float = 2.5, num_classes: int = 5) -> Calibration:
    """Of a network whose logits are `temperature` times too large."""
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(samples, num_classes, generator=generator)
    labels = torch.multinomial(torch.softmax(logits, -1), 1, generator=generator).flatten()
    return calibrate(torch.softmax(logits * temperature, -1), labels)


def make_record(step: int, num_classes: int, method: str = "softmatch", truth: bool = True, measured: bool = True) -> Record:
    """One line of metrics.jsonl, with figures that move as training goes on."""
    record: Record = {"step": step, "seconds": step / 10, "lr": 0.03, "loss": 2 / step, "supervised_loss": 1 / step}
    if method != "supervised":
        progress = step / STEPS
        total = [0] * (BINS - 10) + [20 + step * place for place in range(10)]
        wrong = [n // 4 if truth else 0 for n in total]
        record |= {
            "unsupervised_loss": 1 / step,
            "samples": sum(total),
            "quantity": 0.5 + 0.4 * progress,
            "quality": 0.6 + 0.3 * progress if truth else None,
            "utilization": 1.0,
            "classes": {
                "samples": [10 + num_classes - c for c in range(num_classes)],
                "quantity": [0.5 + 0.4 * progress - 0.3 * c / num_classes for c in range(num_classes)],
                "quality": [0.8 if truth else None] * num_classes,
                "unaligned_quantity": [0.4 + 0.5 * c / num_classes for c in range(num_classes)],
            },
            "histogram": {
                "all": total,
                "wrong": wrong,
                "right": [a - w if truth else 0 for a, w in zip(total, wrong, strict=True)],
            },
        }
        grid = [1 / num_classes + (1 - 1 / num_classes) * place / 100 for place in range(101)]
        record["curve"] = {"confidence": grid, "weight": [math.exp(-(((1 - x) * 5) ** 2)) for x in grid]}
    record["statistics"] = STATISTICS.get(method, {})
    if measured:
        record["test_error"] = 0.02 + 0.3 / step if method != "supervised" else 0.15
        record["test_class_errors"] = [0.1] * num_classes
    return record


STATISTICS: dict[str, Record] = {
    "softmatch": {"mean": 0.9, "variance": 0.04, "marginal": [0.4, 0.6]},
    "freematch": {"threshold": 0.9, "class_thresholds": [0.8, 0.9]},
    "dash": {"loss_threshold": 0.05},
    "mine.py:own": {"temperature": 0.5},
}


def make_boundary(side: int = 12) -> Record:
    axis = [-1 + 2 * place / (side - 1) for place in range(side)]
    return {
        "x": axis,
        "y": axis,
        "probs": [[round(1 / (1 + math.exp(-5 * (x + y))), 3) for x in axis] for y in axis],
        "points": [[math.cos(place), math.sin(place)] for place in range(30)],
        "truth": [place % 2 for place in range(30)],
        "labeled": [0, 1],
    }


def rewrite_records(run: RunFolder, change: Any) -> None:
    """Apply `change` to every record of the run."""
    records = run.records()
    for record in records:
        change(record)
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
