"""Batch, Seen and Output: the values that pass between data, methods and the loop in one step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from softmatch.distributed.processes import gather_rows, numbers_of_rows, summed, world
from softmatch.errors import InputError
from softmatch.metrics import PseudoLabels

_whole = False
DIVERGED = "The network has diverged or its input is not finite: check the inputs, lower the learning rate, or clip gradients."


@contextmanager
def whole_batches() -> Iterator[None]:
    """In this block every process gives methods the whole batch, so nothing is gathered."""
    global _whole
    before, _whole = _whole, True
    try:
        yield
    finally:
        _whole = before


def whole() -> bool:
    """True where methods get the whole batch: one process, or a block of `whole_batches`."""
    return _whole or world().size == 1


def gather(value: Tensor) -> Tensor:
    """Concatenate the rows of every process in rank order; with one process, return the tensor itself.

    For a loop of your own, in which each process gives a method its own batch. The batches may differ in size.
    """
    return gather_all([value])[0]


def gather_all(values: Sequence[Tensor]) -> list[Tensor]:
    """`gather` each of several tensors; the processes exchange all their sizes in one message."""
    if whole() or not values:
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
    raise InputError(f"{name} contains NaN or infinity (first in row {row}). {DIVERGED}")


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
        cls,
        weak_logits: Tensor,
        labeled_logits: Tensor | None,
        labels: Tensor | None,
        index: Tensor | None,
        *,
        by_sums: bool = False,
    ) -> "Seen":
        """Gather one step's logits, labels and positions over all processes.

        Args:
            by_sums: keep this process's rows, and exchange only the sums that the means below are made of.
        """
        given = {"labels": labels, "index": index}
        for name, logits in (("weak_probs", weak_logits), ("labeled_probs", labeled_logits)):
            given[name] = None if logits is None else torch.softmax(logits.detach().float(), dim=-1)
        known = {name: value for name, value in given.items() if value is not None}
        if by_sums:
            return SummedSeen.exchange(Seen(**known))
        return cls(**dict(zip(known, gather_all(list(known.values())), strict=True)))

    def _confidence(self) -> Tensor:
        refuse_invalid("probs", self.weak_probs)
        return self.weak_probs.max(-1).values

    def mean_probs(self) -> Tensor:
        """Mean prediction, (C,)."""
        refuse_invalid("weak_probs", self.weak_probs)
        return self.weak_probs.mean(0)

    def pseudo_label_shares(self) -> Tensor:
        """Share of each class among the pseudo-labels, (C,)."""
        return _one_hot(self.weak_probs.argmax(-1), self.weak_probs).mean(0)

    def confidence_moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """Number of samples, mean and unbiased variance of max p; a single sample has variance 0."""
        top = self._confidence()
        mean = top.mean()
        return torch.full_like(mean, len(top)), mean, top.var(unbiased=True) if len(top) > 1 else torch.zeros_like(mean)

    def class_moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """`confidence_moments` of the samples of each pseudo-label: (C,) each, 0 where undefined."""
        top, labels = self._confidence(), self.weak_probs.argmax(-1)
        zeros = torch.zeros(self.weak_probs.shape[1], dtype=top.dtype, device=top.device)
        count = zeros.index_add(0, labels, torch.ones_like(top))
        mean = zeros.index_add(0, labels, top) / count.clamp_min(1.0)
        squares = zeros.index_add(0, labels, (top - mean[labels]) ** 2)
        return count, mean, squares / (count - 1.0).clamp_min(1.0)

    def labeled_mean_probs(self) -> Tensor | None:
        """Mean prediction on the labelled samples, (C,); None without these."""
        if self.labeled_probs is None:
            return None
        refuse_invalid("labeled_probs", self.labeled_probs)
        return self.labeled_probs.mean(0)

    def label_shares(self) -> Tensor | None:
        """Share of each class among the labels, (C,); None without labels."""
        return None if self.labels is None else _one_hot(self.labels, self.weak_probs).mean(0)


@dataclass(frozen=True)
class SummedSeen(Seen):
    """One step's predictions on this process's rows, whose means are those of the rows of all processes.

    The processes exchange one message of at most 6C numbers. They are float64: a variance from Σc and Σc² is then off by
    10⁻¹⁵ at most, far below the smallest variance that a method uses.

    Attributes:
        weak_sums: Σ over all unlabelled rows of p, 1(ŷ), c·1(ŷ) and c²·1(ŷ), c = max p: (4, C).
        labeled_sums: Σ over all labelled rows of p and 1(y): (2, C).
    """

    weak_sums: Tensor = field(default_factory=lambda: torch.zeros(4, 0))
    labeled_sums: Tensor = field(default_factory=lambda: torch.zeros(2, 0))

    @classmethod
    def exchange(cls, own: Seen) -> "SummedSeen":
        """Sum what all processes have seen. Raises InputError in all of them if one has NaN or infinity."""
        weak = own.weak_probs.double()
        top, chosen = weak.max(-1, keepdim=True).values, _one_hot(weak.argmax(-1), weak)
        rows = [weak, chosen, top * chosen, top.square() * chosen]
        rows += [] if own.labeled_probs is None else [own.labeled_probs.double()]
        rows += [] if own.labels is None else [_one_hot(own.labels, weak)]
        found = summed(torch.stack([each.sum(0) for each in rows]))
        if weak.device.type == "cpu" and not torch.isfinite(found).all():
            raise InputError(f"the predictions contain NaN or infinity. {DIVERGED}")
        return cls(**vars(own), weak_sums=found[:4], labeled_sums=found[4:])

    def _number(self) -> Tensor:
        return self.weak_sums[1].sum()

    def mean_probs(self) -> Tensor:
        return self.weak_sums[0] / self._number()

    def pseudo_label_shares(self) -> Tensor:
        return self.weak_sums[1] / self._number()

    def confidence_moments(self) -> tuple[Tensor, Tensor, Tensor]:
        return _moments(self.weak_sums[1:].sum(1))

    def class_moments(self) -> tuple[Tensor, Tensor, Tensor]:
        return _moments(self.weak_sums[1:])

    def labeled_mean_probs(self) -> Tensor | None:
        return None if self.labeled_probs is None else self.labeled_sums[0] / self.labeled_sums[0].sum()

    def label_shares(self) -> Tensor | None:
        return None if self.labels is None else self.labeled_sums[-1] / self.labeled_sums[-1].sum()


def _one_hot(labels: Tensor, like: Tensor) -> Tensor:
    """1(y) of each row (B, C), of the kind of a tensor (…, C). Unlike torch's own, it never waits for the device."""
    return like.new_zeros(len(labels), like.shape[1]).scatter_(1, labels[:, None], 1.0)


def _moments(sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Number, mean and unbiased variance from n, Σc and Σc² (3, …)."""
    number, total, squares = sums
    mean = total / number.clamp_min(1.0)
    return number, mean, (squares - total * mean).clamp_min(0.0) / (number - 1.0).clamp_min(1.0)


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
    """A method's loss on one batch, its detached parts, and the pseudo-labels of the unlabelled samples.

    Attributes:
        own_rows: `pseudo` has this process's share of the samples only; the losses are of the whole batch.
    """

    loss: Tensor
    supervised_loss: Tensor
    unsupervised_loss: Tensor | None = None
    pseudo: PseudoLabels | None = None
    own_rows: bool = False
