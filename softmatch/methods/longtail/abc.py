"""ABC (Lee et al. 2021): a second head on the same features, trained on classes that are thinned out to equal size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch import targets
from softmatch.errors import InputError
from softmatch.methods.base import Forward, RecordedForward
from softmatch.methods.longtail.sizes import label_counts
from softmatch.methods.match import PAPER_STEPS, Match
from softmatch.methods.wrapper import Around, Make, match_method
from softmatch.state import Ramp
from softmatch.step import Batch, Output

HEAD = "balanced"
STRONG_VIEWS = ("strong", "strong_2")


class AuxiliaryBalanced(Around):
    """L = L_base + w·(mean k(x)·H(y, q'(ω(x))) + Σ_v mean k(u)·1(max p' ≥ τ)·H(p', q'(Ω_v(u)))), v = 1, 2.

    p' is what the balanced head makes of ω(u), without gradient; q' has a gradient, which reaches the features too. k is
    drawn for each sample: 1 with probability r_y = N_min/N_y for labelled ones, and with 1 − (t/K)(1 − r_ŷ') for unlabelled
    ones, so that these are thinned out little by little. Predictions are those of the balanced head.

    Args:
        counts: labels of each class (C,); a class without any is never thinned out.
        total_steps: K.
        threshold: τ.
        weight: w.
    """

    balance: Tensor

    def __init__(
        self, base: Match, counts: Tensor, total_steps: int = PAPER_STEPS, threshold: float = 0.95, weight: float = 1.0
    ) -> None:
        super().__init__(base)
        self.unlabeled_views = tuple(dict.fromkeys((*base.unlabeled_views, *STRONG_VIEWS)))
        self.needs_features, self.final_head = True, HEAD
        self.num_classes, self.threshold, self.weight = len(counts), threshold, weight
        self.register_buffer("balance", (counts[counts > 0].min() / counts).clamp_max(1.0))
        self.progress = Ramp(max(total_steps, 1))

    def heads(self, num_features: int) -> dict[str, nn.Module]:
        return {**super().heads(num_features), HEAD: nn.Linear(num_features, self.num_classes)}

    def step(self, forward: Forward, batch: Batch) -> Output:
        recorded = RecordedForward(forward)
        base = self.base.step(recorded, batch)
        further = [batch.unlabeled[name] for name in STRONG_VIEWS if name not in self.base.unlabeled_views]
        if further:
            recorded.encode(*further, tracking=False)

        def balanced(view: Tensor) -> Tensor:
            return forward.head(recorded.of(view).features, HEAD)

        labeled, unlabeled = self.balanced_losses(
            balanced(batch.labeled["weak"]),
            batch.labels,
            balanced(batch.unlabeled["weak"]),
            [balanced(batch.unlabeled[name]) for name in STRONG_VIEWS],
        )
        supervised = base.supervised_loss + self.weight * labeled.detach()
        unsupervised = self.weight * unlabeled.detach()
        if base.unsupervised_loss is not None:
            unsupervised = base.unsupervised_loss + unsupervised
        return Output(base.loss + self.weight * (labeled + unlabeled), supervised, unsupervised, base.pseudo)

    def balanced_losses(
        self, labeled_logits: Tensor, labels: Tensor, weak_logits: Tensor, strong_logits: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The labelled and the unlabelled loss of the balanced head. One step of t/K goes by."""
        if self.training:
            self.progress.advance()
        kept = _draw(self.balance[labels])
        labeled = (kept * F.cross_entropy(labeled_logits.float(), labels, reduction="none")).mean()
        with torch.no_grad():
            target = torch.softmax(weak_logits.float(), dim=-1)
            confidence, chosen = target.max(-1)
            kept = _draw(1.0 - self.progress() * (1.0 - self.balance[chosen])) * (confidence >= self.threshold)
        losses = [(kept * targets.cross_entropy(target, logits)).mean() for logits in strong_logits]
        return labeled, torch.stack(losses).sum()


def _draw(probability: Tensor) -> Tensor:
    """1 with that probability, else 0."""
    return (torch.rand(len(probability)).to(probability.device) < probability).float()


def abc(
    num_classes: int,
    *,
    base: str | Match = "fixmatch",
    base_options: Mapping[str, Any] | None = None,
    make: Make | None = None,
    class_counts: Sequence[int] | None = None,
    total_steps: int = PAPER_STEPS,
    threshold: float = 0.95,
    weight: float = 1.0,
) -> AuxiliaryBalanced:
    """ABC: an auxiliary head that sees every class equally often, around a match method; it makes the predictions."""
    if not 0.0 <= threshold <= 1.0:
        raise InputError(f"threshold must lie in [0, 1], not {threshold}.")
    if not weight > 0.0:
        raise InputError(f"weight must be positive, not {weight}: the head that makes the predictions would not be trained.")
    counts = label_counts(class_counts, num_classes)
    return AuxiliaryBalanced(match_method(base, make, base_options), counts, total_steps, threshold, weight)
