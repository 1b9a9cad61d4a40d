"""What passes between data, methods and the loop in one step: Batch, Seen, Output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch import distributed as dist

from softmatch.distributed.processes import world
from softmatch.errors import InputError
from softmatch.metrics import PseudoLabels

_whole = False


@contextmanager
def whole_batches() -> Iterator[None]:
    """In this block, methods are given whole batches by every process: there is nothing to gather."""
    global _whole
    before, _whole = _whole, True
    try:
        yield
    finally:
        _whole = before


def gather(value: Tensor) -> Tensor:
    """`value` of every process, concatenated in rank order; the tensor itself when there is one process.

    In a loop of one's own, where each process gives a method its own batch; the batches must be of equal size.
    """
    if _whole or world().size == 1:
        return value
    parts = [torch.empty_like(value) for _ in range(world().size)]
    dist.all_gather(parts, value.contiguous())
    return torch.cat(parts)


def refuse_invalid(name: str, value: Tensor) -> None:
    """Raise InputError when a tensor on the CPU holds NaN or infinity.

    On an accelerator, and while compiling, nothing is checked: the check would make the host wait for the device at
    every step. There the training loop sees the loss and stops.
    """
    if torch.compiler.is_compiling() or value.device.type != "cpu" or torch.isfinite(value).all():
        return
    row = int((~torch.isfinite(value.reshape(value.shape[0], -1)).all(1)).nonzero()[0])
    raise InputError(
        f"{name} contains NaN or infinity (first in row {row}). The network has diverged or its input is not finite: "
        "check the inputs, lower the learning rate, or clip gradients."
    )


@dataclass(frozen=True)
class Seen:
    """One step's predictions: detached, float32, of all processes. Ground truth of unlabelled samples is not here.

    Attributes:
        weak_probs: p(y | ω(u)), (B_U, C).
        labeled_probs: p(y | ω(x)), (B_L, C), or None where a loop does not give them.
        labels: y, (B_L,).
        index: position of each unlabelled sample in the unlabelled set, (B_U,).
    """

    weak_probs: Tensor
    labeled_probs: Tensor | None = None
    labels: Tensor | None = None
    index: Tensor | None = None

    @classmethod
    @torch.no_grad()
    def from_logits(cls, weak_logits: Tensor, labeled_logits: Tensor | None, labels: Tensor | None, index: Tensor | None) -> Seen:
        def probs(logits: Tensor | None) -> Tensor | None:
            return None if logits is None else gather(torch.softmax(logits.detach().float(), dim=-1))

        weak = gather(torch.softmax(weak_logits.detach().float(), dim=-1))
        return cls(
            weak_probs=weak,
            labeled_probs=probs(labeled_logits),
            labels=None if labels is None else gather(labels),
            index=None if index is None else gather(index),
        )


class Labeled(NamedTuple):
    """A further labelled batch: its views by name, and its labels."""

    views: dict[str, Tensor]
    labels: Tensor


def _none() -> Tensor:
    return torch.zeros(0, dtype=torch.int64)


@dataclass(frozen=True)
class Batch:
    """One step's data: the views a method asked for, by name. The truth of unlabelled samples is not in it.

    Where several processes train one network, views are of this process's share of the samples, which a `Forward` of shares
    makes whole; labels and positions are of all samples.

    Attributes:
        index: position of each unlabelled sample in the unlabelled set.
        labeled_index: position of each labelled sample in the labelled set.
        streams: the further labelled batches that the method asked for, by name.
    """

    labeled: dict[str, Tensor]
    labels: Tensor
    unlabeled: dict[str, Tensor]
    index: Tensor
    labeled_index: Tensor = field(default_factory=_none)
    streams: Mapping[str, Labeled] = field(default_factory=dict)


@dataclass(frozen=True)
class Output:
    """A method's loss on one batch, with its parts (detached) and what it made of the unlabelled samples."""

    loss: Tensor
    supervised_loss: Tensor
    unsupervised_loss: Tensor | None = None
    pseudo: PseudoLabels | None = None
