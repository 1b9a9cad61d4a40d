"""Methods for long-tailed data with a second head trained on balanced classes: ABC and CoSSL."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from softmatch import targets
from softmatch.errors import InputError
from softmatch.methods.base import require
from softmatch.methods.forward import Encoded, Forward, RecordedForward
from softmatch.methods.match import PAPER_STEPS
from softmatch.methods.wrapper import BALANCED, Base, WithBalancedHead, label_counts, match_method
from softmatch.state import Ramp, StepCount
from softmatch.step import Batch, Labeled, Output

STRONG_VIEWS = ("strong", "strong_2")


class AuxiliaryBalanced(WithBalancedHead):
    """L = L_base + w·(mean k(x)·H(y, q'(ω(x))) + Σ_v mean k(u)·1(max p' ≥ τ)·H(p', q'(Ω_v(u)))), v = 1, 2.

    p' is the balanced head's prediction on ω(u), without gradient; the gradient of q' reaches the features too. k is sampled
    per sample: 1 with probability r_y = N_min/N_y for labelled samples, and with 1 − (t/K)(1 − r_ŷ') for unlabelled ones, which
    are therefore subsampled gradually. The balanced head makes the predictions.
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


class TaughtForward(RecordedForward):
    """A Forward that does not show one view to the network but returns a teacher's answer for it."""

    def __init__(self, inner: Forward, view: Tensor, answer: Encoded) -> None:
        super().__init__(inner)
        self.view, self.answer = view, answer

    def encode(self, *views: Tensor, gradient: tuple[bool, ...] | None = None, tracking: bool = True) -> list[Encoded]:
        pairs = zip(views, gradient or (True,) * len(views), strict=True)
        others = [(view, wanted) for view, wanted in pairs if view is not self.view]
        found: list[Encoded] = []
        if others:
            shown, wanted = zip(*others, strict=True)
            found = super().encode(*shown, gradient=wanted, tracking=tracking)
        rest = iter(found)
        return [self.answer if view is self.view else next(rest) for view in views]


class CoLearning(WithBalancedHead):
    """L = L_base + mean H(y, h(f̃)), f̃ = λf + (1 − λ)f_u with probability (N_max − N_y)/N_max and else f; λ ~ U[mix, 1].

    f are features of class-balanced labelled samples, f_u of random unlabelled ones (strong view), both by the averaged
    network in evaluation mode and without gradient: L_h moves only the head h, from the first step on. After `teach_from` of the
    run, h on the averaged features of ω(u) replaces the network's own weak prediction in the base. h makes the predictions.
    """

    blending: Tensor

    def __init__(
        self,
        num_classes: int,
        *,
        base: Base = "fixmatch",
        class_counts: Sequence[int] | None = None,
        total_steps: int = PAPER_STEPS,
        teach_from: float = 0.8,
        mix: float = 0.6,
    ) -> None:
        require("lie in [0, 1]", teach_from=teach_from, mix=mix)
        counts = label_counts(class_counts, num_classes)
        super().__init__(match_method(base), num_classes)
        if "strong" not in self.unlabeled_views:
            raise InputError("cossl labels the weak view with another head: its base must train the strong view (fixmatch, …).")
        self.streams = tuple(dict.fromkeys((*self.streams, "balanced")))
        self.teach_from, self.mix = round(teach_from * total_steps), mix
        self.register_buffer("blending", 1.0 - counts / counts.max())
        self.count = StepCount()

    def step(self, forward: Forward, batch: Batch) -> Output:
        loss = self.head_loss(forward, batch.streams["balanced"], batch.unlabeled["strong"])
        used = self._taught(forward, batch.unlabeled["weak"]) if self.count.steps >= self.teach_from else forward
        base = self.base.step(used, batch)
        if self.training:
            self.count.advance()
        return Output(base.loss + loss, base.supervised_loss + loss.detach(), base.unsupervised_loss, base.pseudo)

    def head_loss(self, forward: Forward, labeled: Labeled, unlabeled: Tensor) -> Tensor:
        """L_h, tail-class feature enhancement: the fewer labels a class has, the more of its features are blended."""
        number = len(labeled.labels)
        first = forward.whole(unlabeled, number)
        partners = forward.own(first[torch.arange(number, device=first.device) % len(first)])
        ours, others = forward.teach_features(labeled.views["weak"], partners)
        chance, share = torch.rand(2, number, 1).to(ours.device)
        kept = torch.where(chance < self.blending[labeled.labels][:, None], self.mix + (1.0 - self.mix) * share, 1.0)
        return F.cross_entropy(forward.head(kept * ours + (1.0 - kept) * others, BALANCED).float(), labeled.labels)

    @torch.no_grad()
    def _taught(self, forward: Forward, weak: Tensor) -> Forward:
        (features,) = forward.teach_features(weak)
        return TaughtForward(forward, weak, Encoded(features, forward.head(features, BALANCED)))
