"""CoSSL (Fan et al. 2022): a balanced classifier on averaged features, which later labels for the network that makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch.errors import InputError
from softmatch.methods.base import Encoded, Forward, RecordedForward
from softmatch.methods.longtail.sizes import label_counts
from softmatch.methods.match import PAPER_STEPS, Match
from softmatch.methods.wrapper import Around, Make, match_method
from softmatch.state import StepCount
from softmatch.step import Batch, Labeled, Output

HEAD = "balanced"


class TaughtForward(RecordedForward):
    """A Forward that never shows one view to the network: for that view it gives the answer of a teacher."""

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


class CoLearning(Around):
    """L = L_base + mean H(y, h(f̃)), f̃ = λf + (1 − λ)f_u with probability (N_max − N_y)/N_max and else f; λ ~ U[mix, 1].

    f are features of class-balanced labelled samples, f_u of random unlabelled ones (strong view), both by the averaged
    network in evaluation mode and without gradient: L_h moves the head h alone. From step `teach_from` on, the base sees h on the
    averaged features of ω(u) in the place of the network's own weak prediction. Predictions are those of h.

    Args:
        counts: labels of each class N_c (C,).
        teach_from: steps before h makes the pseudo-labels.
        mix: the smallest λ.
    """

    blending: Tensor

    def __init__(self, base: Match, counts: Tensor, teach_from: int, mix: float = 0.6) -> None:
        super().__init__(base)
        self.streams = tuple(dict.fromkeys((*base.streams, "balanced")))
        self.needs_features, self.final_head = True, HEAD
        self.num_classes, self.teach_from, self.mix = len(counts), teach_from, mix
        self.register_buffer("blending", 1.0 - counts / counts.max())
        self.count = StepCount()

    def heads(self, num_features: int) -> dict[str, nn.Module]:
        return {**super().heads(num_features), HEAD: nn.Linear(num_features, self.num_classes)}

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
        return F.cross_entropy(forward.head(kept * ours + (1.0 - kept) * others, HEAD).float(), labeled.labels)

    @torch.no_grad()
    def _taught(self, forward: Forward, weak: Tensor) -> Forward:
        (features,) = forward.teach_features(weak, batch_statistics=False)
        return TaughtForward(forward, weak, Encoded(features, forward.head(features, HEAD)))


def cossl(
    num_classes: int,
    *,
    base: str | Match = "fixmatch",
    base_options: Mapping[str, Any] | None = None,
    make: Make | None = None,
    class_counts: Sequence[int] | None = None,
    total_steps: int = PAPER_STEPS,
    teach_from: float = 0.8,
    mix: float = 0.6,
) -> CoLearning:
    """CoSSL: a head trained on class-balanced, blended features of the averaged network, around a match method.

    The head is trained from the first step; after a share `teach_from` of the run it also makes the pseudo-labels.
    """
    if not 0.0 <= teach_from <= 1.0:
        raise InputError(f"teach_from is a share of the run in [0, 1], not {teach_from}.")
    if not 0.0 <= mix <= 1.0:
        raise InputError(f"mix, the smallest share of a sample's own feature, must lie in [0, 1], not {mix}.")
    counts = label_counts(class_counts, num_classes)
    inner = match_method(base, make, base_options)
    if "strong" not in inner.unlabeled_views:
        raise InputError("cossl labels the weak view by another head: its base must train the strong view (fixmatch, …).")
    return CoLearning(inner, counts, round(teach_from * total_steps), mix)
