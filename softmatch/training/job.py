"""The main job: a source and settings in, a run folder with a trained classifier and an honest figure out."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from softmatch.averages import PAPER_MOMENTUM, momentum_for
from softmatch.config import Config, write_config
from softmatch.data import Examples, Split, find_source, make_long_tailed_split, make_split
from softmatch.data.files import ImageFiles
from softmatch.data.loading import LOST_WORKER, item_statistics, make_batches
from softmatch.data.seeds import derive
from softmatch.errors import InputError, LoadingError, OutOfMemory, TrainingError
from softmatch.methods import Method, Problem, build
from softmatch.networks import Network, build_network, choose_network, describe_network, is_own
from softmatch.recipes import complete
from softmatch.runs import RunFolder, save_model
from softmatch.training.checkpoint import list_checkpoints, save_checkpoint
from softmatch.training.ema import ModelAverage
from softmatch.training.evaluate import error_interval, predict_probabilities
from softmatch.training.loop import Record, Trainer
from softmatch.training.schedule import make_optimizer
from softmatch.views import ImageViews, VectorViews, Views

RECORDS_PER_RUN = 40
CHECKPOINTS_PER_RUN = 10
CPU_MICRO_BATCH = 64
"""Images whose activations stay in a processor's cache; see benchmarks/results/step.md."""


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
    network: Network
    parameters: int
    device: torch.device

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one item."""
        return tuple(self.examples.items.shape[1:])

    @property
    def network_name(self) -> str:
        """As it is shown and saved."""
        return describe_network(self.network)

    @property
    def test(self) -> tuple[Tensor | ImageFiles, Tensor]:
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


def prepare(source: str, config: Config, network: Network | None = None) -> Task:
    """Read the source, draw the split, choose what "auto" stands for. Nothing is written."""
    return prepare_examples(source, config, find_source(source).load(_split_seed(config), config.data), network)


def _split_seed(config: Config) -> int:
    return config.seed if config.split_seed is None else config.split_seed


def prepare_examples(source: str, config: Config, examples: Examples, network: Network | None = None) -> Task:
    """`prepare` with examples that have been read already; `source` is what to call them."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    split = _split(source, config, examples, _split_seed(config))
    chosen = choose_network(config.model, examples.kind, examples.items.shape[1:]) if network is None else network
    views = make_views(examples, split, config.views, config.workers)
    built = build_network(chosen, examples.items.shape[1:], len(examples.classes))
    _try_network(built, describe_network(chosen), examples, views)
    parameters = sum(p.numel() for p in built.parameters())
    return Task(source, config, examples, split, views, chosen, parameters, choose_device(config.device))


def _split(source: str, config: Config, examples: Examples, seed: int) -> Split:
    if config.imbalance is None:
        return make_split(examples, config.labels or len(examples.classes) * 4, seed, config.test_fraction)
    if config.head_labels is None or config.head_unlabeled is None:
        raise InputError(
            f"a long-tailed split of {source!r} needs --head-labels and --head-unlabeled: the sizes of the largest class."
        )
    return make_long_tailed_split(
        examples,
        head_labeled=config.head_labels,
        head_unlabeled=config.head_unlabeled,
        gamma=config.imbalance,
        gamma_unlabeled=config.unlabeled_imbalance,
        seed=seed,
        test_fraction=config.test_fraction,
    )


@torch.no_grad()
def _try_network(network: nn.Module, name: str, examples: Examples, views: Views) -> None:
    """Two items through the network before anything is written: it must give a logit for each class."""
    items = examples.items if isinstance(examples.items, Tensor) else torch.zeros(2, *examples.items.shape[1:], dtype=torch.uint8)
    wanted = (min(len(items), 2), len(examples.classes))
    try:
        shape = tuple(network.eval()(views.plain(items[:2])).shape)
    except Exception as error:
        shape_in = "×".join(map(str, items.shape[1:]))
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(f"network {name!r} cannot take items of {shape_in}: {reason}") from error
    if shape != wanted:
        raise InputError(f"network {name!r} gives {shape} for a batch of two; {wanted}, a logit for each class, is needed.")


def effective(task: Task) -> dict[str, Any]:
    """All settings as plain values, with what "auto" and the settings left open have become."""
    config = task.config
    found = config.model_dump(mode="json")
    share = "the network's own" if is_own(task.network) else _norm_share(task, build_method(task, config.method))
    found |= {
        "labels": len(task.split.labeled),
        "model": task.network_name,
        "device": str(task.device),
        "threads": torch.get_num_threads(),
        "split_seed": _split_seed(config),
        "views": {key: value for key, value in task.views.settings().items() if key != "kind"},
        "statistics_momentum": _momentum(config, config.statistics_momentum),
        "model_momentum": _momentum(config, config.model_momentum),
        "batch_norm_momentum": share,
        "micro_batch": micro_batch(task),
        "evaluate_every": _evaluate_every(config),
        "checkpoint_every": _checkpoint_every(config),
    }
    return found


def micro_batch(task: Task) -> int:
    """Most images in one pass of separate statistics; 0: whole views."""
    if task.config.batch_statistics == "joint":
        return 0
    if task.config.micro_batch is not None:
        return task.config.micro_batch
    return CPU_MICRO_BATCH if task.device.type == "cpu" and task.examples.kind == "image" else 0


def _norm_share(task: Task, method: Method) -> float:
    """Share of a pass in the running statistics. A step of several passes moves them as far as a step of one."""
    config, most = task.config, micro_batch(task)
    if config.batch_norm_momentum is not None:
        return config.batch_norm_momentum
    passes = 1
    if config.batch_statistics == "separate":
        batches = [config.labeled_batch] * len(method.labeled_views) + [config.unlabeled_batch] * len(method.unlabeled_views)
        passes = sum(-(-size // most) if most else 1 for size in batches)
    return 1.0 - float(_momentum(config, None) ** (1.0 / passes))


def _evaluate_every(config: Config) -> int:
    return config.evaluate_every or max(config.steps // RECORDS_PER_RUN, 1)


def _checkpoint_every(config: Config) -> int:
    return config.checkpoint_every or max(config.steps // CHECKPOINTS_PER_RUN, 1)


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


def make_views(examples: Examples, split: Split, options: dict[str, Any], workers: int | None = None) -> Views:
    """The views of a modality, with the statistics of the training items."""
    kind: type[ImageViews] | type[VectorViews] = ImageViews if examples.kind == "image" else VectorViews
    mean: Sequence[float]
    std: Sequence[float]
    if examples.statistics is not None:
        mean, std = examples.statistics
    elif examples.kind == "image":
        mean, std = item_statistics(examples.items, split.unlabeled, workers)
    else:
        assert isinstance(examples.items, Tensor)
        items = examples.items[split.unlabeled].double()
        mean, std = items.mean(0).tolist(), items.std(0).tolist()
    try:
        return kind(mean=mean, std=[max(value, 1e-6) for value in std], **options)
    except (TypeError, ValueError) as error:
        raise InputError(f"views: {error}") from error


def make_trainer(task: Task, method: Method) -> Trainer:
    """Network, batches, optimiser and averages of one run, from its seed."""
    config, examples, split, device = task.config, task.examples, task.split, task.device
    torch.manual_seed(derive(config.seed, "network"))
    network = build_network(task.network, task.shape, len(examples.classes), _norm_share(task, method)).to(device)
    if examples.kind == "image" and not is_own(task.network):  # the user's may reshape in a way that needs the usual layout
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs
    batches = make_batches(
        labeled_items=examples.items[split.labeled],
        labels=examples.labels[split.labeled],
        unlabeled_items=examples.items,
        pool=split.unlabeled,
        workers=config.workers,
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
        make_optimizer(network, config.optimizer, config.lr, config.weight_decay, config.decay),
        ModelAverage(network, _momentum(config, config.model_momentum), warm=config.averages == "scaled"),
        steps=config.steps,
        lr=config.lr,
        num_classes=len(examples.classes),
        truth=examples.labels[split.unlabeled],
        every=_evaluate_every(config),
        device=device,
        clip=config.clip,
        precision=config.precision,
        batch_statistics=config.batch_statistics,
        micro_batch=micro_batch(task) or None,
        compiled=config.compile,
    )


def _fit(task: Task, method: Method, run: RunFolder, role: str, listener: Listener | None) -> tuple[Tensor, Record, float]:
    """Train, evaluate, record, checkpoint, save. Returns which test samples are wrong, the last record, and the seconds."""
    trainer, views = make_trainer(task, method), task.views
    every = _checkpoint_every(task.config)
    items, labels = task.test
    predict = partial(predict_probabilities, trainer.average.network, views, device=task.device, workers=task.config.workers)
    wrong, record, next_checkpoint = torch.zeros(0), {}, every
    try:
        for record in trainer.run():
            wrong = predict(items).argmax(-1) != labels
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
    save_model(run, trainer.average.network, task.network_name, task.shape, views, task.examples.classes)
    _save_boundary(task, trainer.average.network, run)
    return wrong, record, trainer.seconds


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
