"""Figures of a classifier and its baseline from predictions on held-out samples, and its decision boundary."""

import base64
import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d

from softmatch.calibration import calibrate, class_figures
from softmatch.data.cells import guarded
from softmatch.data.evaluation import Evaluation
from softmatch.data.examples import Examples
from softmatch.data.preparations.sounds import SoundPreparation
from softmatch.data.records import UnreadableFile
from softmatch.files.atomic import write_atomically
from softmatch.formatting import quoted
from softmatch.metrics import error_interval
from softmatch.networks.prediction import predict_probabilities
from softmatch.runs.folder import RunFolder
from softmatch.runs.verdict import rests_on
from softmatch.training.task import Task

POINTS, SIDE = 4000, 80
SHOWN, DRAWN, GRID = 8, 240, (64, 120)
"""Series of each group in the report; values of a line, and channels and values of a grey picture, at most."""
MOST_LINES = 8
"""Channels up to which a series is drawn as lines, of the first three."""
TELLING = 3
"""Smallest number of test samples of a class for a warning that none was recognised."""
HURT = "The unlabelled data hurt: the baseline, trained on the labels only, makes fewer errors. Use --method supervised."
KEPT = (
    "The saved model is the baseline: it makes clearly fewer errors (--keep method saves the other one). It was chosen by the "
    "samples that its error is measured on."
)


@dataclass(frozen=True)
class HeldOut:
    """Predictions on held-out samples.

    Attributes:
        labels: true classes (N,).
        probs: predictions of the classifier (N, C).
        baseline: predictions of the baseline (N, C); None without one.
        names: names of the samples in a user's own data.
    """

    labels: Tensor
    probs: Tensor
    baseline: Tensor | None
    names: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Figures as fractions; differences are run minus baseline, so negative is better. Intervals are 95 %.

    Attributes:
        test_samples: number of samples that the error rests on.
        test_error: None where it could not be measured.
        test_error_interval: its interval.
        supervised_test_error: error of the baseline, the same network trained on the labels only.
        difference: test_error minus supervised_test_error.
        difference_interval: its interval.
        class_errors: error of each class by name.
        calibration: see `softmatch.calibration.Calibration`.
        classes: for each class its labelled and test samples, error, the baseline's error, precision and recall.
        measured_on: labels that the error rests on: "all", "random" or "chosen"; see `softmatch.data.evaluation.Evaluation`.
        warnings: what to know about data and figures.
    """

    test_samples: int = 0
    test_error: float | None = None
    test_error_interval: tuple[float, float] | None = None
    supervised_test_error: float | None = None
    difference: float | None = None
    difference_interval: tuple[float, float] | None = None
    class_errors: dict[str, float | None]
    calibration: dict[str, Any] | None = None
    classes: list[dict[str, Any]]
    measured_on: str = "all"
    warnings: list[str]


def baseline_wins(found: HeldOut) -> bool:
    """Tell whether the baseline makes fewer errors, beyond chance."""
    if found.baseline is None or not len(found.labels):
        return False
    interval = error_interval(*((probs.argmax(-1) != found.labels).double() for probs in (found.probs, found.baseline)))
    return interval[0] > 0


def measure_error(
    found: HeldOut, classes: Sequence[str], counts: Sequence[int], evaluation: Evaluation, kept: Tensor | None = None
) -> Measured:
    """Compute all figures.

    Args:
        counts: number of labelled training samples of each class.
        kept: predictions of the saved model, for its calibration, if they are not those of the method.
    """
    rows: list[dict[str, Any]] = [{"name": name, "labels": count} for name, count in zip(classes, counts, strict=True)]
    if not len(found.labels):
        reasons = [evaluation.reason] if evaluation.reason else []
        return Measured(class_errors=dict.fromkeys(classes), classes=rows, warnings=reasons)
    made, other = found.probs.argmax(-1), None if found.baseline is None else found.baseline.argmax(-1)
    wrong, baseline = (made != found.labels).double(), None if other is None else (other != found.labels).double()
    figures = class_figures(made, found.labels, len(classes))
    others = None if other is None else class_figures(other, found.labels, len(classes))
    for position, (row, figure) in enumerate(zip(rows, figures, strict=True)):
        supervised = None if others is None else others[position].error
        row |= {"test_samples": figure.samples, "error": figure.error, "supervised_error": supervised}
        row |= {"precision": figure.precision, "recall": figure.recall}
    interval = None if baseline is None else error_interval(wrong, baseline)
    return Measured(
        test_samples=len(found.labels),
        test_error=float(wrong.mean()),
        test_error_interval=error_interval(wrong),
        supervised_test_error=None if baseline is None else float(baseline.mean()),
        difference=None if baseline is None else float(wrong.mean() - baseline.mean()),
        difference_interval=interval,
        class_errors={row["name"]: row["error"] for row in rows},
        calibration=asdict(calibrate(found.probs if kept is None else kept, found.labels)),
        classes=rows,
        measured_on=evaluation.measured_on,
        warnings=_warnings(interval, rows, evaluation, KEPT if kept is not None else HURT),
    )


def _warnings(
    interval: tuple[float, float] | None, rows: Sequence[dict[str, Any]], evaluation: Evaluation, harm: str
) -> list[str]:
    found = []
    if interval is not None and interval[0] > 0:
        found.append(harm)
    if evaluation.reason:
        found.append(evaluation.reason)
    if evaluation.measured_on == "chosen":
        found.append(rests_on("chosen", sum(row["test_samples"] for row in rows)))
    lost = [row["name"] for row in rows if row["test_samples"] >= TELLING and row["error"] == 1.0]
    if lost:
        found.append(f"No held-out sample of {quoted(lost)} was recognised. Label more of them, or check their labels.")
    unseen = [row["name"] for row in rows if not row["test_samples"]]
    if unseen and not evaluation.reason:
        found.append(f"There is no test sample of {quoted(unseen)}: the error on them is not known.")
    return found


def pool(parts: Sequence[HeldOut]) -> HeldOut:
    """Join the predictions of all folds."""
    baselines = [part.baseline for part in parts if part.baseline is not None]
    return HeldOut(
        torch.cat([part.labels for part in parts]),
        torch.cat([part.probs for part in parts]),
        torch.cat(baselines) if len(baselines) == len(parts) else None,
        [name for part in parts for name in part.names],
    )


def write_held_out(run: RunFolder, found: HeldOut, classes: Sequence[str]) -> None:
    """Write held_out.csv: held-out samples of a user's data with label and prediction, the most confident mistakes first."""
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


def save_pictures(task: Task, found: HeldOut, run: RunFolder) -> None:
    """Write pictures.json of a run on series: the surest mistakes and the most doubtful predictions, short enough to draw."""
    source = task.examples if task.examples.test is None else task.examples.test
    items = source.items
    if source.kind != "series" or not found.names or not isinstance(items, Tensor):
        return
    places = {name: place for place, name in enumerate(source.names)}
    (confidence, predicted), wrong = found.probs.max(-1), found.probs.argmax(-1) != found.labels
    sure = [place for place in confidence.argsort(descending=True).tolist() if wrong[place]][:SHOWN]
    doubtful = [place for place in confidence.argsort().tolist() if place not in sure][:SHOWN]
    samples = []
    for group, place in [*(("mistake", place) for place in sure), *(("doubtful", place) for place in doubtful)]:
        item = items[places[found.names[place]]]
        channels, length = item.shape
        if channels <= MOST_LINES:
            item = item[:3, torch.linspace(0, length - 1, min(length, DRAWN)).long()]
        else:
            item = adaptive_avg_pool2d(item[None], (min(channels, GRID[0]), min(length, GRID[1])))[0]
        about = {"group": group, "name": found.names[place], "channels": channels, "length": length}
        classes = {"label": int(found.labels[place]), "predicted": int(predicted[place])}
        named = {key: task.examples.classes[position] for key, position in classes.items()}
        values = [[float(f"{value:.5g}") for value in row] for row in item.tolist()]
        sound = _sound_of(task, source, places[found.names[place]])
        samples.append({**about, **named, "confidence": round(float(confidence[place]), 4), "values": values, **sound})
    run.write_json("pictures.json", {"samples": samples})


def _sound_of(task: Task, source: Examples, place: int) -> dict[str, str]:
    """Sound of a recording for the report; nothing if it is not a recording, or its file is gone."""
    preparation = task.examples.preparation
    if not source.recordings or not isinstance(preparation, SoundPreparation):
        return {}
    try:
        return {"sound": base64.b64encode(preparation.as_wav(source.recordings[place])).decode()}
    except UnreadableFile:
        return {}


def _some(task: Task, most: int) -> Tensor:
    """Positions of up to about `most` training samples in order, with the first labelled ones."""
    pool, labeled = task.split.unlabeled, task.split.labeled[: most // 2]
    if len(pool) <= most:
        return pool
    return torch.tensor(sorted({*pool[:: -(-len(pool) // most)].tolist(), *labeled.tolist()}))


def save_boundary(task: Task, network: nn.Module, run: RunFolder) -> None:
    """Write boundary.json for two features and two classes: points, and the predictions on a grid around them."""
    items = task.examples.items
    if task.examples.kind != "vector" or not isinstance(items, Tensor) or items.shape[1] != 2 or len(task.examples.classes) != 2:
        return
    low, high = items.amin(0) - 0.3, items.amax(0) + 0.3
    x, y = (torch.linspace(float(low[axis]), float(high[axis]), SIDE) for axis in (0, 1))
    grid = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1).reshape(-1, 2)
    probs = predict_probabilities(network, task.views, grid, task.device)
    chosen = _some(task, POINTS)
    run.write_json(
        "boundary.json",
        {
            "x": [round(float(v), 4) for v in x],
            "y": [round(float(v), 4) for v in y],
            "probs": [[round(float(p), 3) for p in row] for row in probs[:, 1].reshape(SIDE, SIDE)],
            "points": [[round(float(v), 3) for v in point] for point in items[chosen]],
            "truth": task.examples.labels[chosen].tolist(),
            "labeled": torch.isin(chosen, task.split.labeled).nonzero().flatten().tolist(),
        },
    )
