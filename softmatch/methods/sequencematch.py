"""SequenceMatch (Nguyen 2024): FlexMatch, and agreement of the predictions along weak → medium → strong views."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from softmatch import targets
from softmatch.methods.base import Forward
from softmatch.methods.match import Match
from softmatch.methods.options import require, require_choice
from softmatch.step import Batch, Output, refuse_invalid
from softmatch.thresholds import CurriculumThreshold

Mask = Literal["confident", "selected"]


class SequenceMatch(Match):
    """L = L_FlexMatch + K(ω → M) + K(M → Ω) + K(ω → Ω), M the medium view.

    K(a → b) = mean m_a·KL(sharpen_T(p_a) ‖ p_b), p_a without gradient. The mask m_a is 1(max p_a ≥ τ) of the view that
    gives the target ("confident"), or FlexMatch's λ of the weak view ("selected"). `forward` and `compute` take no medium view
    and are FlexMatch's part.
    """

    def __init__(self, weighting: CurriculumThreshold, temperature: float = 0.5, mask: Mask = "confident") -> None:
        super().__init__(weighting)
        self.threshold, self.temperature, self.mask = weighting.threshold, temperature, mask
        self.unlabeled_views = ("weak", "medium", "strong")

    def step(self, forward: Forward, batch: Batch) -> Output:
        labeled, weak, medium, strong = forward(
            batch.labeled["weak"], *(batch.unlabeled[name] for name in self.unlabeled_views), gradient=(True, False, True, True)
        )
        refuse_invalid("medium_logits", medium)
        output = self.compute(labeled, batch.labels, weak, strong, batch.index)
        assert output.pseudo is not None
        assert output.unsupervised_loss is not None
        selected = output.pseudo.weights if self.mask == "selected" else None
        divergence = (
            self.divergence_between(weak, medium, selected)
            + self.divergence_between(medium, strong, selected)
            + self.divergence_between(weak, strong, selected)
        )
        unsupervised = output.unsupervised_loss + divergence.detach()
        return Output(output.loss + divergence, output.supervised_loss, unsupervised, output.pseudo)

    def divergence_between(self, source: Tensor, trained: Tensor, selected: Tensor | None = None) -> Tensor:
        """K(a → b) of logits (B, C); `selected` (B,) replaces the mask of confident samples."""
        probs = torch.softmax(source.detach().float(), dim=-1)
        mask = (probs.max(-1).values >= self.threshold).to(probs.dtype) if selected is None else selected
        return (mask * targets.kl_divergence(targets.sharpened(probs, self.temperature), trained)).mean()


def sequencematch(
    num_classes: int,
    *,
    num_unlabeled: int,
    threshold: float = 0.95,
    temperature: float = 0.5,
    mask: Mask = "confident",
    mapping: Literal["convex", "linear", "concave"] = "convex",
    threshold_warmup: bool = True,
) -> SequenceMatch:
    """SequenceMatch: FlexMatch with a medium view, whose prediction lies between those of the weak and the strong one."""
    require("be positive", temperature=temperature)
    require_choice(Mask, mask=mask)
    weighting = CurriculumThreshold(num_classes, num_unlabeled, threshold, mapping, threshold_warmup)
    return SequenceMatch(weighting, temperature, mask)
