"""Learning curve of a run: its error with a quarter, half and three quarters of the labels, and what more labels would bring."""

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from softmatch.data import Split
from softmatch.data.evaluation import FEWEST, deal, measurable, without
from softmatch.data.examples import UNLABELED
from softmatch.errors import InputError
from softmatch.formatting import aligned, percent
from softmatch.methods import BASELINE
from softmatch.metrics import wilson_interval
from softmatch.networks import Network
from softmatch.report import write_report
from softmatch.runs.folder import RunFolder, is_finished
from softmatch.training.fit import Fit, Watcher, fit
from softmatch.training.inputs import fold_task
from softmatch.training.opening import open_again
from softmatch.training.resume import IN_MEMORY, read_settings, refuse_unnamed_code
from softmatch.training.setup import build_method, prepare_job, restored_state
from softmatch.training.stop import Stop
from softmatch.training.task import Task
from softmatch.views.own_views import OWN

CURVE_FILE, FOLDER = "curve.json", "curve"
PARTS = 4
"""Parts of the labels: trainings use one, two or three of them."""
AHEAD = (2, 4)
"""Multiples of the labels for which the error is predicted."""
DRAWS = 4000
USUAL, DOUBT = 0.5, 0.5
"""Exponent that is expected before anything is measured, and its standard deviation: few tested samples say little about it."""
CLEAR = 0.1
"""Share of the error that twice the labels must save at least for the sentence that they would help."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Trained:
    """One training: the parts of the labels that it used (0: all), their number, and how many tested samples were wrong."""

    parts: int
    labels: int
    wrong: int
    tested: int


@dataclass(frozen=True)
class Point:
    """Error with a number of labels; the interval is 95 %, of the error of one training for a prediction."""

    labels: int
    error: float
    interval: tuple[float, float]
    trainings: int = 0


@dataclass(frozen=True)
class LearningCurve:
    """Error against the number of labels.

    Attributes:
        run: the run folder.
        measured: from few labels to all of them.
        predicted: for more labels than there are.
        exponent: b of the power law error = a · labels^(−b), drawn towards 0.5.
        exponent_interval: the 95 % interval of the measured errors alone.
        tested: what the errors were measured on.
    """

    run: Path
    measured: tuple[Point, ...]
    predicted: tuple[Point, ...]
    exponent: float
    exponent_interval: tuple[float, float]
    tested: str

    @property
    def verdict(self) -> str:
        """Say whether more labels would help."""
        now, more = self.measured[-1], self.predicted[0]
        said = f"with {more.labels:,} labels, the error is expected at {percent(more.error)} ({_range(more)})"
        if self.exponent_interval[0] <= 0:
            return f"It is open whether more labels would help: {said}, and it is {percent(now.error)} with {now.labels:,}."
        if now.error <= 0 or (now.error - more.error) / now.error < CLEAR:
            return f"More labels would hardly help: {said}, after {percent(now.error)} with {now.labels:,}."
        return f"More labels would help: {said}, after {percent(now.error)} with {now.labels:,}."

    def describe(self) -> str:
        """The table, and what it says."""
        rows = [("labels", "error", "95 % interval", "")]
        rows += [(f"{p.labels:,}", percent(p.error), _range(p), _trainings(p)) for p in self.measured]
        rows += [(f"{p.labels:,}", percent(p.error), _range(p), "predicted") for p in self.predicted]
        return "\n".join([*aligned(rows, ">>><"), "", self.verdict, self.tested, f"In the report: {self.run / 'report.html'}"])


def learning_curve(
    run: Path | str,
    source: Any = None,
    *,
    method: str | None = None,
    network: Network | None = None,
    views: str | None = None,
    watcher: Watcher | None = None,
) -> LearningCurve:
    """Train a run again with parts of its labels, and predict its error with more labels.

    Twelve trainings, four each with a quarter, half and three quarters of the labels, are measured on the labels left out, or on
    the test samples of the run where it has some. A power law through them and the run's own error gives the prediction. The
    result is written to curve.json and into the report of the run. An interrupted curve goes on where it was stopped.

    Args:
        run: folder of a finished run.
        source: the data, if they are elsewhere now.
        method, network, views: your own, for a run with such: their code is run only if you name it here.
        watcher: an object that shows the course of the trainings.

    Returns:
        The errors, measured and predicted.

    Raises:
        InputError: the run is not finished, its error was not measured, its data have changed, or it has too few labels.

    Example:
        >>> len(learning_curve("runs/mine").measured)
        4
    """
    folder = RunFolder(Path(run))
    if not is_finished(folder.path):
        raise InputError(f"{run} is not a finished run. Train it to the end first.")
    result = folder.read_json("result.json")
    if not isinstance(result, dict) or not result.get("test_samples"):
        raise InputError(f"{run}: its error was not measured, so that nothing can be compared with it. Label more samples first.")
    where, config = read_settings(folder.path)
    if source is None and where in IN_MEMORY:
        raise InputError(f"{run} was trained on {where}. Use softmatch.learning_curve(run, source) in Python.")
    if result.get("kept") == BASELINE:
        config = config.model_copy(update={"method": BASELINE, "method_options": {}})
    refuse_unnamed_code(config, {"method": method, "views": {OWN: views}}, network, folder.path)
    with restored_state(), folder.locked(), Stop() as stop:
        task = prepare_job(open_again(where if source is None else source, config), network)
        written = folder.read_json("split.json") or {}
        if any(written.get(key) != value for key, value in task.split.as_dict().items()):
            raise InputError(f"the data or labels of {run} have changed since it was trained. Train again, then draw the curve.")
        if len(task.split.labeled) < FEWEST:
            raise InputError(f"{run} has {len(task.split.labeled)} labels; a curve needs {FEWEST} or more.")
        trained = _train_parts(task, folder, config.method, watcher, stop)
    curve = _complete(folder.path, task, trained, result)
    folder.write_json(CURVE_FILE, {**{k: v for k, v in asdict(curve).items() if k != "run"}, "verdict": curve.verdict})
    write_report(folder)
    shutil.rmtree(folder.path / FOLDER, ignore_errors=True)
    return curve


def _train_parts(task: Task, folder: RunFolder, role: str, watcher: Watcher | None, stop: Stop) -> list[Trained]:
    """Train with one, two and three of the parts of the labels, each time with every part once at every place."""
    found = list[Trained]()
    splits = [(number, split) for number in range(1, PARTS) for split in _splits(task, number)]
    for place, (number, split) in enumerate(splits, 1):
        part = fold_task(task, split)
        labels, name = len(split.labeled), f"{place}/{len(splits)}"
        to = Fit(RunFolder(folder.path / FOLDER / str(place)), f"{name} with {labels:,}", watcher, stop, keep=False)
        fitted = fit(part, build_method(part, role), to)
        truth = part.test[1]
        found.append(Trained(number, labels, int((fitted.probs.argmax(-1) != truth).sum()), len(truth)))
    return found


def _splits(task: Task, number: int) -> list[Split]:
    """Splits with `number` of the parts of the labels; the others are tested, where the run has no test samples of its own."""
    whole, labels = task.split, task.examples.labels
    groups = torch.arange(len(task.examples)) if task.examples.groups is None else task.examples.groups
    part_of = deal(labels, groups, whole.labeled, PARTS, whole.seed, labels != UNLABELED)
    fair = measurable(task.examples)[0] if task.evaluation.measured_on == "random" else labels != UNLABELED
    found = []
    for first in range(PARTS):
        used = torch.isin(part_of, torch.tensor([(first + k) % PARTS for k in range(number)])) | (part_of < 0)
        used = _with_every_class(used, labels[whole.labeled], groups[whole.labeled])
        if task.evaluation.kind == "crossfit":
            tested = without(whole, groups, whole.labeled[~used & fair[whole.labeled]])
            found.append(replace(tested, labeled=whole.labeled[used]))
        else:
            found.append(replace(whole, labeled=whole.labeled[used]))
    return found


def _with_every_class(used: Tensor, labels: Tensor, groups: Tensor) -> Tensor:
    """Use the first sample of a class that would have none, with its copies."""
    for label in sorted(set(labels.tolist()) - set(labels[used].tolist())):
        used = used | (groups == groups[labels == label][0])
    return used


def _complete(run: Path, task: Task, trained: Sequence[Trained], result: dict[str, Any]) -> LearningCurve:
    """Add the error of the run itself to that of the trainings, and predict."""
    kept = "supervised_test_error" if result.get("kept") == BASELINE else "test_error"
    tested, folds = int(result["test_samples"]), task.evaluation.folds
    labels = round(sum(len(fold.labeled) for fold in folds) / len(folds)) if folds else len(task.split.labeled)
    everything = [*trained, Trained(0, labels, round(float(result[kept]) * tested), tested)]
    points = [_point([t for t in everything if t.parts == number], tested) for number in (*range(1, PARTS), 0)]
    predicted, exponent, interval = extrapolate(everything, [multiple * len(task.split.labeled) for multiple in AHEAD], tested)
    if task.evaluation.kind == "crossfit":
        said = f"Measured on {tested:,} labelled samples by networks that were not trained on them."
    else:
        said = f"Measured on {tested:,} {'test' if task.evaluation.kind == 'test' else 'held-out'} samples."
    return LearningCurve(run, tuple(points), tuple(predicted), exponent, interval, said)


def _point(trained: Sequence[Trained], distinct: int) -> Point:
    """Mean error of trainings with about the same number of labels; their tested samples are counted once."""
    error = sum(t.wrong for t in trained) / sum(t.tested for t in trained)
    number = min(distinct, sum(t.tested for t in trained))
    labels = round(sum(t.labels for t in trained) / len(trained))
    return Point(labels, error, wilson_interval(round(error * number), number), len(trained))


def extrapolate(
    trained: Sequence[Trained], ahead: Sequence[int], distinct: int
) -> tuple[list[Point], float, tuple[float, float]]:
    """Predict the error with these numbers of labels by a power law, error = a · labels^(−b), where b is about 0.5 ± 0.5.

    The interval is that of a single training. Errors are drawn from their posterior (Jeffreys' prior), with the spread between
    trainings with equally many labels; all share the chance of which samples are tested, as they are tested on the same ones.

    Args:
        distinct: number of different samples that were tested in all.
    """
    labels, wrong, tested = (np.array([getattr(t, key) for t in trained], dtype=float) for key in ("labels", "wrong", "tested"))
    generator, position = np.random.default_rng(0), np.log(labels / labels.max())
    rate = (wrong + 0.5) / (tested + 1.0)
    noise = (1 - rate) / (wrong + 0.5)  # variance of the logarithm of a rate
    spread = _between([t.parts for t in trained], np.log(rate), noise)
    weight = 1.0 / (noise + spread)
    drawn = generator.beta(wrong + 0.5, tested - wrong + 0.5, size=(DRAWS, len(labels)))
    values = np.log(np.maximum(drawn, 1e-6)) + generator.normal(0.0, spread**0.5, drawn.shape)
    offset, slope = _lines(position, values, weight, generator.normal(USUAL, DOUBT, DRAWS))
    level = wrong.sum() / tested.sum()
    common = (1 - level) / (level * distinct + 0.5)
    single = generator.normal(0.0, (spread + common) ** 0.5, DRAWS)
    (start,), (exponent,) = _lines(position, np.log(rate)[None], weight, np.array([USUAL]))
    points = []
    for number in ahead:
        far = float(np.log(number / labels.max()))
        low, high = np.quantile(np.exp(offset - slope * far + single), (0.025, 0.975))
        points.append(Point(number, float(np.exp(start - exponent * far)), (float(low), float(min(high, 1.0)))))
    low, high = np.quantile(_lines(position, values, weight)[1], (0.025, 0.975))
    return points, float(exponent), (float(low), float(high))


def _between(parts: Sequence[int], values: Array, noise: Array) -> float:
    """Variance of the logarithm of the error between trainings with equally many labels, beyond that of counting."""
    squares, freedom = 0.0, 0
    for number in set(parts):
        same = np.array(parts) == number
        if same.sum() > 1:
            squares += float(((values[same] - values[same].mean()) ** 2).sum() - noise[same].mean() * (same.sum() - 1))
            freedom += int(same.sum()) - 1
    return max(squares / freedom, 0.0) if freedom else 0.0


def _lines(position: Array, values: Array, weight: Array, expected: Array | None = None) -> tuple[Array, Array]:
    """Weighted least squares: value at position 0 of each row, and how fast it falls.

    Args:
        expected: slope that counts like one more measurement, with the standard deviation `DOUBT`; the slope is then not
            below 0, as labels do no harm.
    """
    middle = (weight * position).sum() / weight.sum()
    mean = (values * weight).sum(1) / weight.sum()
    away = position - middle
    fall, size = -(values * (weight * away)).sum(1), (weight * away**2).sum()
    slope = fall / size if expected is None else np.maximum((fall + expected / DOUBT**2) / (size + DOUBT**-2), 0.0)
    return mean + slope * middle, slope


def _range(point: Point) -> str:
    return f"{percent(point.interval[0])} to {percent(point.interval[1])}"


def _trainings(point: Point) -> str:
    return "the run" if point.trainings == 1 else f"{point.trainings} trainings"
