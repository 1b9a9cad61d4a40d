"""CReST and CReST+ (Wei et al. 2021): generations of training, each with pseudo-labels added for the rare classes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from softmatch.alignments import Alignment, class_frequencies
from softmatch.averages import queue_for
from softmatch.methods.base import MakeOptimizer
from softmatch.methods.match import PAPER_STEPS
from softmatch.methods.options import require
from softmatch.methods.wrapper import Around, Base, label_counts, match_method

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

    Args:
        num_unlabeled: N_U.
        class_counts: labels per class.
        generations: G.
        alpha: exponent of `sampling_shares`; with 0 every predicted sample is added.
        base: the match method.
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
    """CReST with targets aligned to r ∝ prior^t, t falling from 1 to `final_power` over the generations.

    Args:
        class_prior: class frequencies; by default those of the labels.
        final_power: t of the last generation; 0 is uniform, 1 the frequencies themselves.
        queue: batches in the mean by which alignment divides, at most a fortieth of a generation.
    """

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


crest, crest_plus = CReST, CReSTPlus
