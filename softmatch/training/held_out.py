"""held_out.csv: every held-out sample with its given label and the prediction, so that its owner can look at the mistakes."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import torch

from softmatch.data.cells import guarded
from softmatch.files.atomic import write_atomically
from softmatch.runs.folder import RunFolder
from softmatch.training.measure import HeldOut


def write_held_out(run: RunFolder, found: HeldOut, classes: Sequence[str]) -> None:
    """Samples of a user's own that were not trained on: the surest mistakes first, for these are often wrong labels."""
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
