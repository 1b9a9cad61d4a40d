"""The cost of networks, counted on torch's meta device, and of methods: their state, and their passes in real steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from softmatch.config import Config
from softmatch.data import Examples
from softmatch.errors import InputError, SoftmatchError
from softmatch.methods import Method
from softmatch.networks import Network, build_network, shapes_only
from softmatch.networks.heads import feature_size
from softmatch.planning.setting import EncoderSizes, Kind, Setting
from softmatch.state import StepCount
from softmatch.training.opening import Job
from softmatch.training.setup import CPU_MICRO_BATCH, build_method, make_trainer, prepare_job
from softmatch.training.task import Task

FLOAT, ROWS = 4, 2
"""Bytes of a number; samples of the pass that is counted (batch normalisation needs more than one)."""
LOOK = {"view", "t", "transpose", "expand", "detach", "alias", "_unsafe_view", "permute", "split", "slice", "select", "unsqueeze"}
"""Operations that look at a tensor in another way: they start nothing on a device."""


@dataclass(frozen=True)
class NetworkCost:
    """Numbers in the weights and in those that are trained; FLOPs and bytes of a sample; operations that the host starts.

    Attributes:
        state, tensors: bytes of the network's state, and tensors in it.
        saved, largest: bytes of a sample that are kept for the backward pass, and of its largest tensor.
        features: size of the head's input; None: the network does not show it.
    """

    parameters: int
    trained: int
    state: int
    tensors: int
    forward: float
    backward: float
    saved: float
    largest: float
    forward_operations: int
    backward_operations: int
    features: int | None


class CountedOperations(TorchDispatchMode):  # type: ignore[no-untyped-call]  # untyped in torch
    """Counts the operations that are started, and keeps the size of the largest tensor that one makes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in torch
        self.number, self.largest = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func.__name__.partition(".")[0] not in LOOK:
            self.number += 1
            made = found if isinstance(found, tuple | list) else (found,)
            self.largest = max([self.largest, *(value.nbytes for value in made if isinstance(value, Tensor))])
        return found


def count_network(network: nn.Module, shape: tuple[int, ...]) -> NetworkCost:
    """Count a forward and a backward pass of two samples on the meta device."""
    saved: dict[int, Tensor] = {}

    def keep(value: Tensor) -> Tensor:
        saved[value.untyped_storage()._cdata] = value
        return value

    keeping = torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value)
    with FlopCounterMode(display=False) as forward, CountedOperations() as started, keeping:
        out = network(torch.empty(ROWS, *shape, device="meta"))
    with FlopCounterMode(display=False) as backward, CountedOperations() as back:
        out.sum().backward()
    weights, state = list(network.parameters()), network.state_dict().values()
    own = {value.untyped_storage()._cdata for value in (*weights, *network.buffers())}
    return NetworkCost(
        parameters=sum(weight.numel() for weight in weights),
        trained=sum(weight.numel() for weight in weights if weight.requires_grad),
        state=sum(value.nbytes for value in state),
        tensors=len(state),
        forward=forward.get_total_flops() / ROWS,
        backward=backward.get_total_flops() / ROWS,
        saved=sum(value.untyped_storage().nbytes() for place, value in saved.items() if place not in own) / ROWS,
        largest=max(started.largest, FLOAT * ROWS * prod(shape)) / ROWS,
        forward_operations=started.number,
        backward_operations=back.number,
        features=feature_size(network),
    )


@cache
def planned_network(name: str, shape: tuple[int, ...], classes: int) -> tuple[nn.Module, NetworkCost]:
    """The network on the meta device, and its cost; InputError for items that it cannot take."""
    try:
        with shapes_only():
            network = build_network(name, shape, classes).to("meta").train()
        return network, count_network(network, shape)
    except SoftmatchError:
        raise
    except (RuntimeError, ValueError, OverflowError) as error:
        size, reason = "×".join(map(str, shape)), str(error).splitlines()[0].rstrip(".")
        raise InputError(f"The network {name} cannot be planned for items of {size}: {reason}.") from error


KEPT_OF_A_LAYER, KEPT_OF_EMBEDDINGS, OPERATIONS = 40, 8, (33, 40)
"""Bytes kept of a token for each number of its width, in a layer beside the perceptron and in the embeddings; operations of a
layer, forward and backward. Counted on the transformers library's own network (benchmarks/results/plan.md)."""


def count_encoder(sizes: EncoderSizes, config: Config, num_classes: int, tokens: float) -> NetworkCost:
    """Cost of an encoder that is trained, with its head, for texts padded to L tokens.

    Forward: two FLOPs for each number of a layer's matrices and each token, and 4·L·width for attention. Backward: twice that
    for trained layers, once with low-rank additions. Attention on a GPU keeps no L × L matrices.
    """
    layers, width, inner, _, words, positions = sizes
    matrices = 4 * width**2 + 2 * width * inner
    weights, forward = matrices + 9 * width + inner, layers * tokens * (2 * matrices + 4 * tokens * width)
    head = (width**2 + width if config.head == "gelu" else 0) + (width + 1) * num_classes
    whole, tuned, added = (words + positions + 4) * width + layers * weights + head, layers, 0
    trained, backward = whole, 2.0 * forward
    if config.tuned_layers is not None:
        tuned = min(config.tuned_layers, layers)
        trained, backward = tuned * weights + head, 2.0 * forward * tuned / layers
    if config.lora is not None:
        added = layers * config.lora * (8 * width + 2 * (width + inner))
        trained, backward = added + head, forward
    return NetworkCost(
        parameters=whole + added,
        trained=trained,
        state=FLOAT * (whole + added),
        tensors=0,
        forward=forward,
        backward=backward,
        saved=tokens * (tuned * (KEPT_OF_A_LAYER * width + 2 * FLOAT * inner) + KEPT_OF_EMBEDDINGS * width),
        largest=FLOAT * tokens * inner,
        forward_operations=OPERATIONS[0] * layers,
        backward_operations=OPERATIONS[1] * tuned,
        features=width,
    )


MAKERS, LARGE = (torch.full, torch.zeros, torch.ones, torch.empty), 10_000
"""Functions that make tensors, and the count of numbers above which these get no memory."""
SIDE, MOST, PHASES = 16, 100_000, 10
"""Limits of a probe: largest side, most samples of a user's own, moments of the run for a method that counts steps."""
ENCODER_ONLY = ("encoder", "fine_tune", "recipe", "tuned_layers", "lora", "head", "layer_decay", "head_rate", "length_buckets")
"""Settings that a task without texts does not have."""


class _WithoutMemory(TorchFunctionMode):
    """In this block, new tensors of many numbers have a shape and no content."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        given = dict(kwargs or {})
        size = args[0] if args else given.get("size", ())
        if func in MAKERS and isinstance(size, tuple | list) and prod(size) > LARGE:
            given["device"] = "meta"
        return func(*args, **given)


def random_task(setting: Setting, shape: tuple[int, ...], device: str, network: Network | None = None) -> Task:
    """The task of a setting, with one random item in the place of all: it takes no memory, and its split is the real one."""
    data, config = setting.data, setting.config
    update = {name: Config.model_fields[name].default for name in ENCODER_ONLY}
    update |= {"device": device, "labels": None if data.own else config.labels, "precision": "float32", "workers": 0}
    update |= {"views": {}} if data.kind == "text" else {}
    most = max(MOST, 2 * data.labeled) if data.own else data.train
    number, classes = min(data.train, most), tuple(map(str, range(data.classes)))
    random = torch.Generator().manual_seed(0)
    kind: Kind = "image" if len(shape) == 3 else "vector"
    one = torch.randint(0, 256, (1, *shape), generator=random).to(torch.uint8 if kind == "image" else torch.float32)
    items, labels = one.expand(number, *shape), torch.arange(number) % data.classes
    labels[data.labeled :] = -1
    groups, statistics = torch.arange(number) if data.own else None, ((0.5,) * shape[0],) * 2
    test = Examples(items[:2], labels[:2], classes, kind) if data.tested else None
    examples = Examples(items, labels, classes, kind, test, statistics, groups=groups)
    return prepare_job(Job(setting.source, config.model_copy(update=update), examples), network)


def planned_method(task: Task, kind: Kind, unlabeled: int) -> Method:
    """The method of a task for so many unlabelled samples of a kind, without memory for its state: it cannot be run."""
    many = torch.zeros(1, dtype=torch.int64).expand(unlabeled)
    sized = replace(task, split=replace(task.split, unlabeled=many), examples=replace(task.examples, kind=kind))
    with _WithoutMemory():
        return build_method(sized, task.config.method)


def state_bytes(method: Method) -> int:
    """Bytes of a method's state."""
    return sum(value.nbytes for value in method.state_dict().values())


@dataclass
class Passes:
    """Passes of a number of steps.

    Attributes:
        samples, views: samples of a batch, and rows of all their views.
        forward, forward_rows: passes through the network, and rows in them.
        backward, backward_rows, learned_rows: passes back, rows in them, and rows whose derivative reaches the weights.
        operations, view_operations: operations that the host starts, and those of them that make the batch.
    """

    steps: int = 0
    samples: int = 0
    views: int = 0
    forward: int = 0
    forward_rows: int = 0
    backward: int = 0
    backward_rows: int = 0
    learned_rows: int = 0
    operations: int = 0
    view_operations: int = 0

    def __deepcopy__(self, memo: object) -> Self:
        """A copy of the network counts here too."""
        return self


class _Passed(torch.autograd.Function):
    """A value on its way through the network, counted in both directions; `learned`: it is the network's weight."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, rows: int, passes: Passes, learned: bool) -> Tensor:
        ctx.passes, ctx.rows, ctx.learned = passes, rows, learned
        passes.forward += not learned
        passes.forward_rows += 0 if learned else rows
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        ctx.passes.backward += not ctx.learned
        ctx.passes.backward_rows += 0 if ctx.learned else ctx.rows
        ctx.passes.learned_rows += ctx.rows if ctx.learned else 0
        return gradients[0], None, None, None


class CountingNetwork(nn.Module):
    """One counted layer and a head."""

    def __init__(self, shape: tuple[int, ...], features: int, num_classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(prod(shape), features))
        self.head = nn.Linear(features, num_classes)
        self.passes = Passes()

    def features(self, inputs: Tensor) -> Tensor:
        """(B, …) → (B, features)."""
        count: Any = _Passed.apply
        weight = count(self.weight, len(inputs), self.passes, True)
        out: Tensor = count(inputs.flatten(1) @ weight, len(inputs), self.passes, False)
        return out

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(inputs))
        return logits


def probe_task(setting: Setting, features: int) -> Task:
    """The task of a setting on a network that counts: small items, batches of real size."""
    config, data = setting.config, setting.data
    side = min(data.shape[-1], SIDE)
    shape = (data.shape[0], side, side) if data.kind == "image" else (side,)
    if config.micro_batch is None:  # as on the device that is planned for
        micro = CPU_MICRO_BATCH if config.device == "cpu" and data.kind == "image" else 0
        setting = setting._replace(config=config.model_copy(update={"micro_batch": micro}))
    return random_task(setting, shape, "cpu", lambda: CountingNetwork(shape, features, data.classes))


def count_passes(task: Task, name: str) -> Passes:
    """Passes in a step of the method of that name; in ten steps spread over the run if it counts its steps."""
    few = replace(task.split, unlabeled=task.split.unlabeled[: 2 * task.config.unlabeled_batch])
    task = replace(task, split=few)
    with torch.random.fork_rng(devices=[]):
        trainer = make_trainer(task, build_method(task, name))
        counters = [module for module in trainer.method.modules() if isinstance(module, StepCount)]
        (network,) = (module for module in trainer.network.modules() if isinstance(module, CountingNetwork))
        passes = network.passes
        passes.steps = PHASES if counters else 1
        for phase in range(passes.steps):
            for counter in counters:
                counter.steps = int((phase + 0.5) / passes.steps * task.config.steps)
            with CountedOperations() as made:
                batch = trainer.batches(0)
            with CountedOperations() as started:
                trainer.advance()
            trainer.step = 0  # no survey, no new generation
            passes.view_operations += made.number
            passes.operations += started.number
    streams = [value for stream in batch.streams.values() for value in stream.views.values()]
    passes.views = sum(map(len, [*batch.labeled.values(), *batch.unlabeled.values(), *streams]))
    passes.samples = len(batch.labels) + len(batch.index)
    return passes
