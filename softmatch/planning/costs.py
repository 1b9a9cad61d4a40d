"""A setting to plan, and its cost: networks counted on torch's meta device, methods by their state and passes in real steps."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from softmatch.config import Config, merge
from softmatch.data.defaults import suitable
from softmatch.data.examples import UNLABELED, Examples
from softmatch.data.preparations.images import LIMIT
from softmatch.data.sources import find_source
from softmatch.errors import InputError, SoftmatchError
from softmatch.methods import Method
from softmatch.networks import build_network, shapes_only
from softmatch.networks.heads import feature_size
from softmatch.recipes import complete
from softmatch.state import StepCount
from softmatch.training.opening import Job
from softmatch.training.setup import CPU_MICRO_BATCH, build_method, make_trainer, prepare_job
from softmatch.training.task import Task

Kind = Literal["image", "vector"]
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Data:
    """Sizes of data.

    Attributes:
        shape: (channels, side, side) or (features,).
        train, labeled, tested: samples in the training files, those of them with a label, and samples in a test set.
        own: they are a user's own, and all labels are used.
        files: bytes of items that stay in their files; None: items are held in memory.
    """

    kind: Kind
    shape: tuple[int, ...]
    classes: int
    train: int
    labeled: int
    tested: int
    own: bool = False
    files: int | None = None

    @property
    def item_bytes(self) -> int:
        """Bytes of an item in memory: uint8 images, float32 vectors."""
        return prod(self.shape) * (1 if self.kind == "image" else 4)

    @property
    def held(self) -> int:
        """Bytes of all training items in memory."""
        return 0 if self.files is not None else self.train * self.item_bytes


NAMED: Mapping[str, Data] = {
    "digits": Data("image", (1, 8, 8), 10, 1797, 1797, 0),
    "two-moons": Data("vector", (2,), 2, 1000, 1000, 1000),
    "cifar10": Data("image", (3, 32, 32), 10, 50_000, 50_000, 10_000),
    "cifar100": Data("image", (3, 32, 32), 100, 50_000, 50_000, 10_000),
    "svhn": Data("image", (3, 32, 32), 10, 604_388, 604_388, 26_032),
    "stl10": Data("image", (3, 96, 96), 10, 105_000, 5000, 8000),
    "imagenet": Data("image", (3, 224, 224), 1000, 1_281_167, 1_281_167, 50_000, files=144_300_000_000),
    "fashion-mnist": Data("image", (1, 28, 28), 10, 60_000, 60_000, 10_000),
}
"""Sizes of each data set as it was published; ImageNet (ILSVRC 2012) stays in its files."""
MOST_LABELS = 10**6


class Setting(NamedTuple):
    """A run to plan."""

    source: str
    config: Config
    data: Data


def named_setting(source: str, device: str, *given: Settings, where: str = "settings") -> Setting:
    """Setting for a source that softmatch knows by name.

    Args:
        device: "cpu" or "cuda".
        given: settings of a file and of the command line; later ones win.
    """
    named = find_source(source)
    config = complete(source, named.defaults, *given, {"device": device}, where=where)
    refuse_texts(source, named.texts or config.encoder is not None)
    return Setting(source, _with_precision(config), NAMED[source])


def own_setting(data: Data, device: str, *given: Settings, where: str = "settings") -> Setting:
    """Setting for data of which only sizes are known, with the settings that `softmatch train` would choose for them."""
    merged = merge(*given, {"device": device}, where=where)
    if any(merged.get(key) is not None for key in ("recipe", "data", "imbalance")):
        raise InputError("--recipe, --data and --imbalance are for sources that softmatch knows by name: leave them out.")
    asked, most = complete("your data", {}, merged, where=where), min(data.train, MOST_LABELS)
    refuse_texts("SOURCE", asked.encoder is not None)
    labels = asked.labels or data.classes * 4
    if not data.classes <= labels <= most:
        raise InputError(f"--labels {labels}: give a number from {data.classes:,} (one per class) to {most:,}.")
    items = torch.zeros(1, *data.shape, dtype=torch.float32 if data.kind == "vector" else torch.uint8)
    unlabeled = torch.tensor([UNLABELED]).expand(data.train)  # without memory for each sample
    all_items = items.expand(data.train, *data.shape)
    examples = Examples(all_items, unlabeled, tuple(map(str, range(data.classes))), data.kind)
    config = complete("your data", suitable(examples, labels, torch.device(device)), merged, where=where)
    files = 0 if data.kind == "image" and data.train * data.item_bytes > LIMIT else None
    return Setting(f"{data.train:,} {data.kind}s", _with_precision(config), replace(data, labeled=labels, own=True, files=files))


def _with_precision(config: Config) -> Config:
    """The same settings, in float32 where the machine would choose: the number format of a plan is the user's."""
    return config.model_copy(update={"precision": "float32"}) if config.precision == "auto" else config


def refuse_texts(source: str, encoded: bool) -> None:
    """Refuse texts and pretrained encoders, of which nothing is counted."""
    if encoded:
        advice = f"`softmatch train {source} … --dry-run` times a run on this machine."
        raise InputError(f"A plan of texts, or of a pretrained encoder, is not offered. {advice}")


FLOAT, ROWS = 4, 2
"""Bytes of a number; samples of the pass that is counted (batch normalisation needs more than one)."""
MAKERS, LARGE = (torch.full, torch.zeros, torch.ones, torch.empty), 10_000
"""Functions that make tensors, and the count of numbers above which these get no memory."""
SIDE, MOST, PHASES = 16, 100_000, 10
"""Limits of a probe: largest side, most samples of a user's own, moments of the run for a method that counts steps."""


@dataclass(frozen=True)
class NetworkCost:
    """Numbers in the weights; FLOPs and bytes of a sample.

    Attributes:
        state: bytes of the network's state.
        saved, largest: bytes of a sample that are kept for the backward pass, and of the largest tensor among them.
        features: size of the head's input, if the network shows it.
    """

    parameters: int
    state: int
    forward: float
    backward: float
    saved: float
    largest: float
    features: int | None


@cache
def planned_network(name: str, shape: tuple[int, ...], classes: int) -> tuple[nn.Module, NetworkCost]:
    """The network on the meta device, and its cost in a pass of two samples; InputError for items that it cannot take."""
    saved: dict[int, Tensor] = {}

    def keep(value: Tensor) -> Tensor:
        saved[value.untyped_storage()._cdata] = value
        return value

    keeping = torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value)
    try:
        with shapes_only():
            network = build_network(name, shape, classes).to("meta").train()
        with FlopCounterMode(display=False) as forward, keeping:
            out = network(torch.empty(ROWS, *shape, device="meta"))
        with FlopCounterMode(display=False) as backward:
            out.sum().backward()
    except SoftmatchError:
        raise
    except (RuntimeError, ValueError, OverflowError) as error:
        size, reason = "×".join(map(str, shape)), str(error).splitlines()[0].rstrip(".")
        raise InputError(f"The network {name} cannot be planned for items of {size}: {reason}.") from error
    own = {value.untyped_storage()._cdata for value in (*network.parameters(), *network.buffers())}
    kept = [value.untyped_storage().nbytes() / ROWS for place, value in saved.items() if place not in own]
    return network, NetworkCost(
        parameters=sum(weight.numel() for weight in network.parameters()),
        state=sum(value.nbytes for value in network.state_dict().values()),
        forward=forward.get_total_flops() / ROWS,
        backward=backward.get_total_flops() / ROWS,
        saved=sum(kept),
        largest=max(kept, default=0.0),
        features=feature_size(network),
    )


class _WithoutMemory(TorchFunctionMode):
    """In this block, new tensors of many numbers have a shape and no content."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        given = dict(kwargs or {})
        size = args[0] if args else given.get("size", ())
        if func in MAKERS and isinstance(size, tuple | list) and prod(size) > LARGE:
            given["device"] = "meta"
        return func(*args, **given)


def random_job(setting: Setting, shape: tuple[int, ...], device: str) -> Job:
    """The job of a setting, with one random item in the place of all: it takes no memory, and its split is the real one."""
    data, config = setting.data, setting.config
    update = {"device": device, "labels": None if data.own else config.labels, "precision": "float32", "recipe": None}
    number = min(data.train, max(MOST, 2 * data.labeled)) if data.own else data.train
    one = torch.randint(0, 256, (1, *shape), generator=torch.Generator().manual_seed(0))
    items = one.to(torch.uint8 if data.kind == "image" else torch.float32).expand(number, *shape)
    labels, classes = torch.arange(number) % data.classes, tuple(map(str, range(data.classes)))
    labels[data.labeled :] = -1
    groups, statistics = torch.arange(number) if data.own else None, ((0.5,) * shape[0],) * 2
    test = Examples(items[:2], labels[:2], classes, data.kind) if data.tested else None
    examples = Examples(items, labels, classes, data.kind, test, statistics, groups=groups)
    return Job(setting.source, config.model_copy(update={**update, "workers": 0}), examples)


def planned_method(task: Task, unlabeled: int) -> Method:
    """The method of a task for so many unlabelled samples, without memory for its state: it cannot be run."""
    many = torch.zeros(1, dtype=torch.int64).expand(unlabeled)
    with _WithoutMemory():
        return build_method(replace(task, split=replace(task.split, unlabeled=many)), task.config.method)


def state_bytes(method: Method) -> int:
    """Bytes of a method's state."""
    return sum(value.nbytes for value in method.state_dict().values())


class Passes(NamedTuple):
    """Means over steps.

    Attributes:
        samples, views: samples of a batch, and rows of all their views.
        forward, forward_rows: passes through the network, and rows in them.
        backward_rows, learned_rows: rows of the passes back, and those whose derivative reaches the weights.
    """

    samples: int
    views: int
    forward: float
    forward_rows: float
    backward_rows: float
    learned_rows: float


class CountingNetwork(nn.Module):
    """One layer that counts its passes, together with those of its copies, and a head."""

    passes: ClassVar[Counter[str]] = Counter()

    def __init__(self, shape: tuple[int, ...], features: int, num_classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(prod(shape), features))
        self.head = nn.Linear(features, num_classes)

    def features(self, inputs: Tensor) -> Tensor:
        """(B, …) → (B, features)."""
        weight = self.weight.clone()  # its gradient is that of this pass alone
        out = inputs.flatten(1) @ weight
        self.passes.update(forward=1, forward_rows=len(inputs))
        for value, back in ((out, {"backward_rows": len(inputs)}), (weight, {"learned_rows": len(inputs)})):
            if value.requires_grad:
                value.register_hook(lambda _, back=back: self.passes.update(back))  # type: ignore[no-untyped-call]  # of torch
        return out

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(inputs))
        return logits


def probe_task(setting: Setting, features: int) -> Task:
    """The task of a setting on a network that counts: small items, batches of real size."""
    config, data = setting.config.model_copy(update={"optimizer": "sgd"}), setting.data  # muon needs convolutions
    setting, side = setting._replace(config=config), min(data.shape[-1], SIDE)
    shape = (data.shape[0], side, side) if data.kind == "image" else (side,)
    if config.micro_batch is None:  # as on the device that is planned for
        micro = CPU_MICRO_BATCH if config.device == "cpu" and data.kind == "image" else 0
        setting = setting._replace(config=config.model_copy(update={"micro_batch": micro}))
    return prepare_job(random_job(setting, shape, "cpu"), lambda: CountingNetwork(shape, features, data.classes))


def count_passes(task: Task, name: str) -> Passes:
    """Passes in a step of the method of that name; in ten steps spread over the run if it counts its steps."""
    task = replace(task, split=replace(task.split, unlabeled=task.split.unlabeled[: 2 * task.config.unlabeled_batch]))
    with torch.random.fork_rng(devices=[]):
        trainer = make_trainer(task, build_method(task, name))
        counters = [module for module in trainer.method.modules() if isinstance(module, StepCount)]
        steps, batch = PHASES if counters else 1, trainer.batches(0)
        CountingNetwork.passes.clear()
        for phase in range(steps):
            for counter in counters:
                counter.steps = int((phase + 0.5) / steps * task.config.steps)
            trainer.advance()
            trainer.step = 0  # no survey, no new generation
    streams = [value for stream in batch.streams.values() for value in stream.views.values()]
    views = sum(map(len, [*batch.labeled.values(), *batch.unlabeled.values(), *streams]))
    means = (CountingNetwork.passes[key] / steps for key in ("forward", "forward_rows", "backward_rows", "learned_rows"))
    return Passes(len(batch.labels) + len(batch.index), views, *means)
