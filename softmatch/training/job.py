"""The main job: a source and settings in, a run folder with a trained classifier and an honest figure out."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from softmatch.config import write_config
from softmatch.data.fingerprint import fingerprint
from softmatch.data.loading import LOST_WORKER
from softmatch.errors import InputError, LoadingError, OutOfMemory, TrainingError
from softmatch.methods import Method, split_wrapper
from softmatch.networks import Network, describe_network
from softmatch.runs import RunFolder, save_model, set_temperature
from softmatch.training.boundary import save_boundary
from softmatch.training.checkpoint import list_checkpoints, save_checkpoint
from softmatch.training.evaluate import predict_probabilities
from softmatch.training.held_out import write_held_out
from softmatch.training.loop import Record
from softmatch.training.measuring import HeldOut, measure_error, pool
from softmatch.training.opening import Job, open_job
from softmatch.training.task import Task, build_method, checkpoint_every, make_trainer, prepare_job

SAMPLES = 16


class Listener(Protocol):
    """Is told what happens; the command line's draws it."""

    def understood(self, task: Task, run: RunFolder) -> None: ...

    def record(self, role: str, record: Record, steps: int) -> None: ...


@dataclass(frozen=True)
class Result:
    """Final figures, as fractions; differences are run minus twin, so negative is better. Intervals are 95 %.

    Attributes:
        test_error: None where it could not be measured; `evaluation` says how it was, or why not.
        evaluation: kind ("test", "holdout", "crossfit", "none"), samples, folds, reason.
        calibration: see `softmatch.calibration.Calibration`.
        classes: for each class its labelled and test samples, error, the twin's error, precision and recall.
    """

    run: Path
    method: str
    labels: int
    steps: int
    seed: int
    test_samples: int
    test_error: float | None
    test_error_interval: tuple[float, float] | None
    supervised_test_error: float | None
    difference: float | None
    difference_interval: tuple[float, float] | None
    quantity: float | None
    quality: float | None
    seconds: float
    supervised_seconds: float | None
    class_errors: dict[str, float | None]
    evaluation: dict[str, Any]
    calibration: dict[str, Any] | None
    classes: list[dict[str, Any]]
    warnings: list[str]


def train(source: Any = "digits", *, network: Network | None = None, listener: Listener | None = None, **settings: Any) -> Result:
    """Train on a named source or on data of your own; settings are those of `Config`.

    Args:
        source: a name, the path of a folder or file, an id of the hub, a pandas frame, or a pair of arrays (X, y) in which −1,
            None or NaN is unlabelled.
        network: an nn.Module of your own, copied for each run, or a function that makes one; instead of `model`.

    Example:
        >>> result = train("digits", labels=40, method="softmatch")  # doctest: +SKIP
        >>> result.test_error, result.supervised_test_error  # doctest: +SKIP
    """
    if network is not None and settings.get("model") is not None:
        raise InputError("give either network or model, not both.")
    return run_job(open_job(source, settings), listener, network)


def run_job(job: Job, listener: Listener | None = None, network: Network | None = None) -> Result:
    """`train` with a source that was read and complete settings."""
    with _own_state():
        return _run_job(job, listener, network)


@contextmanager
def _own_state() -> Iterator[None]:
    """Training seeds torch's generators and sets its threads; the caller gets them back as they were."""
    threads = torch.get_num_threads()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        torch.set_num_threads(threads)


def _run_job(job: Job, listener: Listener | None, network: Network | None) -> Result:
    started = time.perf_counter()
    if network is not None:
        job = replace(job, config=job.config.model_copy(update={"model": describe_network(network)}))
    config = job.config
    task = prepare_job(job, network)
    method = build_method(task, config.method)  # before anything is written: a wrong option costs nothing
    run = _make_folder(task)
    write_config(run.path / "config.yaml", job.source, config)
    data = fingerprint(task.examples.names, task.examples.labels, task.split.labeled)
    run.write_json("split.json", {**task.split.as_dict(), "data": data})
    if listener is not None:
        listener.understood(task, run)
    twin = task.has_twin
    known, twin_seconds = _Curve(), None
    if task.evaluation.kind == "crossfit":
        found, known, twin_seconds = _cross_fit(task, run, twin, listener)
        fitted = _fit(task, method, run, config.method, listener, known)
    else:
        supervised = _fit(task, build_method(task, "supervised"), run.twin(), "supervised", listener) if twin else None
        fitted = _fit(task, method, run, config.method, listener)
        found = HeldOut(task.test[1], fitted.probs, None if supervised is None else supervised.probs, task.test_names)
        twin_seconds = None if supervised is None else supervised.seconds
    result = _result(task, run, found, fitted, time.perf_counter() - started, twin_seconds)
    write_held_out(run, found, task.examples.classes)
    figures = {key: value for key, value in asdict(result).items() if key != "run"}
    run.write_json("result.json", {**figures, "versions": _versions()})
    from softmatch.report import write_report

    write_report(run)
    return result


def _make_folder(task: Task) -> RunFolder:
    config = task.config
    if config.out is not None:
        return RunFolder.create(config.out)
    method = _file_name(config.method)
    name = f"{task.name}-{method}-{len(task.split.labeled)}-labels-seed-{config.seed}"
    return RunFolder.create_new(Path("runs"), name)


def _file_name(method: str) -> str:
    """The name of a method as a part of a folder's name: "saw+dir/mine.py:f" is saw+mine-f."""
    wrapper, base = split_wrapper(method)
    if wrapper is not None:
        return f"{_file_name(wrapper)}+{_file_name(base)}"
    place, _, name = method.rpartition(":")
    return f"{Path(place).stem}-{name}" if place else name


@dataclass
class _Curve:
    """Which held-out samples were wrong at each recorded step, gathered over the folds of a cross-fit."""

    wrong: dict[int, list[Tensor]] = field(default_factory=dict)
    labels: list[Tensor] = field(default_factory=list)

    def figures(self, step: int, num_classes: int) -> Record:
        """The error of all folds at that step, as a record has it."""
        if step not in self.wrong:
            return {}
        pooled = error_figures(torch.cat(self.wrong[step]), torch.cat(self.labels), num_classes)
        return {**pooled, "test_error_of": "the folds"}

    def add(self, fitted: _Fitted, labels: Tensor) -> None:
        self.labels.append(labels)
        for step, wrong in fitted.wrong.items():
            self.wrong.setdefault(step, []).append(wrong)


@dataclass(frozen=True)
class _Fitted:
    """A trained network's predictions on the test samples, its last record, seconds, and what was wrong at each record."""

    probs: Tensor
    record: Record
    seconds: float
    wrong: Mapping[int, Tensor]


def _cross_fit(task: Task, run: RunFolder, twin: bool, listener: Listener | None) -> tuple[HeldOut, _Curve, float | None]:
    """Train once for each part of the labelled samples without it. Only figures are kept, in folds/."""
    curve, twin_curve, parts = _Curve(), _Curve(), list[HeldOut]()
    seconds, folds, number = 0.0, task.evaluation.folds, len(task.examples.classes)
    for position, split in enumerate(folds, 1):
        fold = replace(task, split=split)
        folder, role = run.fold(position), f"{position}/{len(folds)} "
        supervised = None
        if twin:
            supervised = _fit(fold, build_method(fold, "supervised"), folder.twin(), f"{role}labels", listener, keep=False)
            twin_curve.add(supervised, fold.test[1])
            seconds += supervised.seconds
        fitted = _fit(fold, build_method(fold, task.config.method), folder, role + task.config.method, listener, keep=False)
        curve.add(fitted, fold.test[1])
        parts.append(HeldOut(fold.test[1], fitted.probs, None if supervised is None else supervised.probs, fold.test_names))
    if twin:
        for step in twin_curve.wrong:
            run.twin().append_record({"step": step, **twin_curve.figures(step, number)})
    return pool(parts), curve, seconds if twin else None


def _fit(
    task: Task,
    method: Method,
    run: RunFolder,
    role: str,
    listener: Listener | None,
    known: _Curve | None = None,
    keep: bool = True,
) -> _Fitted:
    """Train, evaluate, record; with `keep` also checkpoint and save.

    Args:
        known: figures for the records where there is nothing to evaluate on.
    """
    trainer, views = make_trainer(task, method), task.views
    every, number = checkpoint_every(task.config), len(task.examples.classes)
    items, labels = task.test
    predict = partial(predict_probabilities, views=views, items=items, device=task.device, workers=task.config.workers)
    probs, record, next_checkpoint, wrong = torch.zeros(0, number), {}, every, dict[int, Tensor]()
    judged: Record = {}  # of the last record with pseudo-labels: a run may end with labels alone
    try:
        for record in trainer.run():
            if len(labels):
                probs = predict(trainer.result)
                wrong[trainer.step] = probs.argmax(-1) != labels
                record |= error_figures(wrong[trainer.step], labels, number)
            elif known is not None:
                record |= known.figures(trainer.step, number)
            if record.get("quantity") is not None:
                judged = {"quantity": record["quantity"], "quality": record["quality"]}
            run.append_record(record)
            if listener is not None:
                listener.record(role, record, task.config.steps)
            if keep and (trainer.step >= next_checkpoint or trainer.step == task.config.steps):
                save_checkpoint(run.checkpoints, trainer.step, trainer.state())
                next_checkpoint = trainer.step + every
    except (LoadingError, OutOfMemory, InputError) as error:
        raise type(error)(f"{error}\n{_last_checkpoint(run)}") from error
    except TrainingError as error:
        raise TrainingError(f"{error}\n{_rescue(run)}") from error
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):  # torch's signal handler raises it wherever training is just then
            raise
        raise LoadingError(f"{LOST_WORKER}\n{_last_checkpoint(run)}") from error
    finally:
        trainer.batches.close()
    if keep:
        save_model(
            run,
            trainer.result,
            task.network_name,
            task.shape,
            views,
            task.examples.classes,
            task.preparation,
            task.some_items(SAMPLES),
        )
        save_boundary(task, trainer.result, run)
    return _Fitted(probs, {**record, **judged}, trainer.seconds, wrong)


def _last_checkpoint(run: RunFolder) -> str:
    saved = list_checkpoints(run.checkpoints)
    return f"The last good checkpoint is {saved[-1]}." if saved else "There is no checkpoint yet."


def _rescue(run: RunFolder) -> str:
    return f"{_last_checkpoint(run)} Try a lower --lr, --clip 1, --precision float32, or check the data for extreme values."


def error_figures(wrong: Tensor, labels: Tensor, num_classes: int) -> Record:
    """The error rate, and that of each true class; None for a class without test samples."""
    counts = torch.bincount(labels, minlength=num_classes)
    errors = torch.bincount(labels, weights=wrong.double(), minlength=num_classes)
    each = [float(e / n) if n else None for e, n in zip(errors, counts, strict=True)]
    return {"test_error": float(wrong.double().mean()), "test_class_errors": each}


def _result(task: Task, run: RunFolder, found: HeldOut, fitted: _Fitted, seconds: float, twin_seconds: float | None) -> Result:
    evaluation, classes = task.evaluation, task.examples.classes
    counts = torch.bincount(task.examples.labels[task.split.labeled], minlength=len(classes)).tolist()
    measured = measure_error(found if len(found.labels) else None, classes, counts, evaluation)
    if measured.calibration is not None and measured.calibration.temperature is not None:
        set_temperature(run, measured.calibration.temperature)
    return Result(
        run=run.path,
        method=task.config.method,
        labels=len(task.split.labeled),
        steps=task.config.steps,
        seed=task.config.seed,
        test_samples=len(found.labels),
        test_error=measured.error,
        test_error_interval=measured.error_interval,
        supervised_test_error=measured.twin_error,
        difference=measured.difference,
        difference_interval=measured.difference_interval,
        quantity=fitted.record.get("quantity"),
        quality=fitted.record.get("quality"),
        seconds=seconds,
        supervised_seconds=twin_seconds,
        class_errors={row["name"]: row.get("error") for row in measured.classes},
        evaluation={
            "kind": evaluation.kind,
            "samples": len(found.labels),
            "folds": len(evaluation.folds) or None,
            "reason": evaluation.reason,
        },
        calibration=None if measured.calibration is None else measured.calibration.as_dict(),
        classes=measured.classes,
        warnings=[*(finding.text for finding in task.findings if finding.level == "warning"), *measured.warnings],
    )


def _versions() -> dict[str, str]:
    from softmatch import __version__

    return {"softmatch": __version__, "torch": torch.__version__, "python": platform.python_version()}
