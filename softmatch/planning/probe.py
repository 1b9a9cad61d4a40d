"""Which passes a method makes in a step, found by running it on a network of one layer that counts, with batches of real size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor, nn

from softmatch.methods import Forward, Method
from softmatch.methods.base import BatchStatistics
from softmatch.networks.heads import Headed
from softmatch.planning.networks import CountedOperations
from softmatch.planning.setting import Setting
from softmatch.state import StepCount
from softmatch.step import Batch, Labeled, whole_batches
from softmatch.training.ema import ModelAverage

SIDE = 4
"""Of the images that are shown: what is in them does not matter."""
PHASES = 10
"""Moments of a run that are tried: some methods begin with labels alone, or do more later."""


@dataclass
class Tally:
    """What some steps do with the network; rows are of all processes together.

    Attributes:
        steps: how many they were.
        forward, backward: passes, and rows in them; learned_rows: of those backward passes that reach the weights, not the
            input alone.
        normalised, normalised_back: passes that normalise with their batch, and their backward passes.
        gathers: how often logits, features or gradients of them are gathered, by the rows of each view and the bytes of a row.
        announced: messages that say how many rows each process has, by the number of views they are about.
        whole: how often every process gets rows of a view of all of them, by the rows of the view and those that are wanted.
        operations: that the method starts besides the network's.
        followed: modules that the method trains besides the network, whose gradients are summed over the processes.
        heads: numbers in the heads that it adds to the network.
        curve: its weights are a function of the confidence, which records have.
    """

    steps: int = 0
    forward: int = 0
    forward_rows: int = 0
    backward: int = 0
    backward_rows: int = 0
    learned_rows: int = 0
    normalised: int = 0
    normalised_back: int = 0
    gathers: Counter[tuple[tuple[int, ...], int]] = field(default_factory=Counter)
    announced: Counter[int] = field(default_factory=Counter)
    whole: Counter[tuple[int, int]] = field(default_factory=Counter)
    operations: int = 0
    followed: int = 0
    heads: int = 0
    curve: bool = False

    def __deepcopy__(self, memo: object) -> Self:
        """A copy of the network counts here too."""
        return self


class _Passed(torch.autograd.Function):
    """A view on its way through the network, counted in both directions."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, tally: Tally, normalises: bool) -> Tensor:
        ctx.tally, ctx.normalises, ctx.rows = tally, normalises, len(value)
        tally.forward += 1
        tally.forward_rows += len(value)
        tally.normalised += normalises
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        ctx.tally.backward += 1
        ctx.tally.backward_rows += ctx.rows
        ctx.tally.normalised_back += ctx.normalises
        return gradients[0], None, None


class _Learned(torch.autograd.Function):
    """The weights of a pass: the way back leads here only where their own derivative is wanted."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, rows: int, tally: Tally) -> Tensor:
        ctx.tally, ctx.rows = tally, rows
        return weight.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        ctx.tally.learned_rows += ctx.rows
        return gradients[0], None, None


class CountingNetwork(nn.Module):
    """One counted layer and a head."""

    def __init__(self, inputs: int, features: int, num_classes: int, tally: Tally) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(inputs, features))
        self.head = nn.Linear(features, num_classes)
        self.tally = tally

    def features(self, inputs: Tensor) -> Tensor:
        """(B, …) → (B, features)."""
        weight: Tensor = _Learned.apply(self.weight, len(inputs), self.tally)  # type: ignore[no-untyped-call]  # torch's own signature
        out: Tensor = _Passed.apply(inputs.flatten(1) @ weight, self.tally, self.training)  # type: ignore[no-untyped-call]  # as above
        return out

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(inputs))
        return logits


class _CountingForward(Forward):
    """Counts what would be sent between processes; there is one here."""

    def __init__(
        self, network: nn.Module, statistics: BatchStatistics, micro_batch: int | None, average: nn.Module | None, tally: Tally
    ) -> None:
        super().__init__(network, statistics, micro_batch, average)
        self.tally = tally

    def around(self, network: nn.Module) -> Forward:
        return _CountingForward(network, self.batch_statistics, self.micro_batch, None, self.tally)

    def whole(self, view: Tensor, first: int | None = None) -> Tensor:
        self.tally.announced[1] += 1
        self.tally.whole[len(view), len(view) if first is None else min(first, len(view))] += 1
        return super().whole(view, first)

    def rows(self, view: Tensor) -> int:
        self.tally.announced[1] += 1
        return super().rows(view)

    def own(self, whole: Tensor) -> Tensor:
        if whole.requires_grad and torch.is_grad_enabled():  # the way back gathers the gradient of all rows
            self.tally.gathers[(len(whole),), whole[0].nbytes] += 1
        return super().own(whole)

    def _gathered(self, *kinds: Any) -> list[list[Tensor]]:
        self.tally.announced[len(kinds[0])] += 1
        for shares in kinds:
            self.tally.gathers[tuple(map(len, shares)), shares[0].shape[1] * shares[0].element_size()] += 1
        return super()._gathered(*kinds)


def stream_rows(setting: Setting, name: str, share: float) -> int:
    """Samples of a further labelled batch, see `Method.streams`.

    Args:
        share: of the labelled samples that are kept out of training.
    """
    if name == "balanced":
        return setting.config.labeled_batch
    return min(max(round(share * setting.data.labeled), 1), setting.config.unlabeled_batch)


def probe(method: Method, setting: Setting, features: int, micro_batch: int) -> Tally:
    """A step; PHASES of them, spread over the run, of a method that counts its steps.

    Args:
        method: for this setting, with a small unlabelled set; it is used up.
        features: of the real network.
        micro_batch: most rows in a pass of separate statistics; 0: whole views.
    """
    found = Tally()
    with torch.random.fork_rng(devices=[]), whole_batches():
        torch.manual_seed(0)
        trained = Trained(method, setting, features, micro_batch, found)
        phases = PHASES if any(isinstance(module, StepCount) for module in method.modules()) else 1
        for phase in range(phases):
            trained.step(int((phase + 0.5) / phases * setting.config.steps))
        found.curve = method.weight_curve(setting.data.classes) is not None
    return found


class Trained:
    """A method with the network that counts."""

    def __init__(self, method: Method, setting: Setting, features: int, micro_batch: int, tally: Tally) -> None:
        self.method, self.setting, self.tally = method, setting, tally
        config, data = setting.config, setting.data
        self.shape = (data.shape[0], SIDE, SIDE) if data.kind == "image" else (SIDE,)
        network: nn.Module = CountingNetwork(torch.Size(self.shape).numel(), features, data.classes, tally)
        if heads := method.heads(features):
            network = Headed(network, heads)
            tally.heads = sum(parameter.numel() for head in heads.values() for parameter in head.parameters())
        self.average = ModelAverage(network, 0.9)
        statistics = config.batch_statistics
        self.forward = _CountingForward(network.train(), statistics, micro_batch or None, self.average.network, tally)
        method.begin(network, self._follow)
        method.train()

    def _follow(self, module: nn.Module) -> torch.optim.Optimizer:
        self.tally.followed += 1
        return torch.optim.SGD(module.parameters(), lr=1e-3)

    def step(self, position: int) -> None:
        """The step of that position in the run."""
        for module in self.method.modules():
            if isinstance(module, StepCount):
                module.steps = position
        self.forward.begin(position)
        batch = self._batch()
        with _counted(self.tally):
            output = self.method.step(self.forward, batch)
            output.loss.backward()  # type: ignore[no-untyped-call]  # torch's own signature
            self.average.update(self.forward.network, position)
            self.method.after_step(self.forward, batch)
        self.forward.network.zero_grad()
        self.tally.steps += 1

    def _batch(self) -> Batch:
        config, data, method = self.setting.config, self.setting.data, self.method
        labels = torch.arange(config.labeled_batch) % data.classes

        def views(names: tuple[str, ...], number: int) -> dict[str, Tensor]:
            return {name: torch.randn(number, *self.shape) for name in names}

        streams = {}
        for name in method.streams:
            number = stream_rows(self.setting, name, method.validation_share)
            streams[name] = Labeled(views(("weak",), number), torch.arange(number) % data.classes)
        rows = config.unlabeled_batch if method.unlabeled_views else 0
        return Batch(
            labeled=views(method.labeled_views, config.labeled_batch),
            labels=labels,
            unlabeled=views(method.unlabeled_views, rows),
            index=torch.arange(rows),
            labeled_index=torch.arange(config.labeled_batch) % data.labeled,
            streams=streams,
        )


@contextmanager
def _counted(tally: Tally) -> Iterator[None]:
    with CountedOperations() as counter:
        yield
    tally.operations += counter.number
