"""The one interface between the training loop and a method: the views it needs, the state it keeps, its loss on a batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch.metrics import PseudoLabels
from softmatch.seen import refuse_invalid

BatchStatistics = Literal["joint", "separate"]


@dataclass(frozen=True)
class Batch:
    """One step's data: the views a method asked for, by name. The truth of unlabelled samples is not in it."""

    labeled: dict[str, Tensor]
    labels: Tensor
    unlabeled: dict[str, Tensor]
    index: Tensor


@dataclass(frozen=True)
class Output:
    """A method's loss on one batch, with its parts (detached) and what it made of the unlabelled samples."""

    loss: Tensor
    supervised_loss: Tensor
    unsupervised_loss: Tensor | None = None
    pseudo: PseudoLabels | None = None


class Forward:
    """The network as a method calls it: which views share batch statistics, and which need a gradient.

    "joint" runs all views in one forward pass, so that they share the statistics of batch normalisation, as the paper's
    code base does. "separate" runs one pass per view, those without gradient cheaply. Without batch normalisation the
    two compute the same.

    Args:
        micro_batch: with "separate", the most samples in a pass. Each pass normalises with statistics of its own (ghost
            batches), and its activations stay in the processor's cache.
    """

    def __init__(self, network: nn.Module, batch_statistics: BatchStatistics = "joint", micro_batch: int | None = None) -> None:
        if batch_statistics not in ("joint", "separate"):
            raise ValueError(f'batch_statistics must be "joint" or "separate", not {batch_statistics!r}')
        self.network = network
        self.batch_statistics = batch_statistics
        self.micro_batch = micro_batch if batch_statistics == "separate" else None

    def __call__(self, *views: Tensor, gradient: tuple[bool, ...] | None = None) -> list[Tensor]:
        """Logits of each view; those with `gradient` false are detached. By default all have a gradient."""
        wanted = gradient or (True,) * len(views)
        if self.batch_statistics == "joint":
            logits = self.network(torch.cat(views)).split([len(v) for v in views])
            return [z if w else z.detach() for z, w in zip(logits, wanted, strict=True)]
        out = []
        for view, want in zip(views, wanted, strict=True):
            with torch.set_grad_enabled(want and torch.is_grad_enabled()):
                out.append(self._pass(view))
        return out

    def _pass(self, view: Tensor) -> Tensor:
        """One view, in passes of nearly equal size."""
        number = 1 if self.micro_batch is None else -(-len(view) // self.micro_batch)
        logits = [self.network(piece) for piece in torch.tensor_split(view, max(number, 1))]
        return logits[0] if len(logits) == 1 else torch.cat(logits)

    def without_tracking(self, view: Tensor) -> Tensor:
        """Logits of a view that uses batch statistics but leaves the running ones alone."""
        with frozen_running_statistics(self.network):
            return self._pass(view)


@contextmanager
def frozen_running_statistics(network: nn.Module) -> Iterator[None]:
    """Batch normalisation in this block normalises with the batch and does not move its running statistics."""
    norms = [m for m in network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True


class Method(nn.Module):
    """Base of every method.

    Attributes:
        labeled_views, unlabeled_views: names of the views (of `softmatch.views`) that `step` finds in its batch.
    """

    labeled_views: tuple[str, ...] = ("weak",)
    unlabeled_views: tuple[str, ...] = ()

    def step(self, forward: Forward, batch: Batch) -> Output:
        """Update the state from this batch, and return its loss. Called once a training step."""
        raise NotImplementedError(f"{type(self).__name__} must define step(forward, batch)")

    def statistics(self) -> dict[str, Tensor]:
        """State worth logging, by name."""
        return {}

    def weight_curve(self, num_classes: int) -> tuple[Tensor, Tensor] | None:
        """λ over the confidence now, or None for a method without such a function."""
        return None


class Supervised(Method):
    """L = mean H(y, p(x)) on labelled samples alone: the twin that every run is compared with."""

    def forward(self, labeled_logits: Tensor, labels: Tensor) -> Tensor:
        refuse_invalid("labeled_logits", labeled_logits)
        return F.cross_entropy(labeled_logits.float(), labels)

    def step(self, forward: Forward, batch: Batch) -> Output:
        (logits,) = forward(batch.labeled["weak"])
        loss = self(logits, batch.labels)
        return Output(loss=loss, supervised_loss=loss.detach())
