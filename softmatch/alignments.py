"""Norm(p · r / s): predictions rescaled so that their running marginal s moves to a target marginal r.

With a uniform r, used for the weights only, this is the paper's uniform alignment (UA, equation 8); used for the targets
too it is distribution alignment (DA). The method chooses with `Match(align_targets=…)`.
"""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from softmatch.averages import PAPER_MOMENTUM, RunningAverage, Start
from softmatch.errors import InputError
from softmatch.state import Queue
from softmatch.step import Seen, refuse_invalid

Target = Literal["uniform", "predictions", "labels"] | Sequence[float] | Tensor

SMALLEST_MARGINAL = 1e-12
SMALLEST_TOTAL = 1e-30


class NoAlignment(nn.Module):
    """p̃ = p.

    Example:
        >>> NoAlignment()(torch.tensor([[0.9, 0.1]]))
        tensor([[0.9000, 0.1000]])
    """

    from_sums = True

    def update(self, seen: Seen) -> None:
        """Nothing to learn."""

    def forward(self, probs: Tensor) -> Tensor:
        refuse_invalid("probs", probs)
        return probs


class Alignment(nn.Module):
    """p̃ = Norm(p · r / s).

    Args:
        num_classes: C.
        target: r. "uniform"; a sequence of C class frequencies (the true prior); "predictions", the running mean of the
            predictions on labelled data; or "labels", the running frequency of the labels seen.
        momentum: m of the running averages.
        queue: s is the mean of the last `queue` batch means; 0: a running average.
        start: weight of the initial 1/C in the running averages (see RunningAverage); a queue starts full of 1/C.
        epsilon: added to r and s; 1e-6 in USB.

    Raises:
        ValueError: `target` is an unknown name.

    Example:
        >>> alignment = Alignment(num_classes=2, momentum=0.5)
        >>> alignment.update(Seen(torch.tensor([[0.9, 0.1], [0.6, 0.4]])))
        >>> alignment(torch.tensor([[0.6, 0.4]]))
        tensor([[0.4737, 0.5263]])
    """

    goal: Tensor
    from_sums = True

    def __init__(
        self,
        num_classes: int,
        target: Target = "uniform",
        momentum: float = PAPER_MOMENTUM,
        queue: int = 0,
        start: Start = "paper",
        epsilon: float = 0.0,
    ) -> None:
        super().__init__()
        self.num_classes, self.epsilon, self.queue = num_classes, epsilon, queue
        uniform = torch.full((num_classes,), 1.0 / num_classes)
        self.estimated = target if isinstance(target, str) and target != "uniform" else None
        if self.estimated not in (None, "predictions", "labels"):
            raise ValueError(f'target must be "uniform", "predictions", "labels" or class frequencies, not {target!r}')
        self.register_buffer("goal", uniform.clone() if isinstance(target, str) else class_frequencies(target, num_classes))
        self.target = RunningAverage(uniform, momentum, start) if self.estimated else None
        self.marginal = RunningAverage(uniform, momentum, start)
        if queue:
            self.recent = Queue(queue, (num_classes,), fill=1.0 / num_classes)

    @torch.no_grad()
    def update(self, seen: Seen) -> None:
        labeled = None if self.target is None else self._labeled_mean(seen)  # first, because it may raise
        batch = seen.mean_probs()
        if self.queue:
            self.recent.push(batch[None])
            self.marginal.value.copy_(self.recent.values.mean(0))
        else:
            self.marginal.update(batch)
        if self.target is not None and labeled is not None:
            self.target.update(labeled)
            self.goal.copy_(self.target.value)

    def _labeled_mean(self, seen: Seen) -> Tensor:
        probs, labels = seen.labeled_mean_probs(), seen.label_shares()
        if probs is None or labels is None:
            raise InputError("an estimated alignment target needs labelled logits and labels.")
        return labels if self.estimated == "labels" else probs

    def forward(self, probs: Tensor) -> Tensor:
        refuse_invalid("probs", probs)
        ratio = (self.goal + self.epsilon) / (self.marginal.value + self.epsilon).clamp_min(SMALLEST_MARGINAL)
        scaled = probs * ratio
        total = scaled.sum(-1, keepdim=True)
        # A certain prediction of a class with r = 0 leaves nothing to normalise; the result is then r.
        return torch.where(total > SMALLEST_TOTAL, scaled / total.clamp_min(SMALLEST_TOTAL), self.goal)


class EstimatedAlignment(Alignment):
    """Norm(p · r / s) with r counted: for labels whose classes are not as frequent as those of the unlabelled data.

    r is how often each class is predicted in a survey of the unlabelled set, with the labels added, so that no class is given up.
    Before the survey, p̃ = p.

    Args:
        num_classes: C.
        labels: number of labels of each class.
        momentum, start: as for `Alignment`.

    Example:
        >>> alignment = EstimatedAlignment(num_classes=2, labels=[1, 1])
        >>> alignment.survey(torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6]]))
        >>> alignment.goal
        tensor([0.6667, 0.3333])
    """

    from_sums = True
    known: Tensor

    def __init__(
        self, num_classes: int, labels: Sequence[float] | Tensor, momentum: float = PAPER_MOMENTUM, start: Start = "paper"
    ) -> None:
        super().__init__(num_classes, labels, momentum, start=start)
        self.labels = torch.as_tensor(labels)
        self.register_buffer("known", torch.tensor(False))

    @torch.no_grad()
    def survey(self, probs: Tensor) -> None:
        """Count classes in predictions (N, C) on the unlabelled set, once."""
        if not self.known:
            counted = torch.bincount(probs.argmax(-1), minlength=self.num_classes).cpu() + self.labels
            self.goal.copy_(counted / counted.sum())
            self.known.fill_(True)

    def forward(self, probs: Tensor) -> Tensor:
        return torch.where(self.known, super().forward(probs), probs)


def class_frequencies(shares: Sequence[float] | Tensor, num_classes: int, name: str = "class frequencies") -> Tensor:
    """Class shares or counts in any unit, checked and normalised to sum 1: (C,), float32."""
    found = torch.as_tensor(shares, dtype=torch.float64)
    if found.shape != (num_classes,) or not bool((found >= 0).all()) or not 0.0 < float(found.sum()) < math.inf:
        given = shares.tolist() if isinstance(shares, Tensor) else list(shares)
        raise InputError(f"{name} must be {num_classes} numbers ≥ 0 that are not all 0, not {given}.")
    return (found / found.sum()).float()
