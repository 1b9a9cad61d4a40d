"""Methods for long-tailed data that change pseudo-labels: DARP (to given class counts) and CReST (added to the labels)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from softmatch.alignments import Alignment, class_frequencies
from softmatch.averages import queue_for
from softmatch.errors import InputError
from softmatch.methods.base import MakeOptimizer, require
from softmatch.methods.match import PAPER_STEPS, Match, Refinement
from softmatch.methods.wrapper import Around, Base, label_counts, match_method
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
        self, counts: Tensor, num_unlabeled: int, warmup: int, every: int, alpha: float, rounds: int, tolerance: float
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


GENERATIONS = 6
SHORTEST_GENERATION = 500


def sampling_shares(class_counts: Sequence[float], alpha: float = 1 / 3) -> list[float]:
    """(N_(C+1−l)/N_(1))^α for the class with the l-th largest count; among equal counts the lower class comes first.

    Example:
        >>> [round(share, 3) for share in sampling_shares([1, 8, 2], alpha=1.0)]
        [1.0, 0.125, 0.25]
    """
    order = sorted(range(len(class_counts)), key=lambda label: -class_counts[label])
    ranked = [class_counts[label] for label in order]
    share = dict(zip(order, ((rare / ranked[0]) ** alpha for rare in reversed(ranked)), strict=True))
    return [share[label] for label in range(len(class_counts))]


def choose(probs: Tensor, shares: Sequence[float]) -> Tensor:
    """Labels (N,) for the most confident share of the samples predicted as each class, −1 for the others."""
    confidence, predicted = probs.max(-1)
    chosen = torch.full_like(predicted, -1)
    for label, share in enumerate(shares):
        members = (predicted == label).nonzero().flatten()
        first = confidence[members].argsort(descending=True, stable=True)[: int(share * len(members))]
        chosen[members[first]] = label
    return chosen


class CReST(Around):
    """A match method in generations: each starts with new weights and a new state, but with the labels added by the last one.

    After a generation the most confident samples become labelled ones, a larger share of the rarer classes. There are 6
    generations, fewer in short runs (down to two) so that each has 500 steps.
    """

    added: Tensor
    generation: Tensor

    def __init__(
        self,
        num_classes: int,
        *,
        num_unlabeled: int,
        class_counts: Sequence[int] | None = None,
        total_steps: int = PAPER_STEPS,
        generations: int | None = None,
        alpha: float = 1 / 3,
        base: Base = "fixmatch",
    ) -> None:
        require("be 0 or more", alpha=alpha)
        require("be 1 or more", generations=generations)
        counts: list[int] = label_counts(class_counts, num_classes).long().tolist()
        number = generations or min(GENERATIONS, max(total_steps // SHORTEST_GENERATION, 2))
        super().__init__(match_method(base, total_steps=-(-total_steps // number)))
        self.generations, self.num_classes = number, num_classes
        self.shares = sampling_shares(counts, alpha)
        self.register_buffer("added", torch.full((num_unlabeled,), -1, dtype=torch.int64))
        self.register_buffer("generation", torch.zeros((), dtype=torch.int64))
        self._fresh = {name: value.clone() for name, value in self.base.state_dict().items()}

    def begin(self, network: nn.Module, make_optimizer: MakeOptimizer) -> None:
        self.base.load_state_dict(self._fresh)
        super().begin(network, make_optimizer)

    @torch.no_grad()
    def next_generation(self, probs: Tensor) -> None:
        self.added.copy_(choose(probs, self.shares))
        self.generation.add_(1)

    def added_labels(self) -> Tensor | None:
        return self.added

    def statistics(self) -> dict[str, Tensor]:
        counts = torch.bincount(self.added + 1, minlength=self.num_classes + 1)[1:]
        return {**super().statistics(), "generation": self.generation, "added_labels": counts}


class CReSTPlus(CReST):
    """CReST with targets aligned to r ∝ prior^t, t falling from 1 to `final_power` over the generations."""

    prior: Tensor

    def __init__(
        self,
        num_classes: int,
        *,
        num_unlabeled: int,
        class_counts: Sequence[int] | None = None,
        class_prior: Sequence[float] | None = None,
        total_steps: int = PAPER_STEPS,
        generations: int | None = None,
        alpha: float = 1 / 3,
        final_power: float = 0.5,
        queue: int = 128,
        base: Base = "fixmatch",
    ) -> None:
        require("lie in [0, 1]", final_power=final_power)
        require("be 1 or more", queue=queue)
        super().__init__(
            num_classes,
            num_unlabeled=num_unlabeled,
            class_counts=class_counts,
            total_steps=total_steps,
            generations=generations,
            alpha=alpha,
            base=base,
        )
        counts = label_counts(class_counts, num_classes).tolist()
        prior = class_frequencies(counts if class_prior is None else class_prior, num_classes, "class_prior")
        alignment = Alignment(num_classes, prior, queue=queue_for(total_steps // self.generations, queue))
        self.base.alignment, self.base.align_targets, self.final_power = alignment, True, final_power
        self.register_buffer("prior", alignment.goal.clone())
        self._fresh = {name: value.clone() for name, value in self.base.state_dict().items()}

    def power(self) -> Tensor:
        """t_g = 1 − g/(G − 1)·(1 − t_(G−1))."""
        return 1.0 - self.generation / max(self.generations - 1, 1) * (1.0 - self.final_power)

    def begin(self, network: nn.Module, make_optimizer: MakeOptimizer) -> None:
        super().begin(network, make_optimizer)
        goal = self.prior ** self.power()
        assert isinstance(self.base.alignment, Alignment)
        self.base.alignment.goal.copy_(goal / goal.sum())
