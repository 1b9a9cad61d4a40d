"""The main job: a source and settings in, a run folder with a trained classifier and an honest figure out."""

from __future__ import annotations

import platform
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from softmatch.config import Config, write_config
from softmatch.data import find_source
from softmatch.data.loading import LOST_WORKER
from softmatch.errors import InputError, LoadingError, OutOfMemory, TrainingError
from softmatch.methods import Method, split_wrapper
from softmatch.networks import Network, describe_network
from softmatch.recipes import complete
from softmatch.runs import RunFolder, save_model
from softmatch.training.checkpoint import list_checkpoints, save_checkpoint
from softmatch.training.evaluate import error_interval, predict_probabilities
from softmatch.training.loop import Record
from softmatch.training.task import Task, build_method, checkpoint_every, make_trainer, prepare


class Listener(Protocol):
    """Is told what happens; the command line's draws it."""

    def understood(self, task: Task, run: RunFolder) -> None: ...

    def record(self, role: str, record: Record, steps: int) -> None: ...


@dataclass(frozen=True)
class Result:
    """Final figures, as fractions; differences are run minus twin, so negative is better. Intervals are 95 %."""

    run: Path
    method: str
    labels: int
    steps: int
    seed: int
    test_samples: int
    test_error: float
    test_error_interval: tuple[float, float]
    supervised_test_error: float | None
    difference: float | None
    difference_interval: tuple[float, float] | None
    quantity: float | None
    quality: float | None
    seconds: float
    supervised_seconds: float | None
    class_errors: dict[str, float | None]


def train(source: str = "digits", *, network: Network | None = None, listener: Listener | None = None, **settings: Any) -> Result:
    """Train on a named source; settings are those of `Config`.

    Args:
        network: an nn.Module of your own, copied for each run, or a function that makes one; instead of `model`.

    Example:
        >>> result = train("digits", labels=40, method="softmatch")  # doctest: +SKIP
        >>> result.test_error, result.supervised_test_error  # doctest: +SKIP
    """
    if network is not None and settings.get("model") is not None:
        raise InputError("give either network or model, not both.")
    return run_job(source, complete(source, find_source(source).defaults, settings), listener, network)


def run_job(source: str, config: Config, listener: Listener | None = None, network: Network | None = None) -> Result:
    """`train` with complete settings."""
    started = time.perf_counter()
    if network is not None:
        config = config.model_copy(update={"model": describe_network(network)})
    task = prepare(source, config, network)
    method = build_method(task, config.method)  # before anything is written: a wrong option costs nothing
    run = _make_folder(task)
    write_config(run.path / "config.yaml", source, config)
    run.write_json("split.json", task.split.as_dict())
    if listener is not None:
        listener.understood(task, run)
    twin_errors, twin_seconds = None, None
    if config.twin and config.method != "supervised":
        twin_errors, _, twin_seconds = _fit(task, build_method(task, "supervised"), run.twin(), "supervised", listener)
    errors, last, _ = _fit(task, method, run, config.method, listener)
    result = _result(task, run, errors, twin_errors, last, time.perf_counter() - started, twin_seconds)
    run.write_json("result.json", {**asdict(result), "run": None, "versions": _versions()})
    from softmatch.report import write_report

    write_report(run)
    return result


def _make_folder(task: Task) -> RunFolder:
    config = task.config
    if config.out is not None:
        return RunFolder.create(config.out)
    method = _file_name(config.method)
    name = f"{task.source}-{method}-{len(task.split.labeled)}-labels-seed-{config.seed}"
    return RunFolder.create_new(Path("runs"), name)


def _file_name(method: str) -> str:
    """The name of a method as a part of a folder's name: "saw+dir/mine.py:f" is saw+mine-f."""
    wrapper, base = split_wrapper(method)
    if wrapper is not None:
        return f"{_file_name(wrapper)}+{_file_name(base)}"
    place, _, name = method.rpartition(":")
    return f"{Path(place).stem}-{name}" if place else name


def _fit(task: Task, method: Method, run: RunFolder, role: str, listener: Listener | None) -> tuple[Tensor, Record, float]:
    """Train, evaluate, record, checkpoint, save. Returns which test samples are wrong, the last record, and the seconds."""
    trainer, views = make_trainer(task, method), task.views
    every = checkpoint_every(task.config)
    items, labels = task.test
    predict = partial(predict_probabilities, views=views, items=items, device=task.device, workers=task.config.workers)
    wrong, record, next_checkpoint = torch.zeros(0), {}, every
    judged: Record = {}  # of the last record with pseudo-labels: a run may end with labels alone
    try:
        for record in trainer.run():
            wrong = predict(trainer.result).argmax(-1) != labels
            if record.get("quantity") is not None:
                judged = {"quantity": record["quantity"], "quality": record["quality"]}
            record["test_error"] = float(wrong.double().mean())
            record["test_class_errors"] = class_errors(wrong, labels, len(task.examples.classes))
            run.append_record(record)
            if listener is not None:
                listener.record(role, record, task.config.steps)
            if trainer.step >= next_checkpoint or trainer.step == task.config.steps:
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
    save_model(run, trainer.result, task.network_name, task.shape, views, task.examples.classes)
    _save_boundary(task, trainer.result, run)
    return wrong, {**record, **judged}, trainer.seconds


def _last_checkpoint(run: RunFolder) -> str:
    saved = list_checkpoints(run.checkpoints)
    return f"The last good checkpoint is {saved[-1]}." if saved else "There is no checkpoint yet."


def _rescue(run: RunFolder) -> str:
    return f"{_last_checkpoint(run)} Try a lower --lr, --clip 1, --precision float32, or check the data for extreme values."


def class_errors(wrong: Tensor, labels: Tensor, num_classes: int) -> list[float | None]:
    """Error rate of each true class; None for a class without test samples."""
    counts = torch.bincount(labels, minlength=num_classes)
    errors = torch.bincount(labels, weights=wrong.double(), minlength=num_classes)
    return [float(e / n) if n else None for e, n in zip(errors, counts, strict=True)]


def _save_boundary(task: Task, network: nn.Module, run: RunFolder, side: int = 80) -> None:
    """For two features: the training points, the labelled ones, and the prediction over a grid around them."""
    items = task.examples.items
    if task.examples.kind != "vector" or not isinstance(items, Tensor) or items.shape[1] != 2:
        return
    low, high = items.amin(0) - 0.3, items.amax(0) + 0.3
    x, y = (torch.linspace(float(low[axis]), float(high[axis]), side) for axis in (0, 1))
    grid = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1).reshape(-1, 2)
    probs = predict_probabilities(network, task.views, grid, task.device)
    points = items[task.split.unlabeled]
    run.write_json(
        "boundary.json",
        {
            "x": [round(float(v), 4) for v in x],
            "y": [round(float(v), 4) for v in y],
            "probs": [[round(float(p), 3) for p in row] for row in probs[:, 1].reshape(side, side)],
            "points": [[round(float(v), 3) for v in point] for point in points],
            "truth": task.examples.labels[task.split.unlabeled].tolist(),
            "labeled": [task.split.unlabeled.tolist().index(i) for i in task.split.labeled.tolist()],
        },
    )


def _result(
    task: Task,
    run: RunFolder,
    wrong: Tensor,
    twin: Tensor | None,
    last: Record,
    seconds: float,
    twin_seconds: float | None,
) -> Result:
    result = Result(
        run=run.path,
        method=task.config.method,
        labels=len(task.split.labeled),
        steps=task.config.steps,
        seed=task.config.seed,
        test_samples=len(wrong),
        test_error=float(wrong.double().mean()),
        test_error_interval=error_interval(wrong),
        supervised_test_error=None,
        difference=None,
        difference_interval=None,
        quantity=last.get("quantity"),
        quality=last.get("quality"),
        seconds=seconds,
        supervised_seconds=twin_seconds,
        class_errors=dict(zip(task.examples.classes, last["test_class_errors"], strict=True)),
    )
    if twin is None:
        return result
    return replace(
        result,
        supervised_test_error=float(twin.double().mean()),
        difference=float(wrong.double().mean() - twin.double().mean()),
        difference_interval=error_interval(wrong, twin),
    )


def _versions() -> dict[str, str]:
    from softmatch import __version__

    return {"softmatch": __version__, "torch": torch.__version__, "python": platform.python_version()}
