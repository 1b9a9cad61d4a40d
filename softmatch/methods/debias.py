"""DebiasPL (Wang et al. 2022): pseudo-labels and margins corrected by the running mean of the predictions."""

from __future__ import annotations

import torch
from torch import Tensor

from softmatch import targets
from softmatch.averages import PAPER_MOMENTUM, RunningAverage, Start
from softmatch.methods.match import Match, Refinement
from softmatch.methods.options import require
from softmatch.step import Seen
from softmatch.weightings import Threshold

SMALLEST_MARGINAL = 1e-12


class Debiasing(Refinement):
    """p' = softmax(z − τ·log p̂) = Norm(p·p̂^(−τ)), p̂ the running mean of the raw predictions before this step.

    Args:
        strength: τ.
    """

    previous: Tensor

    def __init__(self, num_classes: int, momentum: float = PAPER_MOMENTUM, start: Start = "paper", strength: float = 1.0) -> None:
        super().__init__()
        self.strength = strength
        uniform = torch.full((num_classes,), 1.0 / num_classes)
        self.marginal = RunningAverage(uniform, momentum, start)
        self.register_buffer("previous", uniform.clone())

    @torch.no_grad()
    def update(self, seen: Seen) -> None:
        self.previous.copy_(self.marginal.value)
        self.marginal.update(seen.weak_probs.mean(0))

    def forward(self, probs: Tensor, index: Tensor | None = None) -> Tensor:
        logits = probs.clamp_min(torch.finfo(probs.dtype).tiny).log()
        return torch.softmax(logits - self._margin(self.previous), dim=-1)

    def divergence(self, target: Tensor, logits: Tensor) -> Tensor:
        """H(target, softmax(z + τ·log p̂)) of every sample, with the p̂ of this step: the adaptive margins."""
        return targets.cross_entropy(target, logits.float() + self._margin(self.marginal.value))

    def _margin(self, marginal: Tensor) -> Tensor:
        return self.strength * marginal.clamp_min(SMALLEST_MARGINAL).log()

    def statistics(self) -> dict[str, Tensor]:
        return {"marginal": self.marginal.value}


def debiaspl(
    num_classes: int,
    *,
    momentum: float = PAPER_MOMENTUM,
    start: Start = "paper",
    threshold: float = 0.95,
    strength: float = 1.0,
    max_weight: float = 1.0,
) -> Match:
    """DebiasPL: FixMatch with labels corrected by the mean prediction p̂, and a margin by p̂ on the strong view.

    With `strength` 0 nothing is corrected and the method is FixMatch.
    """
    require("be 0 or more", strength=strength)
    debiasing = Debiasing(num_classes, momentum, start, strength)
    return Match(Threshold(threshold, max_weight=max_weight), divergence=debiasing.divergence, refinement=debiasing)
