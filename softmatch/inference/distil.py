"""Distillation: a small model without the encoder, trained on the pseudo-labels of a finished run; both in one table."""

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softmatch.config import RUN_SETTINGS
from softmatch.data import Split
from softmatch.data.pictures import ImageFiles
from softmatch.data.preparations.encoder_features import EncoderPreparation
from softmatch.data.records import Inputs
from softmatch.errors import InputError
from softmatch.formatting import aligned, percent
from softmatch.inference.predict import use_device
from softmatch.inference.pseudo_labels import judge_pool
from softmatch.inference.unlabeled_pool import Pool, open_pool
from softmatch.methods import BASELINE
from softmatch.methods.base import DISTIL
from softmatch.metrics import wilson_interval
from softmatch.networks import ENCODER, Network, is_own
from softmatch.runs.folder import RunFolder, is_finished, refuse_used
from softmatch.runs.model import Model, load_model
from softmatch.training.fit import Fit, Watcher, fit
from softmatch.training.inputs import fold_task
from softmatch.training.job import Result, run_job
from softmatch.training.opening import Job, choose_evaluation, open_again, open_job, split_seed
from softmatch.training.resume import decide, refuse_unnamed_code
from softmatch.training.setup import build_method, prepare_job, restored_state
from softmatch.training.stop import Stop
from softmatch.training.task import Task
from softmatch.views.own_views import OWN

SMALL = "small"
"""The model that the defaults of the data choose without an encoder."""
SAME = (
    *("data", "unlabeled", "label_column", "text_column", "feature_columns", "series_column", "time_column", "arrays"),
    *("augmented", "train_per_class"),
    *("validation_per_class", "labels", "imbalance", "unlabeled_imbalance", "largest_class_labels"),
    *("largest_class_unlabeled", "test", "evaluation", "folds", "test_fraction", "seed"),
    *("labels_from", "prefer"),
)
"""Settings that the student takes from the run: they decide about the data and the split."""
TIMED, SECONDS = 64, 1.0
"""Number of samples that predictions are timed on, and the least time of all passes."""


@dataclass(frozen=True)
class Side:
    """Figures of the teacher or the student.

    Attributes:
        parameters: of the network and, if there is one, of the encoder.
        megabytes: weights, encoder and preparation, in 10⁶ bytes.
        samples_per_second: of predictions, from files, texts or rows to probabilities.
        error: on the test samples; None where it was not measured.
    """

    network: str
    parameters: int
    megabytes: float
    samples_per_second: float
    error: float | None
    error_interval: tuple[float, float] | None


@dataclass(frozen=True)
class DistilledModel:
    """A distilled model, beside its teacher.

    Attributes:
        baseline_error: error of the student's network trained on the labels only; None without a baseline.
        weight: mean λ of the pseudo-labels.
        reason: why all weights are 1; "" where they are those of the method.
    """

    run: Path
    teacher: Side
    student: Side
    baseline_error: float | None
    measured: str
    weight: float
    reason: str
    machine: str

    def describe(self) -> str:
        """The table, and what to do next."""
        rows = [("", "network", "parameters", "MB", "samples/s", "error", "95 % interval")]
        for name, side in (("teacher", self.teacher), ("student", self.student)):
            low, high = map(percent, side.error_interval or (None, None))
            interval = "–" if side.error_interval is None else f"{low} to {high}"
            sizes = f"{side.parameters:,}", f"{side.megabytes:,.1f}", f"{side.samples_per_second:,.0f}"
            rows.append((name, side.network, *sizes, percent(side.error), interval))
        if self.baseline_error is not None:
            rows.append(("student, labels only", "", "", "", "", percent(self.baseline_error), ""))
        weights = f"Mean weight λ of the pseudo-labels: {self.weight:.3f}."
        said = f"All pseudo-labels have the weight 1 ({self.reason})." if self.reason else weights
        return "\n".join(
            [*aligned(rows, "<<>>>>>"), "", self.measured, f"Predictions were timed on {self.machine}.", said, str(self.run)]
        )


def distil(
    run: Path | str,
    out: Path | str,
    source: Any = None,
    *,
    model: str = SMALL,
    measure: bool = True,
    method: str | None = None,
    network: Network | None = None,
    views: str | None = None,
    encoder_path: Path | str | None = None,
    device: str = "auto",
    watcher: Watcher | None = None,
    **settings: Any,
) -> DistilledModel:
    """Train a small model on the labels, and on the soft pseudo-labels and weights λ of a finished run.

    The student has the split of the run. Test samples and held-out ones reach neither model, also not as pseudo-labels. In a
    cross-fit the teacher is trained again for each fold without its samples, since the run's own model has seen their labels.

    Args:
        run: folder of a finished run, the teacher.
        out: run folder of the student. An unfinished one of the same call is resumed.
        source: the data, if they are elsewhere now.
        model: "small", the network that the data get without an encoder; or a name of `build_network`.
        measure: False leaves out the folds of a cross-fit; the error of the student is then not measured.
        method: your own, for a run with one: its file is run only if you name it here. Without it all weights are 1.
        network, views: your own, for a run with such; see `load_model`.
        encoder_path: new place of the encoder of the run.
        device: "auto", "cpu", "cuda", …
        watcher: an object that shows the course of the training.
        settings: further settings of the student, such as steps; see `train`.

    Returns:
        Figures of the teacher and of the student.

    Raises:
        InputError: run, data or settings cannot be used.

    Example:
        >>> distil("runs/mine", out="runs/small", steps=2, measure=False).run.name
        'small'
    """
    out = Path(out)
    if is_finished(out) or not (out / RUN_SETTINGS).is_file():
        refuse_used(out)  # now, not after minutes
    if model.startswith(ENCODER):
        raise InputError(f"--model {model} has an encoder, and a distilled model is one without. Give another network.")
    pool = open_pool(run, source, device, network, encoder_path, views)
    job = _open_student(pool, run, out, model, measure, {"device": device, **_views(pool, views), **settings})
    written = RunFolder(Path(run)).read_json("result.json")
    known: Mapping[str, Any] = written if isinstance(written, dict) else {}
    teacher = _Teacher(pool, Path(run), out, method, network, views, watcher, known.get("kept") == BASELINE)
    if folds := choose_evaluation(job).folds:
        teacher.prepare_folds(folds)
    job = replace(job, teacher=teacher)
    found, _ = decide(job, True, lambda unfinished: True)
    result = run_job(job, watcher, run=found)
    student = load_model(out, model if is_own(model) else None, views)
    use_device(student, pool.task.device)
    inputs, threads = pool.inputs(TIMED), torch.get_num_threads()
    return DistilledModel(
        run=out,
        teacher=_describe(pool.model, Path(run), inputs, *_error_of(known)),
        student=_describe(student, out, inputs, result.test_error, result.test_error_interval),
        baseline_error=result.supervised_test_error,
        measured=_measured(result) if measure else "The error of the student was not measured (--no-measure).",
        weight=float(teacher(pool.task.split)[1].double().mean()),
        reason=teacher.reason,
        machine=f"{pool.task.device.type}, {threads} {'thread' if threads == 1 else 'threads'}",
    )


def _open_student(pool: Pool, run: Path | str, out: Path, model: str, measure: bool, settings: Mapping[str, Any]) -> Job:
    """Read the data without the encoder, and check that samples and split are those of the run."""
    config = pool.task.config
    given = config.model_dump(include={*SAME, *(("image_size",) if config.encoder is None else ())})
    given |= {"split_seed": split_seed(config), "out": out, "method": DISTIL, "teacher": "network", "keep": "method"}
    given["method_options"] = {"teacher": str(Path(run).resolve())}
    if model != SMALL:
        given["network"] = model
    job = open_job(pool.source, given, settings, resuming=True)
    if not measure:
        if choose_evaluation(job).kind != "crossfit":
            raise InputError(f"--no-measure is for runs that are measured by a cross-fit, and {run} is not. Leave it out.")
        job = replace(job, config=job.config.model_copy(update={"evaluation": "none"}))
    ours, theirs = job.examples, pool.examples
    if list(ours.names) != list(theirs.names) or not torch.equal(ours.labels, theirs.labels):
        raise InputError(f"{job.source} has other samples when it is read without the encoder of {run}: a file cannot be read.")
    if not _same(choose_evaluation(job).final, pool.task.split):
        raise InputError(f"the split of {run} cannot be made again: {job.source} has more labels now. Train again, then distil.")
    return job


@dataclass
class _Teacher:
    """Soft pseudo-labels and weights λ of a split: by the run's own model; for a fold, by a model trained without its samples."""

    pool: Pool
    run: Path
    out: Path
    method: str | None
    network: Network | None
    views: str | None
    watcher: Watcher | None
    baseline: bool
    """The saved model of the run is its baseline."""
    reason: str = ""
    _task: Task | None = None
    _known: tuple[Tensor, Tensor] | None = None

    def prepare_folds(self, folds: tuple[Split, ...]) -> None:
        """Read the data as the run did, to train again for each fold. Code that its settings name must be named by the user."""
        config = self.pool.task.config
        if self.baseline:
            config = config.model_copy(update={"method": BASELINE, "method_options": {}})
        refuse_unnamed_code(config, {"method": self.method, "views": {OWN: self.views}}, self.network, self.run)
        with restored_state():
            task = prepare_job(open_again(self.pool.source, config), self.network)
        build_method(task, config.method)  # reports a wrong option before anything is written
        theirs = task.evaluation.folds
        if len(theirs) != len(folds) or not all(_same(*pair) for pair in zip(theirs, folds, strict=True)):
            raise InputError(f"the folds of {self.run} cannot be made again. Give --no-measure, or train it again.")
        self._task = task

    def __call__(self, split: Split) -> tuple[Tensor, Tensor]:
        if not _same(split, self.pool.task.split):
            return self._train_without(split)
        if self._known is None:
            self._known = self._judge(self.pool, self.run)
        return self._known

    def _judge(self, pool: Pool, run: Path) -> tuple[Tensor, Tensor]:
        """p(y | u), before the temperature, which was fitted to test samples; and λ, 1 where the method has none."""
        probs = pool.probabilities()
        _, weights, self.reason = judge_pool(pool, run, None if self.baseline else self.method, probs)
        return probs, torch.ones(len(probs)) if weights is None else weights.float()

    def _train_without(self, split: Split) -> tuple[Tensor, Tensor]:
        assert self._task is not None, "prepare_folds comes first"
        folds = self._task.evaluation.folds
        number = next(place for place, fold in enumerate(folds, 1) if _same(fold, split))
        folder, task = RunFolder(RunFolder(self.out).fold(number).path / "teacher"), fold_task(self._task, split)
        method = build_method(task, task.config.method)
        with restored_state(), Stop() as stop:
            fit(task, method, Fit(folder, f"{number}/{len(folds)} teacher", self.watcher, stop))
            model = load_model(folder.path, self.network, self.views)
            use_device(model, task.device)
            found = self._judge(Pool(model, task, self.pool.source), folder.path)
        shutil.rmtree(folder.path)
        return found


def _views(pool: Pool, own: str | None) -> dict[str, Any]:
    """Views of the student: those of the run, by the code that the user names, if they are the user's own."""
    return {} if own is None else {"views": {**pool.task.config.views, OWN: own}}


def _error_of(result: Mapping[str, Any]) -> tuple[float | None, tuple[float, float] | None]:
    """Error of the saved model of a run, which may be its baseline, with its interval."""
    error, number = result.get("supervised_test_error"), result.get("test_samples")
    if result.get("kept") != BASELINE or error is None or not number:
        return result.get("test_error"), result.get("test_error_interval")
    return error, wilson_interval(round(error * number), number)


def _same(one: Split, other: Split) -> bool:
    return all(torch.equal(getattr(one, part), getattr(other, part)) for part in ("labeled", "unlabeled", "test"))


def _describe(
    model: Model, run: Path, inputs: Inputs | Tensor | ImageFiles, error: float | None, interval: tuple[float, float] | None
) -> Side:
    """Count what the model of a run needs, and time its predictions."""
    modules, prepared, name = [model.network], model.preparation, str(RunFolder(run).read_json("model/model.json")["network"])
    if name.startswith(ENCODER):
        name = f"encoder {Path(name.removeprefix(ENCODER)).name}"
    if isinstance(prepared, EncoderPreparation):
        modules.append(prepared.load()[0])
        prepared.cached = False  # else reading the features would be timed
        name = f"{name} on {Path(prepared.encoder).name}"
    elif prepared.settings()["kind"] == "tfidf":
        name = f"{name} on TF-IDF"
    tensors = [*prepared.tensors().values(), *(each for module in modules for each in module.state_dict().values())]
    return Side(
        network=name,
        parameters=sum(each.numel() for module in modules for each in module.parameters()),
        megabytes=sum(each.numel() * each.element_size() for each in tensors) / 1e6,
        samples_per_second=_speed(model, inputs),
        error=error,
        error_interval=None if interval is None else (interval[0], interval[1]),
    )


def _speed(model: Model, inputs: Inputs | Tensor | ImageFiles) -> float:
    """Samples per second of whole passes, preparation included, after a first pass."""
    passes = list[float]()
    while sum(passes[1:]) < SECONDS:
        started = time.perf_counter()
        found = model.predict_proba(inputs if isinstance(inputs, Tensor | ImageFiles) else model.preparation(inputs))
        passes.append(time.perf_counter() - started)
    return len(found) * len(passes[1:]) / sum(passes[1:])


def _measured(result: Result) -> str:
    """Say what the errors were measured on."""
    kind, same = result.evaluation["kind"], f"Both errors were measured on the same {result.test_samples:,}"
    if kind == "none":
        return f"The error of the student was not measured. {result.evaluation['reason'] or ''}".rstrip()
    if kind == "crossfit":
        left_out = f"each left out once by teacher and student ({result.evaluation['folds']} folds)"
        return f"{same} labelled samples, {left_out}. The saved student is trained on all labels."
    return f"{same} test samples." if kind == "test" else f"{same} held-out samples, which neither model was trained on."
