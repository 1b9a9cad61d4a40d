"""Training of one network of a run, from its first step or its last checkpoint to the end."""

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from softmatch.data.loading import LOST_WORKER
from softmatch.distributed.processes import is_lost_process, tell, tell_tensors, world
from softmatch.errors import InputError, LoadingError, ProcessLost, SoftmatchError, Stopped, TrainingError
from softmatch.files.tensors import read_checked, write_checked
from softmatch.methods import Method
from softmatch.networks.prediction import predict_probabilities
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import save_model
from softmatch.training.checkpoint import CheckpointWriter, list_checkpoints, newest_good
from softmatch.training.loop import Record, Trainer
from softmatch.training.measure import save_boundary
from softmatch.training.setup import checkpoint_every, make_trainer
from softmatch.training.stop import Stop, Stopping
from softmatch.training.task import Task

WRONG, PROBS, RECORDS = "wrong.", "probs", "records"
"""Names of tensors in a checkpoint: wrong test samples at each record, the last predictions, the bytes of metrics.jsonl."""


class Watcher(Protocol):
    """Receives the progress of a job, in the same thread; the command line displays it, and `Tracking` passes it to listeners."""

    def understood(self, task: Task, run: RunFolder) -> None: ...

    def record(self, role: str, record: Record, steps: int) -> None: ...

    def note(self, text: str) -> None: ...


class Fit(NamedTuple):
    """The network of a run to train: its folder, role, watcher and stop signals.

    Attributes:
        keep: keep the model and the last checkpoints, not only the figures.
    """

    run: RunFolder
    role: str
    watcher: Watcher | None
    stop: Stop
    keep: bool = True


@dataclass
class Fitted:
    """Results of a network so far.

    Attributes:
        probs: predictions on the test samples at the last record.
        judged: quantity and quality of the last record that has them; the last steps may use labels only.
        wrong: wrong test samples at each record, for the folds of a cross-fit.
        lines: lines of metrics.jsonl, in the main process.
        best: lowest error at a record.
    """

    probs: Tensor
    record: Record = field(default_factory=dict)
    judged: Record = field(default_factory=dict)
    seconds: float = 0.0
    wrong: dict[int, Tensor] = field(default_factory=dict)
    lines: bytearray = field(default_factory=bytearray)
    best: float | None = None

    def tensors(self) -> dict[str, Tensor]:
        lines = torch.from_numpy(np.frombuffer(self.lines, dtype=np.uint8).copy())
        return {PROBS: self.probs, RECORDS: lines, **{f"{WRONG}{step}": wrong for step, wrong in self.wrong.items()}}

    def notes(self) -> dict[str, Any]:
        """Values for JSON; the curves are in metrics.jsonl."""
        figures = {key: value for key, value in self.record.items() if isinstance(value, int | float) or value is None}
        return {"record": figures, "judged": self.judged, "seconds": self.seconds, "best": self.best}

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> "Fitted":
        found = {int(name.removeprefix(WRONG)): value for name, value in tensors.items() if name.startswith(WRONG)}
        wrong = {step: found[step] for step in sorted(found)}  # their order in a file differs
        lines = bytearray(tensors[RECORDS].numpy().tobytes())
        best = None if notes["best"] is None else float(notes["best"])
        return cls(tensors[PROBS], dict(notes["record"]), dict(notes["judged"]), float(notes["seconds"]), wrong, lines, best)

    def refuse_unless_of(self, task: Task, finished: bool) -> None:
        """Raise InputError unless the predictions match the test samples; there are none before the first record."""
        number, shape = len(task.test[1]), tuple(self.probs.shape)
        shapes = {(number, len(task.examples.classes)), (number if finished else 0, len(task.examples.classes))}
        if self.probs.dtype != torch.float32 or shape not in shapes:
            raise InputError(f"it has predictions {shape} for {number} test samples.")
        if any(each.dtype != torch.bool or each.shape != (number,) for each in self.wrong.values()):
            raise InputError(f"its errors are not those of {number} test samples.")
        if not all(isinstance(value, int | float | None) for value in (*self.record.values(), *self.judged.values())):
            raise InputError("its figures are not numbers.")


@dataclass
class Curve:
    """Wrong held-out samples at each recorded step, over the folds of a cross-fit."""

    wrong: dict[int, list[Tensor]] = field(default_factory=dict)
    labels: list[Tensor] = field(default_factory=list)

    def figures(self, step: int, num_classes: int) -> Record:
        """Error of all folds at a step, for a record."""
        if len(self.wrong.get(step, ())) != len(self.labels):  # unknown for some fold
            return {}
        pooled = error_figures(torch.cat(self.wrong[step]), torch.cat(self.labels), num_classes)
        return {**pooled, "test_error_of": "the folds"}

    def add(self, fitted: Fitted, labels: Tensor) -> None:
        self.labels.append(labels)
        for step, wrong in fitted.wrong.items():
            self.wrong.setdefault(step, []).append(wrong)


def error_figures(wrong: Tensor, labels: Tensor, num_classes: int) -> Record:
    """Error rate of all samples, their number, and the error rate of each true class; None for a class without test samples."""
    counts = torch.bincount(labels, minlength=num_classes)
    errors = torch.bincount(labels, weights=wrong.double(), minlength=num_classes)
    each = [float(e / n) if n else None for e, n in zip(errors, counts, strict=True)]
    return {"test_error": float(wrong.double().mean()), "test_samples": len(labels), "test_class_errors": each}


def fit(task: Task, method: Method, to: Fit, known: Curve | None = None) -> Fitted:
    """Train, evaluate, record, checkpoint and save; resume where an earlier process has stopped.

    Args:
        known: figures for the records where there is nothing to evaluate on.
    """
    done = _outcome(task, to)
    if done is not None:
        if world().is_main and not to.keep:
            to.run.drop_checkpoints()  # an earlier process may have been killed before this
        return done
    trainer = make_trainer(task, method, to.stop.check)
    try:
        fitted = _resume(task, trainer, to)
        with CheckpointWriter(to.run.checkpoints) if world().is_main else nullcontext() as writer:
            _train(task, trainer, fitted, to, writer, known)
    except (SoftmatchError, RuntimeError) as error:
        raise _explained(error, to.run) from error
    finally:
        trainer.batches.close()
    if world().is_main:
        if to.keep:
            save_model(to.run, task.model(trainer.result), task.network_name)
            save_boundary(task, trainer.result, to.run)
        write_checked(to.run.outcome, fitted.tensors(), fitted.notes())
        if not to.keep:
            to.run.drop_checkpoints()
    return fitted


def _train(task: Task, trainer: Trainer, fitted: Fitted, to: Fit, writer: CheckpointWriter | None, known: Curve | None) -> None:
    """Train to the last step; on a signal, save the state and raise Stopped."""
    every, number = checkpoint_every(task.config), len(task.examples.classes)
    items, labels = task.test
    curve = task.curve
    predict = partial(
        predict_probabilities,
        views=task.views,
        device=task.device,
        workers=task.config.workers,
        shared=True,
        check=to.stop.check,
    )

    def save(wait: bool = False) -> None:
        fitted.seconds = trainer.seconds
        trainer.settle()
        if writer is not None:
            state = {**trainer.state(), **fitted.tensors()}
            error = fitted.record.get("test_error") if fitted.record.get("step") == trainer.step else None
            writer.write(trainer.step, state, fitted.notes(), error, wait)

    def after_step() -> None:
        if trainer.step % every == 0 and not trainer.due:
            save()
        to.stop.check()

    try:
        for record in trainer.run(after_step):
            if curve is not None and trainer.step < task.config.steps:
                wrong = predict(trainer.result, items=items[curve]).argmax(-1) != labels[curve]
                record |= error_figures(wrong, labels[curve], number)
                record["test_error_of"] = f"{len(curve):,} test samples"
            elif len(labels):
                fitted.probs = predict(trainer.result, items=items)
                wrong = fitted.probs.argmax(-1) != labels
                record |= error_figures(wrong, labels, number)
                if not to.keep:  # for the figures of all folds
                    fitted.wrong[trainer.step] = wrong
            elif known is not None:
                record |= known.figures(trainer.step, number)
            if record.get("quantity") is not None:
                fitted.judged = {"quantity": record["quantity"], "quality": record["quality"]}
            fitted.record = record
            if world().is_main:
                fitted.lines += to.run.append_record(record)
            trainer.clear()
            if to.watcher is not None:
                to.watcher.record(to.role, record, task.config.steps)
            error = record.get("test_error")
            best = error is not None and (fitted.best is None or error < fitted.best)
            fitted.best = error if best else fitted.best
            if trainer.step % every == 0 or trainer.step == task.config.steps or best:
                save()
    except Stopping:
        save(wait=True)
        by = f" by {to.stop.signal}" if to.stop.signal else ""
        raise Stopped(f"stopped{by} at step {trainer.step:,} of {task.config.steps:,} ({to.role.strip()})") from None
    fitted.seconds = trainer.seconds


def _outcome(task: Task, to: Fit) -> Fitted | None:
    """Read the results of a network that is trained already; None if it is not."""
    found: tuple[dict[str, Tensor], dict[str, Any]] | None = None
    if world().is_main and to.run.outcome.exists():
        try:
            found = read_checked(to.run.outcome)
            Fitted.read(*found).refuse_unless_of(task, finished=True)
        except (InputError, AttributeError, KeyError, TypeError, ValueError) as error:
            found = None
            why = str(error) if isinstance(error, InputError) else "it does not contain the results of a network."
            why = why if why.startswith(str(to.run.outcome)) else f"{to.run.outcome} is damaged: {why}"
            _say(to, f"{why} Training resumes from the last checkpoint.")
    notes = tell(json.dumps(None if found is None else found[1]) if world().is_main else None)
    if json.loads(notes) is None:
        return None
    fitted = Fitted.read(tell_tensors(None if found is None else found[0]), json.loads(notes))
    if world().is_main:
        to.run.put_records(bytes(fitted.lines))
        _say(to, f"{to.role.strip()}: already trained.")
    return fitted


def _resume(task: Task, trainer: Trainer, to: Fit) -> Fitted:
    """Load the newest good checkpoint into the trainer; the records after it are made again."""
    step, tensors, notes = 0, None, None
    if world().is_main:
        found, damaged = newest_good(to.run.checkpoints)
        for text in damaged:
            _say(to, f"{text} It is ignored.")
        if found is not None:
            step, tensors, notes = found.step, found.tensors, found.notes
            _say(to, f"{to.role.strip()}: resuming after step {step:,} of {task.config.steps:,}.")
    step, notes = json.loads(tell(json.dumps([step, notes]) if world().is_main else None))
    fitted = Fitted(torch.zeros(0, len(task.examples.classes)))
    state = tell_tensors(tensors)
    try:
        if step:
            fitted = Fitted.read(state, notes)
            fitted.refuse_unless_of(task, finished=False)
            trainer.load_state(step, state)
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"the checkpoint of step {step:,} in {to.run.checkpoints} does not fit this run: {error}") from error
    trainer.seconds = fitted.seconds
    if world().is_main:
        to.run.put_records(bytes(fitted.lines))
    return fitted


def _say(to: Fit, text: str) -> None:
    if to.watcher is not None:
        to.watcher.note(text)


def _explained(error: Exception, run: RunFolder) -> Exception:
    """Explain errors that the user can fix, and name the last checkpoint; return others as they are."""
    saved = list_checkpoints(run.checkpoints)
    last = f"The last good checkpoint is {saved[-1]}." if saved else "There is no checkpoint yet."
    if type(error) is TrainingError:
        last += " Try a lower --lr, --clip 1, --precision float32, or check the data for extreme values."
    if isinstance(error, SoftmatchError):
        return type(error)(f"{error}\n{last}")
    if "DataLoader worker" in str(error):  # raised by torch's signal handler at any point
        return LoadingError(f"{LOST_WORKER}\n{last}")
    if is_lost_process(error):
        return ProcessLost(f"one of the {world().size} processes has ended.\n{last}")
    return error
