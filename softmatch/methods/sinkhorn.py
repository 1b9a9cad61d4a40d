"""Sinkhorn label allocation (Tai, Bailis, Valiant 2021): pseudo-labels as a transport of samples to classes of limited size."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from softmatch.alignments import class_frequencies
from softmatch.errors import InputError
from softmatch.methods.base import require, require_choice
from softmatch.methods.match import PAPER_STEPS, Match
from softmatch.state import Ramp, Registry
from softmatch.step import Seen, refuse_invalid
from softmatch.weightings import Weighting

Bounds = Literal["prior", "wilson"]

TINY = torch.finfo(torch.float32).tiny


@torch.library.custom_op("softmatch::solve_columns", mutates_args=())
def solve_columns(
    scores: Tensor, start: Tensor, columns: Tensor, slack: Tensor, tolerance: float, max_iterations: int
) -> tuple[Tensor, Tensor]:
    """Sinkhorn's column potentials v of the plan exp(scores + u + v) with given sums.

    u = −LSE_columns(scores + v), plus log `slack` in the last row, so that the rows of the plan are softmax(scores + v) and
    v ← log(columns) − LSE_rows(scores + u) is v + log(columns / column sums of the plan): one softmax per iteration. This is
    a custom operation because torch.compile cannot follow a loop whose length depends on the data.

    Args:
        scores: −cost (N + 1, C + 1), the slack row and the "no label" column last.
        start: initial v (C + 1,).
        columns: target sums of the columns (C + 1,).
        slack: target sum of the last row; all others have 1.
        tolerance: stop when Σ|column sums − columns| / Σ columns is below it.

    Returns:
        v, centred on the mean of the classes, and the remaining error.
    """

    def sums(potential: Tensor) -> Tensor:
        plan = torch.softmax(scores + potential, dim=-1)
        return plan.sum(0) + (slack - 1.0) * plan[-1]

    potential, found = start.clone(), sums(start)
    error = torch.full_like(slack, math.inf)
    for _ in range(max_iterations):
        potential = potential + columns.log() - found.clamp_min(TINY).log()
        potential = potential - potential[:-1].mean()
        found = sums(potential)
        error = (found - columns).abs().sum() / columns.sum()
        if float(error) < tolerance:
            break
    return potential, error


@solve_columns.register_fake
def _(
    scores: Tensor, start: Tensor, columns: Tensor, slack: Tensor, tolerance: float, max_iterations: int
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(start), torch.empty_like(slack)


class LabelAllocation(Weighting):
    """λ = mass that the plan gives to the classes, target = its distribution; λ·target = softmax([v_c + γ·log p_c, v_0])_c.

    The plan (N + 1) × (C + 1) transports N samples to C classes of at most N·b_c places and to "no label"; it labels a share
    ρ_t = (t + 1)/K of all samples. Targets use v of the previous step; then the costs −log p of this batch replace the samples'
    old ones, and v is solved again from its present value.

    Args:
        num_unlabeled: N.
        bounds: b (C,), the largest share of samples of each class.
        total_steps: K.
        regularization: γ, one over the strength of the entropy term.
        tolerance, max_iterations: arguments of the solver, see `solve_columns`.
    """

    bounds: Tensor
    potential: Tensor
    previous: Tensor
    error: Tensor

    def __init__(
        self,
        num_unlabeled: int,
        bounds: Sequence[float],
        total_steps: int = PAPER_STEPS,
        regularization: float = 100.0,
        tolerance: float = 0.01,
        max_iterations: int = 100,
        max_weight: float = 1.0,
    ) -> None:
        super().__init__(max_weight)
        self.regularization, self.tolerance, self.max_iterations = regularization, tolerance, max_iterations
        num_classes = len(bounds)
        self.cost = Registry(num_unlabeled, (num_classes,), fill=math.log(num_classes))
        self.share = Ramp(total_steps, start=-1)
        self.register_buffer("bounds", torch.tensor(bounds, dtype=torch.float32))
        self.register_buffer("potential", torch.zeros(num_classes + 1))
        self.register_buffer("previous", torch.zeros(num_classes + 1))
        self.register_buffer("error", torch.zeros(()))

    @torch.no_grad()
    def update(self, seen: Seen) -> None:
        refuse_invalid("weak_probs", seen.weak_probs)
        self.cost.write(self.cost.check(seen.index), -seen.weak_probs.clamp_min(TINY).log())
        self.share.advance()
        self.previous.copy_(self.potential)
        scores = F.pad(-self.regularization * self.cost.rows, (0, 1, 0, 1))
        columns, slack = self.sums()
        potential, error = solve_columns(scores, self.potential, columns, slack, self.tolerance, self.max_iterations)
        self.potential.copy_(potential)
        self.error.copy_(error)

    def sums(self) -> tuple[Tensor, Tensor]:
        """Sums of the plan's columns (C + 1,), and of its slack row."""
        size, unlabeled = len(self.cost), 1.0 - self.share()
        spare = 1.0 - self.bounds.sum()
        columns = torch.cat([1.0 + size * self.bounds, 1.0 + size * (unlabeled + spare.clamp_min(0.0))[None]])
        return columns, 1.0 + len(self.bounds) + size * (unlabeled - spare.clamp_max(0.0))

    def _logits(self, probs: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of the plan's rows up to a constant: of the classes (B, C), and of "no label"."""
        potential = self.previous if self.training else self.potential
        return potential[:-1] + self.regularization * probs.clamp_min(TINY).log(), potential[-1]

    def target(self, probs: Tensor) -> Tensor:
        """Rows of the plan (B, C) without "no label", normalised."""
        return torch.softmax(self._logits(probs)[0], dim=-1)

    def forward(self, probs: Tensor, pseudo_labels: Tensor | None = None) -> Tensor:
        refuse_invalid("probs", probs)
        classes, none = self._logits(probs)
        return self.max_weight * torch.sigmoid(torch.logsumexp(classes, dim=-1) - none)

    def statistics(self) -> dict[str, Tensor]:
        return {"share": self.share(), "potential": self.potential, "error": self.error}


def upper_bounds(class_counts: Sequence[int], level: float) -> list[float]:
    """Wilson's upper bounds of the class frequencies, each from a two-sided interval of this level."""
    total, z = sum(class_counts), NormalDist().inv_cdf(0.5 + level / 2.0)
    found = []
    for count in class_counts:
        share = count / total
        spread = z * math.sqrt(share * (1.0 - share) / total + z * z / (4.0 * total * total))
        found.append((share + z * z / (2.0 * total) + spread) / (1.0 + z * z / total))
    return found


def sla(
    num_classes: int,
    *,
    num_unlabeled: int,
    total_steps: int = PAPER_STEPS,
    class_counts: Sequence[int] | None = None,
    class_prior: Sequence[float] | None = None,
    bounds: Bounds = "prior",
    level: float = 0.95,
    regularization: float = 100.0,
    tolerance: float = 0.01,
    max_iterations: int = 100,
    max_weight: float = 1.0,
) -> Match:
    """SLA: soft labels and weights from an optimal transport of all unlabelled samples to classes of limited size.

    The class sizes follow `class_prior` (uniform by default), or Wilson's upper bounds of the frequencies among the labelled
    samples.
    """
    require("be 1 or more", num_unlabeled=num_unlabeled, max_iterations=max_iterations)
    require_choice(Bounds, bounds=bounds)
    require("lie in (0, 1)", level=level)
    require("be positive", regularization=regularization, tolerance=tolerance)
    if bounds == "wilson":
        if not (class_counts and sum(class_counts)):
            raise InputError('bounds="wilson" needs class_counts: the number of labelled samples of each class.')
        sizes = upper_bounds(class_counts, level)
    else:
        shares = [1.0] * num_classes if class_prior is None else class_prior
        sizes = class_frequencies(shares, num_classes, "class_prior").tolist()
    weighting = LabelAllocation(num_unlabeled, sizes, total_steps, regularization, tolerance, max_iterations, max_weight)
    return Match(weighting, target=weighting.target)
