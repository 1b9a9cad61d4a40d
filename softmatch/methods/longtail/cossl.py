"""CoSSL (Fan et al. 2022): a balanced classifier on averaged features, which later makes the pseudo-labels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from softmatch.errors import InputError
from softmatch.methods.base import Encoded, Forward, RecordedForward
from softmatch.methods.match import PAPER_STEPS
from softmatch.methods.options import require
from softmatch.methods.wrapper import BALANCED, Base, WithBalancedHead, label_counts, match_method
from softmatch.state import StepCount
from softmatch.step import Batch, Labeled, Output


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

    Args:
        base: the match method.
        class_counts: labels per class N_c (C,).
        teach_from: share of the run before h makes the pseudo-labels.
        mix: the smallest λ.
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
        ours, others = forward.teach_features(labeled.views["weak"], partners, batch_statistics=False)
        chance, share = torch.rand(2, number, 1).to(ours.device)
        kept = torch.where(chance < self.blending[labeled.labels][:, None], self.mix + (1.0 - self.mix) * share, 1.0)
        return F.cross_entropy(forward.head(kept * ours + (1.0 - kept) * others, BALANCED).float(), labeled.labels)

    @torch.no_grad()
    def _taught(self, forward: Forward, weak: Tensor) -> Forward:
        (features,) = forward.teach_features(weak, batch_statistics=False)
        return TaughtForward(forward, weak, Encoded(features, forward.head(features, BALANCED)))


cossl = CoLearning
