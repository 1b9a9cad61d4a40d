"""CReST and CReST+ (Wei et al. 2021): generations of training, each with pseudo-labels added for the rare classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from softmatch.alignments import Alignment, class_frequencies
from softmatch.averages import queue_for
from softmatch.errors import InputError
from softmatch.methods.base import MakeOptimizer
from softmatch.methods.longtail.sizes import label_counts
from softmatch.methods.match import PAPER_STEPS, Match
from softmatch.methods.wrapper import Around, Make, match_method

GENERATIONS = 6
SHORTEST_GENERATION = 500


def sampling_shares(class_counts: Sequence[float], alpha: float = 1 / 3) -> list[float]:
    """(N_(C+1−l)/N_(1))^α for the class with the l-th largest count; of equal counts the lower class comes first.

    Example:
        >>> [round(share, 3) for share in sampling_shares([1, 8, 2], alpha=1.0)]
        [1.0, 0.125, 0.25]
    """
    order = sorted(range(len(class_counts)), key=lambda label: -class_counts[label])
    ranked = [class_counts[label] for label in order]
    share = dict(zip(order, ((rare / ranked[0]) ** alpha for rare in reversed(ranked)), strict=True))
    return [share[label] for label in range(len(class_counts))]


def choose(probs: Tensor, shares: Sequence[float]) -> Tensor:
    """Labels (N,) of the most confident share of the samples predicted as each class; −1 for the others."""
    confidence, predicted = probs.max(-1)
    chosen = torch.full_like(predicted, -1)
    for label, share in enumerate(shares):
        members = (predicted == label).nonzero().flatten()
        first = confidence[members].argsort(descending=True, stable=True)[: int(share * len(members))]
        chosen[members[first]] = label
    return chosen


class CReST(Around):
    """Training in generations: new weights, and a new state of the match method, but labels added by the one before.

    Args:
        class_counts: of the labelled samples.
        num_unlabeled: N_U.
        generations: G.
        alpha: of `sampling_shares`.
    """

    added: Tensor
    generation: Tensor

    def __init__(
        self, base: Match, class_counts: Sequence[int], num_unlabeled: int, generations: int = GENERATIONS, alpha: float = 1 / 3
    ) -> None:
        super().__init__(base)
        self.generations, self.num_classes = generations, len(class_counts)
        self.shares = sampling_shares(class_counts, alpha)
        self.register_buffer("added", torch.full((num_unlabeled,), -1, dtype=torch.int64))
        self.register_buffer("generation", torch.zeros((), dtype=torch.int64))
        self._fresh = {name: value.clone() for name, value in base.state_dict().items()}

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
    """CReST with targets aligned to r ∝ prior^t, t falling from 1 to `final_power` over the generations.

    Args:
        prior: class frequencies.
        queue: batches in the mean by which alignment divides.
    """

    prior: Tensor

    def __init__(
        self,
        base: Match,
        class_counts: Sequence[int],
        num_unlabeled: int,
        prior: Sequence[float],
        generations: int = GENERATIONS,
        alpha: float = 1 / 3,
        final_power: float = 0.5,
        queue: int = 128,
    ) -> None:
        alignment = Alignment(len(class_counts), prior, queue=queue)
        base.alignment, base.align_targets = alignment, True
        super().__init__(base, class_counts, num_unlabeled, generations, alpha)
        self.final_power = final_power
        self.register_buffer("prior", alignment.goal.clone())

    def power(self) -> Tensor:
        """t_g = 1 − g/(G − 1)·(1 − t_(G−1))."""
        return 1.0 - self.generation / max(self.generations - 1, 1) * (1.0 - self.final_power)

    def begin(self, network: nn.Module, make_optimizer: MakeOptimizer) -> None:
        super().begin(network, make_optimizer)
        goal = self.prior ** self.power()
        assert isinstance(self.base.alignment, Alignment)
        self.base.alignment.goal.copy_(goal / goal.sum())


def crest(
    num_classes: int,
    *,
    num_unlabeled: int,
    class_counts: Sequence[int] | None = None,
    total_steps: int = PAPER_STEPS,
    generations: int | None = None,
    alpha: float = 1 / 3,
    base: str | Match = "fixmatch",
    base_options: Mapping[str, Any] | None = None,
    make: Make | None = None,
) -> CReST:
    """CReST: generations of a match method; after each, confident samples become labelled ones, above all of rare classes.

    There are 6 generations, in short runs fewer, down to two, so that one has 500 steps.
    """
    counts = _checked(num_classes, class_counts, alpha)
    number = _generations(generations, total_steps)
    match = match_method(base, make, base_options, total_steps=-(-total_steps // number))
    return CReST(match, counts, num_unlabeled, number, alpha)


def crest_plus(
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
    base: str | Match = "fixmatch",
    base_options: Mapping[str, Any] | None = None,
    make: Make | None = None,
) -> CReSTPlus:
    """CReST+: CReST with targets aligned to the class frequencies, which are levelled from generation to generation.

    The marginal of the predictions is the mean of the last `queue` batches, at most a fortieth of a generation.
    """
    counts = _checked(num_classes, class_counts, alpha)
    number = _generations(generations, total_steps)
    if not 0.0 <= final_power <= 1.0:
        raise InputError(f"final_power must lie in [0, 1] (0: uniform, 1: the frequencies themselves), not {final_power}.")
    if queue < 1:
        raise InputError(f"queue must be 1 batch or more, not {queue}.")
    prior = class_frequencies(counts if class_prior is None else class_prior, num_classes, "class_prior").tolist()
    length = queue_for(total_steps // number, queue)
    match = match_method(base, make, base_options, total_steps=-(-total_steps // number))
    return CReSTPlus(match, counts, num_unlabeled, prior, number, alpha, final_power, length)


def _generations(given: int | None, total_steps: int) -> int:
    """The number given, or 6 where the run is long enough: from a generation of few steps, classes are missing for ever."""
    if given is not None and given < 1:
        raise InputError(f"generations must be 1 or more, not {given}.")
    return min(GENERATIONS, max(total_steps // SHORTEST_GENERATION, 2)) if given is None else given


def _checked(num_classes: int, class_counts: Sequence[int] | None, alpha: float) -> Sequence[int]:
    if alpha < 0.0:
        raise InputError(f"alpha must be 0 (every predicted sample is added) or more, not {alpha}.")
    counts: list[int] = label_counts(class_counts, num_classes).long().tolist()
    return counts
