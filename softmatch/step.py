"""Batch, Seen and Output: the values that pass between data, methods and the loop in one step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from softmatch.distributed.processes import gather_rows, numbers_of_rows, world
from softmatch.errors import InputError
from softmatch.metrics import PseudoLabels

_whole = False


@contextmanager
def whole_batches() -> Iterator[None]:
    """In this block every process gives methods the whole batch, so nothing is gathered."""
    global _whole
    before, _whole = _whole, True
    try:
        yield
    finally:
        _whole = before


def gather(value: Tensor) -> Tensor:
    """Concatenate the rows of every process in rank order; with one process, return the tensor itself.

    For a loop of your own, in which each process gives a method its own batch. The batches may differ in size.
    """
    return gather_all([value])[0]


def gather_all(values: Sequence[Tensor]) -> list[Tensor]:
    """`gather` each of several tensors; the processes exchange all their sizes in one message."""
    if _whole or world().size == 1 or not values:
        return list(values)
    numbers = numbers_of_rows([len(value) for value in values], values[0].device)
    return [gather_rows(value, rows) for value, rows in zip(values, numbers, strict=True)]


def refuse_invalid(name: str, value: Tensor) -> None:
    """Raise InputError when a tensor on the CPU holds NaN or infinity.

    Nothing is checked on an accelerator or while compiling, because the host would wait for the device at every step. There
    the training loop notices the loss and stops.
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
    """One step's predictions on the batches of all processes: detached, float32, without the truth of unlabelled samples.

    Attributes:
        weak_probs: p(y | ω(u)), (B_U, C).
        labeled_probs: p(y | ω(x)), (B_L, C), or None if the loop does not give them.
        labels: y, (B_L,).
        index: position of each unlabelled sample in the unlabelled set, (B_U,).

    Example:
        >>> Seen(torch.tensor([[0.9, 0.1]])).weak_probs.shape
        torch.Size([1, 2])
    """

    weak_probs: Tensor
    labeled_probs: Tensor | None = None
    labels: Tensor | None = None
    index: Tensor | None = None

    @classmethod
    @torch.no_grad()
    def from_logits(
        cls, weak_logits: Tensor, labeled_logits: Tensor | None, labels: Tensor | None, index: Tensor | None
    ) -> "Seen":
        """Gather one step's logits, labels and positions over all processes."""
        given = {"labels": labels, "index": index}
        for name, logits in (("weak_probs", weak_logits), ("labeled_probs", labeled_logits)):
            given[name] = None if logits is None else torch.softmax(logits.detach().float(), dim=-1)
        known = {name: value for name, value in given.items() if value is not None}
        return cls(**dict(zip(known, gather_all(list(known.values())), strict=True)))


class Labeled(NamedTuple):
    """An additional labelled batch: its views by name, and its labels."""

    views: dict[str, Tensor]
    labels: Tensor


def _none() -> Tensor:
    return torch.zeros(0, dtype=torch.int64)


@dataclass(frozen=True)
class Batch:
    """One step's data: the views a method asked for, by name, without the truth of unlabelled samples.

    When several processes train one network, views hold this process's share of the samples, which a sharded `Forward` makes
    whole; labels and positions are those of all samples.

    Attributes:
        index: position of each unlabelled sample in the unlabelled set.
        labeled_index: position of each labelled sample in the labelled set.
        streams: the additional labelled batches that the method asked for, by name.
    """

    labeled: dict[str, Tensor]
    labels: Tensor
    unlabeled: dict[str, Tensor]
    index: Tensor
    labeled_index: Tensor = field(default_factory=_none)
    streams: Mapping[str, Labeled] = field(default_factory=dict)

    def changed(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """The same batch with each view changed."""

        def each(views: dict[str, Tensor]) -> dict[str, Tensor]:
            return {name: change(view) for name, view in views.items()}

        streams = {name: stream._replace(views=each(stream.views)) for name, stream in self.streams.items()}
        return replace(self, labeled=each(self.labeled), unlabeled=each(self.unlabeled), streams=streams)


@dataclass(frozen=True)
class Output:
    """A method's loss on one batch, its detached parts, and the pseudo-labels of the unlabelled samples."""

    loss: Tensor
    supervised_loss: Tensor
    unsupervised_loss: Tensor | None = None
    pseudo: PseudoLabels | None = None
