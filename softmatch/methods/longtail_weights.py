"""Methods for long-tailed data that change λ by class: Adsh (thresholds) and SAW (loss weights)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch import targets
from softmatch.errors import InputError
from softmatch.methods.base import require
from softmatch.methods.match import PAPER_STEPS, Match
from softmatch.methods.wrapper import Base, epoch_steps, label_counts, match_method
from softmatch.state import Registry, StepCount
from softmatch.step import Seen, refuse_invalid
from softmatch.weightings import Weighting


class EqualShareThreshold(Weighting):
    """λ = 1(p_ŷ ≥ T_ŷ), T_c = exp(−s_c), ŷ = argmax p_c/T_c: every class passes the same share of its samples as the head class.

    A survey finds ρ, the share of the samples predicted as the head class whose confidence is ≥ τ, and for every other class
    T_c = min(τ, confidence at rank ⌊ρ·n_c⌋, or 1 if that is 0, among its n_c samples). T is τ before the first survey and
    always for the head class; a class that is not predicted keeps its T, and all classes do if the head class is not.

    Args:
        head: the class with the most labels.
    """

    thresholds: Tensor

    def __init__(self, num_classes: int, head: int, threshold: float = 0.95) -> None:
        super().__init__()
        self.num_classes, self.head, self.threshold = num_classes, head, threshold
        self.register_buffer("thresholds", torch.full((num_classes,), threshold))

    @torch.no_grad()
    def survey(self, probs: Tensor) -> None:
        top, labels = probs.float().max(-1)
        falling = torch.sort(top, descending=True, stable=True).indices
        order = falling[torch.sort(labels[falling], stable=True).indices]
        counts = torch.zeros(self.num_classes, dtype=torch.int64, device=probs.device)
        counts = counts.index_add(0, labels, torch.ones_like(labels))
        passed = ((labels == self.head) & (top >= self.threshold)).sum()
        rank = (passed * counts // counts[self.head].clamp_min(1)).clamp_min(1)
        places = (counts.cumsum(0) - counts + rank - 1).clamp_max(len(top) - 1)
        known = (counts > 0) & (counts[self.head] > 0)
        known[self.head] = False
        found = top[order[places]].clamp_max(self.threshold)
        self.thresholds.copy_(torch.where(known, found, self.thresholds))

    def target(self, probs: Tensor) -> Tensor:
        """One-hot ŷ."""
        return targets.hard(probs / self.thresholds)

    def statistics(self) -> dict[str, Tensor]:
        return {"class_thresholds": self.thresholds}

    def forward(self, probs: Tensor, pseudo_labels: Tensor | None = None) -> Tensor:
        refuse_invalid("probs", probs)
        labels = self.target(probs).argmax(-1) if pseudo_labels is None else pseudo_labels
        confidence = probs.gather(-1, labels[:, None])[:, 0]
        return self.max_weight * (confidence >= self.thresholds[labels]).to(probs.dtype)


def adsh(
    num_classes: int,
    *,
    num_unlabeled: int,
    base: Base = "fixmatch",
    class_counts: Sequence[int] | None = None,
    unlabeled_batch: int = 448,
    total_steps: int = PAPER_STEPS,
    threshold: float = 0.95,
    every: int | None = None,
) -> Match:
    """Adsh: hard labels and class thresholds, updated each epoch, in place of a match method's own weights."""
    require("lie in (0, 1)", threshold=threshold)
    head = int(label_counts(class_counts, num_classes).argmax())
    method = match_method(base)
    if method.penalty is not None:
        raise InputError(
            "adsh replaces the base's thresholds, which this base's penalty needs. Use another base, such as fixmatch."
        )
    weighting = EqualShareThreshold(num_classes, head, threshold)
    method.weighting, method.target = weighting, weighting.target
    method.survey_every = epoch_steps(num_unlabeled, unlabeled_batch, total_steps, every)
    return method


def class_weights(counts: Tensor) -> Tensor:
    """w_c ∝ (1 − β)/(1 − β^n_c) with β = (n̄ − 1)/n̄, n̄ = mean n and n_c ≥ 1, made to sum to C: (C,) → (C,)."""
    mean = counts.float().mean().clamp_min(1.0)
    effective = -torch.expm1(counts.float().clamp_min(1.0) * torch.log1p(-1.0 / mean))
    weights = 1.0 / effective
    return len(counts) * weights / weights.sum()


class ClassWeighted(Weighting):
    """λ = w_ŷ · inner λ, w the class weights of the predicted class counts on the unlabelled set.

    A registry holds the last argmax on the weak view of every sample; samples not seen yet count evenly for all classes. w is
    1 at first and follows the registry every `every` updates. λ_max is C times the inner one, an upper bound since w sums to C.
    """

    weights: Tensor

    def __init__(self, inner: Weighting, num_classes: int, num_unlabeled: int, every: int) -> None:
        super().__init__(num_classes * inner.max_weight)
        self.inner, self.num_classes, self.every = inner, num_classes, every
        self.predicted = Registry(num_unlabeled, fill=-1, dtype=torch.int32)
        self.register_buffer("weights", torch.ones(num_classes))
        self.count = StepCount()

    def counts(self) -> Tensor:
        """n_c of the unlabelled samples (C,)."""
        rows = self.predicted.rows.long() + 1
        found = torch.zeros(self.num_classes + 1, device=rows.device).index_add(
            0, rows, torch.ones(len(rows), device=rows.device)
        )
        return found[1:] + found[0] / self.num_classes

    @torch.no_grad()
    def update(self, seen: Seen) -> None:
        index = self.predicted.check(seen.index)
        self.inner.update(seen)
        if self.count.steps and self.count.steps % self.every == 0:
            self.weights.copy_(class_weights(self.counts()))
        self.predicted.write(index, seen.weak_probs.argmax(-1))
        self.count.advance()

    def survey(self, probs: Tensor) -> None:
        self.inner.survey(probs)

    def statistics(self) -> dict[str, Tensor]:
        return {**self.inner.statistics(), "class_weights": self.weights}

    def forward(self, probs: Tensor, pseudo_labels: Tensor | None = None) -> Tensor:
        labels = probs.argmax(-1) if pseudo_labels is None else pseudo_labels
        return self.weights[labels] * self.inner(probs, labels)  # type: ignore[no-any-return]  # a module's call is untyped


class ClassWeightedCrossEntropy(nn.Module):
    """mean w_y·H(y, p(x)), divided by the batch size, not by the sum of the weights."""

    weights: Tensor

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.register_buffer("weights", weights)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        return (self.weights[labels] * F.cross_entropy(logits.float(), labels, reduction="none")).mean()


def saw(
    num_classes: int,
    *,
    num_unlabeled: int,
    base: Base = "fixmatch",
    class_counts: Sequence[int] | None = None,
    unlabeled_batch: int = 448,
    total_steps: int = PAPER_STEPS,
    every: int | None = None,
) -> Match:
    """SAW: a match method with class-weighted losses: labelled ones by true counts, unlabelled ones by predicted counts."""
    counts = label_counts(class_counts, num_classes)
    method = match_method(base)
    if method.supervised_loss is not F.cross_entropy or type(method).step is not Match.step:
        raise InputError(
            "saw weights the cross-entropy on labels, but this base has a labelled loss of its own. Use another base."
        )
    method.weighting = ClassWeighted(
        method.weighting, num_classes, num_unlabeled, epoch_steps(num_unlabeled, unlabeled_batch, total_steps, every)
    )
    method.supervised_loss = ClassWeightedCrossEntropy(class_weights(counts))
    return method
