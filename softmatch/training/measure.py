"""The honest number: what predictions of samples that were not trained on say about a classifier, and about its twin."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from softmatch.calibration import Calibration, calibrate, class_figures
from softmatch.data.cells import guarded
from softmatch.data.folds import Evaluation
from softmatch.files.atomic import write_atomically
from softmatch.formatting import quoted
from softmatch.metrics import error_interval
from softmatch.runs.folder import RunFolder

TELLING = 3
"""Test samples of a class from which on it means something that none was recognised."""
HURT = "The unlabelled data hurt: the network trained on the labels alone makes fewer errors. Use --method supervised."


@dataclass(frozen=True)
class HeldOut:
    """Predictions of samples that were not trained on.

    Attributes:
        labels: (N,) the true classes.
        probs: (N, C) of the classifier.
        twin: (N, C) of the network trained on the labels alone, on the same samples; None without a twin.
        names: of the samples, where the data are a user's own.
    """

    labels: Tensor
    probs: Tensor
    twin: Tensor | None
    names: Sequence[str] = ()

    @property
    def wrong(self) -> Tensor:
        return self.probs.argmax(-1) != self.labels

    @property
    def twin_wrong(self) -> Tensor | None:
        return None if self.twin is None else self.twin.argmax(-1) != self.labels


@dataclass(frozen=True)
class Measured:
    """All figures, as fractions; differences are the run minus its twin, so negative is better. Intervals are 95 %."""

    error: float | None
    error_interval: tuple[float, float] | None
    twin_error: float | None
    difference: float | None
    difference_interval: tuple[float, float] | None
    calibration: Calibration | None
    classes: list[dict[str, Any]]
    warnings: list[str]


def measure_error(found: HeldOut | None, classes: Sequence[str], counts: Sequence[int], evaluation: Evaluation) -> Measured:
    """Everything that can be said.

    Args:
        found: None where nothing was held out.
        counts: labelled training samples of each class.
    """
    rows: list[dict[str, Any]] = [{"name": name, "labels": count} for name, count in zip(classes, counts, strict=True)]
    if found is None or not len(found.labels):
        return Measured(None, None, None, None, None, None, rows, [evaluation.reason] if evaluation.reason else [])
    wrong, twin = found.wrong, found.twin_wrong
    figures = class_figures(found.probs.argmax(-1), found.labels, len(classes))
    twin_figures = None if found.twin is None else class_figures(found.twin.argmax(-1), found.labels, len(classes))
    for position, row in enumerate(rows):
        row |= {
            "test_samples": figures[position].samples,
            "error": figures[position].error,
            "supervised_error": None if twin_figures is None else twin_figures[position].error,
            "precision": figures[position].precision,
            "recall": figures[position].recall,
        }
    difference = None if twin is None else float(wrong.double().mean() - twin.double().mean())
    interval = None if twin is None else error_interval(wrong, twin)
    return Measured(
        error=float(wrong.double().mean()),
        error_interval=error_interval(wrong),
        twin_error=None if twin is None else float(twin.double().mean()),
        difference=difference,
        difference_interval=interval,
        calibration=calibrate(found.probs, found.labels),
        classes=rows,
        warnings=_warnings(interval, rows, evaluation),
    )


def _warnings(interval: tuple[float, float] | None, rows: Sequence[dict[str, Any]], evaluation: Evaluation) -> list[str]:
    found = []
    if interval is not None and interval[0] > 0:
        found.append(HURT)
    if evaluation.reason:
        found.append(evaluation.reason)
    lost = [row["name"] for row in rows if row["test_samples"] >= TELLING and row["error"] == 1.0]
    if lost:
        found.append(f"No held-out sample of {quoted(lost)} was recognised. Label more of them, or check their labels.")
    unseen = [row["name"] for row in rows if not row["test_samples"]]
    if unseen and not evaluation.reason:
        found.append(f"There is no test sample of {quoted(unseen)}: how well they are recognised is not known.")
    return found


def pool(parts: Sequence[HeldOut]) -> HeldOut:
    """The predictions of all folds."""
    twins = [part.twin for part in parts if part.twin is not None]
    return HeldOut(
        torch.cat([part.labels for part in parts]),
        torch.cat([part.probs for part in parts]),
        torch.cat(twins) if len(twins) == len(parts) else None,
        [name for part in parts for name in part.names],
    )


def write_held_out(run: RunFolder, found: HeldOut, classes: Sequence[str]) -> None:
    """Write held_out.csv: each held-out sample of a user's data with label and prediction, the surest mistakes first."""
    if not found.names:
        return
    confidence, predicted = found.probs.max(-1)
    wrong = predicted != found.labels
    order = torch.where(wrong, -confidence, 1 + confidence).argsort(stable=True).tolist()
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["name", "label", "predicted", "confidence", "right"])
    for i in order:
        row = [found.names[i], classes[int(found.labels[i])], classes[int(predicted[i])]]
        table.writerow([*map(guarded, row), f"{float(confidence[i]):.4f}", "no" if wrong[i] else "yes"])
    write_atomically(run.path / "held_out.csv", text.getvalue().encode("utf-8", "replace"))
