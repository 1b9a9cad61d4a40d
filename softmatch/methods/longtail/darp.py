"""DARP (Kim et al. 2020): pseudo-labels changed as little as possible so that their class counts are right."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from softmatch.alignments import class_frequencies
from softmatch.errors import InputError
from softmatch.methods.match import PAPER_STEPS, Match, Refinement
from softmatch.methods.options import require
from softmatch.methods.wrapper import Base, match_method
from softmatch.state import Registry, StepCount
from softmatch.step import Seen

EPSILON = 1e-6
NEWTON_STEPS = 30


def drop_small(predictions: Tensor, counts: Tensor, alpha: float = 2.0) -> Tensor:
    """Keep the ⌊α·M_c⌋ largest predictions (N, C) of each class, scaled to the sum M_c, then normalise the rows."""
    columns = predictions.t().contiguous()
    order = torch.argsort(columns, dim=1, descending=True, stable=True)
    place = torch.arange(len(predictions), device=predictions.device).expand_as(order)
    rank = torch.empty_like(order).scatter_(1, order, place)
    kept = torch.where(rank < (alpha * counts).long()[:, None], columns, 0.0)
    scaled = kept * ((counts + EPSILON) / (kept.sum(1) + EPSILON))[:, None] + EPSILON
    return (scaled / scaled.sum(0)).t().contiguous()


def solve(predictions: Tensor, counts: Tensor, rounds: int = 10, tolerance: float = 0.1) -> Tensor:
    """x (N, C) of least Σ_i KL(x_i ‖ a_i)/h_i with row sums 1 and column sums M_c, h_i the entropy of the row a_i.

    The solution is x_ic = a_ic·exp(−ν_c·h_i)/Z_i. Each round scales the rows by Z, then moves every ν_c until its column sums
    to M_c. After the last round the row sums are exact, the column sums approximate.

    Args:
        predictions: a, rows of positive numbers with sum 1.
        counts: M_c, (C,), with sum N.
        tolerance: of ν.
    """
    logs = predictions.clamp_min(torch.finfo(predictions.dtype).tiny).log()
    entropy = torch.special.entr(predictions).sum(-1).clamp_min(EPSILON)
    wanted = counts.clamp_min(EPSILON).log()
    price = torch.zeros_like(counts)
    for _ in range(rounds):
        scaled = torch.log_softmax(logs - entropy[:, None] * price, dim=-1)
        price = price + _balance(scaled.t().contiguous(), entropy, wanted, tolerance)
    return torch.softmax(logs - entropy[:, None] * price, dim=-1)


def _balance(columns: Tensor, entropy: Tensor, wanted: Tensor, tolerance: float) -> Tensor:
    """δ_c with log Σ_i exp(columns_ci − δ_c·h_i) = wanted_c, by Newton's method on all classes at once.

    The left side is convex and falls with δ: from the left of the root no step overshoots, from the right only the first.
    """
    shift = torch.zeros_like(wanted)
    for _ in range(NEWTON_STEPS):
        moved = columns - shift[:, None] * entropy
        top = moved.amax(1)
        mass = torch.exp(moved - top[:, None])
        total = mass.sum(1)
        step = (top + total.log() - wanted) * total / (mass * entropy).sum(1)
        shift = shift + step
        if bool(step.abs().max() < tolerance):
            break
    return shift


class Refinery(Refinement):
    """A registry of the last prediction on every sample; after the warm-up, p' is the sample's row of the solved registry.

    Args:
        counts: M_c, target sums of the predictions on all N_U samples, (C,).
        warmup: updates in which p' = p.
        every: updates between two solutions.
        alpha, rounds, tolerance: arguments of `drop_small` and `solve`.
    """

    counts: Tensor

    def __init__(
        self,
        counts: Tensor,
        num_unlabeled: int,
        warmup: int,
        every: int,
        alpha: float,
        rounds: int,
        tolerance: float,
    ) -> None:
        super().__init__()
        self.warmup, self.every = warmup, every
        self.alpha, self.rounds, self.tolerance = alpha, rounds, tolerance
        num_classes = len(counts)
        self.register_buffer("counts", counts.float())
        self.predictions = Registry(num_unlabeled, (num_classes,), fill=1.0 / num_classes)
        self.refined = Registry(num_unlabeled, (num_classes,), fill=1.0 / num_classes)
        self.count = StepCount()

    @torch.no_grad()
    def update(self, seen: Seen) -> None:
        self.predictions.write(self.predictions.check(seen.index), seen.weak_probs)
        since = self.count.steps - self.warmup
        self.count.advance()
        if since >= 0 and since % self.every == 0:
            cleaned = drop_small(self.predictions.rows, self.counts, self.alpha)
            self.refined.rows.copy_(solve(cleaned, self.counts, self.rounds, self.tolerance))

    def forward(self, probs: Tensor, index: Tensor | None = None) -> Tensor:
        return self.refined[self.refined.check(index)] if self.count.steps > self.warmup else probs

    def statistics(self) -> dict[str, Tensor]:
        return {"refined_marginal": self.refined.rows.mean(0)}


def darp(
    num_classes: int,
    *,
    num_unlabeled: int,
    class_prior: Sequence[float] | None = None,
    target_counts: Sequence[float] | None = None,
    total_steps: int = PAPER_STEPS,
    warmup: float = 0.4,
    every: int = 10,
    alpha: float = 2.0,
    rounds: int = 10,
    tolerance: float = 0.1,
    base: Base = "fixmatch",
) -> Match:
    """DARP: a match method whose predictions on all samples are refined to given class counts.

    `target_counts`, in any unit, override `class_prior`, the frequencies of the labels. `warmup` is a share of the run.
    """
    require("lie in [0, 1)", warmup=warmup)
    require("be 1 or more", every=every, rounds=rounds)
    require("be positive", alpha=alpha, tolerance=tolerance)
    shares = class_prior if target_counts is None else target_counts
    if shares is None:
        raise InputError("DARP needs the class counts of the unlabelled samples: give class_prior or target_counts.")
    counts = num_unlabeled * class_frequencies(shares, num_classes, "target_counts")
    match = match_method(base)
    if match.refinement is not None:
        raise InputError("this base already corrects its predictions (as DebiasPL does): give DARP another base.")
    match.refinement = Refinery(counts, num_unlabeled, round(warmup * total_steps), every, alpha, rounds, tolerance)
    return match
