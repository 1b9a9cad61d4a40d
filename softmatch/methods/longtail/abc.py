"""ABC (Lee et al. 2021): a second head on the same features, trained on classes that are subsampled to equal size."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from softmatch import targets
from softmatch.methods.base import Forward, RecordedForward
from softmatch.methods.match import PAPER_STEPS
from softmatch.methods.options import require
from softmatch.methods.wrapper import BALANCED, Base, WithBalancedHead, label_counts, match_method
from softmatch.state import Ramp
from softmatch.step import Batch, Output

STRONG_VIEWS = ("strong", "strong_2")


class AuxiliaryBalanced(WithBalancedHead):
    """L = L_base + w·(mean k(x)·H(y, q'(ω(x))) + Σ_v mean k(u)·1(max p' ≥ τ)·H(p', q'(Ω_v(u)))), v = 1, 2.

    p' is the balanced head's prediction on ω(u), without gradient; the gradient of q' reaches the features too. k is sampled
    per sample: 1 with probability r_y = N_min/N_y for labelled samples, and with 1 − (t/K)(1 − r_ŷ') for unlabelled ones, which
    are therefore subsampled gradually. The balanced head makes the predictions.

    Args:
        base: the match method.
        class_counts: labels per class (C,); a class without labels is never subsampled.
        total_steps: K.
        threshold: τ.
        weight: w.
    """

    balance: Tensor

    def __init__(
        self,
        num_classes: int,
        *,
        base: Base = "fixmatch",
        class_counts: Sequence[int] | None = None,
        total_steps: int = PAPER_STEPS,
        threshold: float = 0.95,
        weight: float = 1.0,
    ) -> None:
        require("lie in [0, 1]", threshold=threshold)
        require("be positive", weight=weight)  # else the head that makes the predictions would not be trained
        counts = label_counts(class_counts, num_classes)
        super().__init__(match_method(base), num_classes)
        self.unlabeled_views = tuple(dict.fromkeys((*self.base.unlabeled_views, *STRONG_VIEWS)))
        self.threshold, self.weight = threshold, weight
        self.register_buffer("balance", (counts[counts > 0].min() / counts).clamp_max(1.0))
        self.progress = Ramp(max(total_steps, 1))

    def step(self, forward: Forward, batch: Batch) -> Output:
        recorded = RecordedForward(forward)
        base = self.base.step(recorded, batch)
        further = [batch.unlabeled[name] for name in STRONG_VIEWS if name not in self.base.unlabeled_views]
        if further:
            recorded.encode(*further, tracking=False)

        def balanced(view: Tensor) -> Tensor:
            return forward.head(recorded.of(view).features, BALANCED)

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
        """The labelled and the unlabelled loss of the balanced head. In training mode t grows by one."""
        if self.training:
            self.progress.advance()
        kept = _sample(self.balance[labels])
        labeled = (kept * F.cross_entropy(labeled_logits.float(), labels, reduction="none")).mean()
        with torch.no_grad():
            target = torch.softmax(weak_logits.float(), dim=-1)
            confidence, chosen = target.max(-1)
            kept = _sample(1.0 - self.progress() * (1.0 - self.balance[chosen])) * (confidence >= self.threshold)
        losses = [(kept * targets.cross_entropy(target, logits)).mean() for logits in strong_logits]
        return labeled, torch.stack(losses).sum()


def _sample(probability: Tensor) -> Tensor:
    """1 with that probability, else 0."""
    return (torch.rand(len(probability)).to(probability.device) < probability).float()


abc = AuxiliaryBalanced
