"""The main job: a source and settings in, a run folder with a trained classifier and an honest figure out."""

from __future__ import annotations

import platform
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from softmatch.averages import PAPER_MOMENTUM, momentum_for
from softmatch.config import Config, make_config, write_config
from softmatch.data import Batches, Examples, Split, find_source, make_split
from softmatch.data.seeds import derive
from softmatch.errors import InputError, TrainingError
from softmatch.methods import Method, Problem, build
from softmatch.networks import build_network, choose_network
from softmatch.runs import RunFolder, save_model
from softmatch.training.checkpoint import list_checkpoints, save_checkpoint
from softmatch.training.ema import ModelAverage
from softmatch.training.evaluate import error_interval, predict_probabilities
from softmatch.training.loop import Record, Trainer
from softmatch.training.schedule import make_optimizer
from softmatch.views import ImageViews, VectorViews, Views

RECORDS_PER_RUN = 40
CHECKPOINTS_PER_RUN = 10


class Listener(Protocol):
    """Is told what happens; the command line's draws it."""

    def understood(self, task: Task, run: RunFolder) -> None: ...

    def record(self, role: str, record: Record, steps: int) -> None: ...


@dataclass(frozen=True)
class Task:
    """Everything decided before training starts."""

    source: str
    config: Config
    examples: Examples
    split: Split
    views: Views
    network: str
    parameters: int
    device: torch.device

    @property
    def test(self) -> tuple[Tensor, Tensor]:
        """Items and labels that the error is measured on."""
        if self.examples.test is not None:
            return self.examples.test.items, self.examples.test.labels
        return self.examples.items[self.split.test], self.examples.labels[self.split.test]


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


def train(source: str = "digits", *, listener: Listener | None = None, **settings: Any) -> Result:
    """Train on a named source; settings are those of `Config`.

    Example:
        >>> result = train("digits", labels=40, method="softmatch")  # doctest: +SKIP
        >>> result.test_error, result.supervised_test_error  # doctest: +SKIP
    """
    found = find_source(source)
    return run_job(source, make_config(found.defaults, settings), listener)


def run_job(source: str, config: Config, listener: Listener | None = None) -> Result:
    """`train` with complete settings."""
    started = time.perf_counter()
    task = prepare(source, config)
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


def prepare(source: str, config: Config) -> Task:
    """Read the source, draw the split, choose what "auto" stands for. Nothing is written."""
    found = find_source(source)
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    split_seed = config.seed if config.split_seed is None else config.split_seed
    examples = found.load(split_seed, config.data)
    labels = config.labels or len(examples.classes) * 4
    split = make_split(examples, labels, split_seed, config.test_fraction)
    name = choose_network(config.model, examples.kind, examples.items.shape[1:])
    network = build_network(name, examples.items.shape[1:], len(examples.classes))
    parameters = sum(p.numel() for p in network.parameters())
    views = make_views(examples, split, config.views)
    return Task(source, config, examples, split, views, name, parameters, choose_device(config.device))


def choose_device(name: str) -> torch.device:
    """The device of that name; "auto" is CUDA, then MPS, then the CPU."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        torch.zeros(1, device=name)
        return torch.device(name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {name!r} cannot be used here: {reason} Use --device auto or cpu.") from error


def _make_folder(task: Task) -> RunFolder:
    config = task.config
    if config.out is not None:
        return RunFolder.create(config.out)
    method = Path(config.method.rpartition(":")[0]).stem + "-" + config.method.rpartition(":")[2]
    name = f"{task.source}-{method.removeprefix('-')}-{len(task.split.labeled)}-labels-seed-{config.seed}"
    return RunFolder.create_new(Path("runs"), name)


def build_method(task: Task, name: str) -> Method:
    """The method of that name for this task, with the momenta that follow from its number of steps."""
    config, labels = task.config, task.examples.labels[task.split.labeled]
    counts = torch.bincount(labels, minlength=len(task.examples.classes)).double()
    problem = Problem(
        num_classes=len(task.examples.classes),
        num_unlabeled=len(task.split.unlabeled),
        total_steps=config.steps,
        momentum=_momentum(config, config.statistics_momentum),
        start="debiased" if config.averages == "scaled" else "paper",
        class_prior=tuple((counts / counts.sum()).tolist()),
    )
    return build(name, problem, config.method_options if name == config.method else None)


def _momentum(config: Config, given: float | None) -> float:
    if given is not None:
        return given
    return PAPER_MOMENTUM if config.averages == "paper" else momentum_for(config.steps)


def make_views(examples: Examples, split: Split, options: dict[str, Any]) -> Views:
    """The views of a modality, with the statistics of the training items."""
    items = examples.items[split.unlabeled].double()
    kind: type[ImageViews] | type[VectorViews]
    axes: tuple[int, ...]
    if examples.kind == "image":
        kind, axes, scale = ImageViews, (0, 2, 3), 255.0
    else:
        kind, axes, scale = VectorViews, (0,), 1.0
    mean, std = items.mean(axes) / scale, items.std(axes) / scale
    try:
        return kind(mean=mean.tolist(), std=std.clamp_min(1e-6).tolist(), **options)
    except (TypeError, ValueError) as error:
        raise InputError(f"views: {error}") from error


def make_trainer(task: Task, method: Method) -> Trainer:
    """Network, batches, optimiser and averages of one run, from its seed."""
    config, examples, split, device = task.config, task.examples, task.split, task.device
    torch.manual_seed(derive(config.seed, "network"))
    share = config.batch_norm_momentum
    network = build_network(
        task.network,
        examples.items.shape[1:],
        len(examples.classes),
        1.0 - _momentum(config, None) if share is None else share,
    ).to(device)
    if examples.kind == "image":
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs
    batches = Batches(
        labeled_items=examples.items[split.labeled],
        labels=examples.labels[split.labeled],
        unlabeled_items=examples.items[split.unlabeled],
        views=task.views,
        labeled_batch=config.labeled_batch,
        unlabeled_batch=config.unlabeled_batch,
        seed=config.seed,
        device=device,
        labeled_views=method.labeled_views,
        unlabeled_views=method.unlabeled_views,
    )
    return Trainer(
        network,
        method.to(device),
        batches,
        make_optimizer(network, config.optimizer, config.lr, config.weight_decay),
        ModelAverage(network, _momentum(config, config.model_momentum), warm=config.averages == "scaled"),
        steps=config.steps,
        lr=config.lr,
        num_classes=len(examples.classes),
        truth=examples.labels[split.unlabeled],
        every=config.evaluate_every or max(config.steps // RECORDS_PER_RUN, 1),
        device=device,
        clip=config.clip,
        precision=config.precision,
        batch_statistics=config.batch_statistics,
    )


def _fit(task: Task, method: Method, run: RunFolder, role: str, listener: Listener | None) -> tuple[Tensor, Record, float]:
    """Train, evaluate, record, checkpoint, save. Returns which test samples are wrong, the last record, and the seconds."""
    trainer, views = make_trainer(task, method), task.views
    every = task.config.checkpoint_every or max(task.config.steps // CHECKPOINTS_PER_RUN, 1)
    items, labels = task.test
    wrong, record, next_checkpoint = torch.zeros(0), {}, every
    try:
        for record in trainer.run():
            wrong = predict_probabilities(trainer.average.network, views, items, task.device).argmax(-1) != labels
            record["test_error"] = float(wrong.double().mean())
            record["test_class_errors"] = class_errors(wrong, labels, len(task.examples.classes))
            run.append_record(record)
            if listener is not None:
                listener.record(role, record, task.config.steps)
            if trainer.step >= next_checkpoint or trainer.step == task.config.steps:
                save_checkpoint(run.checkpoints, trainer.step, trainer.state())
                next_checkpoint = trainer.step + every
    except TrainingError as error:
        raise TrainingError(f"{error}\n{_rescue(run)}") from error
    shape = tuple(task.examples.items.shape[1:])
    save_model(run, trainer.average.network, task.network, shape, views, task.examples.classes)
    _save_boundary(task, trainer.average.network, run)
    return wrong, record, trainer.seconds


def _rescue(run: RunFolder) -> str:
    saved = list_checkpoints(run.checkpoints)
    where = f"The last good checkpoint is {saved[-1]}." if saved else "There is no checkpoint yet."
    return f"{where} Try a lower --lr, --clip 1, --precision float32, or check the data for extreme values."


def class_errors(wrong: Tensor, labels: Tensor, num_classes: int) -> list[float | None]:
    """Error rate of each true class; None for a class without test samples."""
    counts = torch.bincount(labels, minlength=num_classes)
    errors = torch.bincount(labels, weights=wrong.double(), minlength=num_classes)
    return [float(e / n) if n else None for e, n in zip(errors, counts, strict=True)]


def _save_boundary(task: Task, network: nn.Module, run: RunFolder, side: int = 80) -> None:
    """For two features: the training points, the labelled ones, and the prediction over a grid around them."""
    items = task.examples.items
    if task.examples.kind != "vector" or items.shape[1] != 2:
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
