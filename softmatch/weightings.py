"""λ(p): the weight of each pseudo-label (paper, Table 1 and its appendix "sample weighting functions").

A weighting is used in two steps: `update(seen)` learns from this step's raw predictions, and `forward(probs,
pseudo_labels)` returns the weights (B,) of the *aligned* predictions without changing the state, which lives in buffers.
Thresholds that follow the state of learning (FlexMatch, Dash, AdaMatch, FreeMatch) are in `thresholds.py`.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from softmatch.averages import PAPER_MOMENTUM, RunningAverage, Start
from softmatch.state import Ramp, Shape
from softmatch.step import Seen, refuse_invalid

SMALLEST_VARIANCE = 1e-12

Estimation = Literal["all", "per_class", "fixed"]


class Weighting(nn.Module):
    """Base of every λ(p). A new one overrides `forward`, and `update` if it learns.

    Args:
        max_weight: λ_max; weights lie in [0, λ_max].

    Attributes:
        from_sums: `update` uses only what `seen` says of the whole batch (`mean_probs()`, `confidence_moments()`, …), and
            `forward` treats each row by itself. Several processes then exchange sums, whose size does not depend on the batch,
            instead of predictions. Declared by each class itself: a subclass may learn from more.

    Raises:
        ValueError: `max_weight` is not positive and finite.

    Example:
        >>> class Half(Weighting):
        ...     def forward(self, probs, pseudo_labels=None):
        ...         return torch.full((len(probs),), 0.5 * self.max_weight)
        >>> Half()(torch.tensor([[0.9, 0.1], [0.6, 0.4]]))
        tensor([0.5000, 0.5000])
    """

    from_sums: bool = False

    def __init__(self, max_weight: float = 1.0) -> None:
        super().__init__()
        if not max_weight > 0.0 or math.isinf(max_weight):
            raise ValueError(f"max_weight must be positive and finite, not {max_weight}")
        self.max_weight = max_weight

    def update(self, seen: Seen) -> None:
        """Learn from one step's raw predictions. Called once per step, before `forward`."""

    def forward(self, probs: Tensor, pseudo_labels: Tensor | None = None) -> Tensor:
        """Weights (B,) in [0, λ_max] of predictions (B, C).

        Args:
            probs: predictions on the weak view, aligned if the method aligns.
            pseudo_labels: argmax of the raw predictions (B,); by default the argmax of `probs`.

        Returns:
            λ of each prediction.

        Raises:
            NotImplementedError: this class does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} must define forward(probs, pseudo_labels)")

    def survey(self, probs: Tensor) -> None:
        """Learn from the predictions (N_U, C) of the averaged network on all unlabelled samples; see `Method.survey_every`."""

    def statistics(self) -> dict[str, Tensor]:
        """State worth logging and plotting, by name."""
        return {}


def needs_sums_only(part: nn.Module) -> bool:
    """True for a weighting or an alignment whose own class says `from_sums`."""
    return "from_sums" in vars(type(part)) and bool(part.from_sums)


def confidence(probs: Tensor) -> Tensor:
    """max p of every row; raises InputError for NaN."""
    refuse_invalid("probs", probs)
    return probs.max(dim=-1).values


class Constant(Weighting):
    """λ = λ_max: naive pseudo-labelling (Lee 2013).

    Example:
        >>> Constant()(torch.tensor([[0.9, 0.1], [0.6, 0.4]]))
        tensor([1., 1.])
    """

    from_sums = True

    def forward(self, probs: Tensor, pseudo_labels: Tensor | None = None) -> Tensor:
        return torch.full_like(confidence(probs), self.max_weight)


class Linear(Weighting):
    """λ = λ_max · max p.

    Example:
        >>> Linear()(torch.tensor([[0.9, 0.1], [0.6, 0.4]]))
        tensor([0.9000, 0.6000])
    """

    from_sums = True

    def forward(self, probs: Tensor, pseudo_labels: Tensor | None = None) -> Tensor:
        return self.max_weight * confidence(probs)


class Quadratic(Weighting):
    """λ = λ_max · (1 − (max p − 1)²).

    Example:
        >>> Quadratic()(torch.tensor([[0.9, 0.1], [0.6, 0.4]]))
        tensor([0.9900, 0.8400])
    """

    from_sums = True

    def forward(self, probs: Tensor, pseudo_labels: Tensor | None = None) -> Tensor:
        return self.max_weight * (1.0 - (confidence(probs) - 1.0) ** 2)


class Laplacian(Weighting):
    """λ = λ_max · exp(−|max p − μ| / b) with fixed μ = 1, b = 0.3.

    Args:
        mean: μ.
        scale: b.

    Example:
        >>> Laplacian()(torch.tensor([[0.9, 0.1], [0.6, 0.4]]))
        tensor([0.7165, 0.2636])
    """

    from_sums = True

    def __init__(self, mean: float = 1.0, scale: float = 0.3, max_weight: float = 1.0) -> None:
        super().__init__(max_weight)
        self.mean, self.scale = mean, scale

    def forward(self, probs: Tensor, pseudo_labels: Tensor | None = None) -> Tensor:
        return self.max_weight * torch.exp(-(confidence(probs) - self.mean).abs() / self.scale)


class Gaussian(Weighting):
    """λ = λ_max · exp(−(max p − μ)² / 2σ²) with fixed μ = 1, σ = 0.3.

    Args:
        mean: μ.
        std: σ.

    Example:
        >>> Gaussian()(torch.tensor([[0.9, 0.1], [0.6, 0.4]]))
        tensor([0.9460, 0.4111])
    """

    from_sums = True

    def __init__(self, mean: float = 1.0, std: float = 0.3, max_weight: float = 1.0) -> None:
        super().__init__(max_weight)
        self.mean, self.std = mean, std

    def forward(self, probs: Tensor, pseudo_labels: Tensor | None = None) -> Tensor:
        return self.max_weight * torch.exp(-((confidence(probs) - self.mean) ** 2) / (2.0 * self.std**2))


class Threshold(Weighting):
    """λ = λ_max · 1(max p ≥ τ): FixMatch (Sohn et al. 2020); `strict` compares with > as UDA does.

    Args:
        threshold: τ.
        strict: select max p > τ instead.

    Example:
        >>> Threshold(0.8)(torch.tensor([[0.9, 0.1], [0.6, 0.4]]))
        tensor([1., 0.])
    """

    from_sums = True

    def __init__(self, threshold: float = 0.95, strict: bool = False, max_weight: float = 1.0) -> None:
        super().__init__(max_weight)
        self.threshold, self.strict = threshold, strict

    def forward(self, probs: Tensor, pseudo_labels: Tensor | None = None) -> Tensor:
        top = confidence(probs)
        chosen = top > self.threshold if self.strict else top >= self.threshold
        return self.max_weight * chosen.to(top.dtype)


class RampUp(Weighting):
    """λ = ramp(t) · inner λ, by default of a constant (paper, "loss weight ramp up"); t counts updates from 0.

    Args:
        steps: T, the length of the ramp.
        inner: the weighting that is ramped.
        shape: shape of the ramp, see `softmatch.state`.
        start: steps before the ramp, with λ = 0.

    Example:
        >>> weighting = RampUp(steps=10)
        >>> for _ in range(5):
        ...     weighting.update(Seen(torch.tensor([[0.9, 0.1]])))
        >>> weighting(torch.tensor([[0.9, 0.1]]))
        tensor([0.4000])
    """

    from_sums = True

    def __init__(self, steps: int, inner: Weighting | None = None, shape: Shape = "linear", start: int = 0) -> None:
        inner = Constant() if inner is None else inner
        super().__init__(inner.max_weight)
        self.inner = inner
        self.ramp = Ramp(steps, shape, start)
        self.from_sums = needs_sums_only(inner)

    def update(self, seen: Seen) -> None:
        self.inner.update(seen)
        self.ramp.advance()

    def survey(self, probs: Tensor) -> None:
        self.inner.survey(probs)

    def statistics(self) -> dict[str, Tensor]:
        return {**self.inner.statistics(), "ramp": self.ramp()}

    def forward(self, probs: Tensor, pseudo_labels: Tensor | None = None) -> Tensor:
        ramp, weights = self.ramp(), self.inner(probs, pseudo_labels)
        return ramp * weights  # type: ignore[no-any-return]  # a module's call is untyped


class TruncatedGaussian(Weighting):
    """SoftMatch's λ (equation 7): exp(−k²(max p − μ)² / 2σ²) below the mean μ of the confidence, λ_max above it.

    μ and σ² are running averages of the batch mean and unbiased batch variance of the raw confidence (equations 5–6),
    from μ = 1/C and σ² = 1. The paper divides the variance by k² = 4 ("2σ").

    Args:
        num_classes: C.
        momentum: m of both averages.
        k: factor by which the Gaussian is narrower than σ.
        estimation: "all" one Gaussian; "per_class" one per pseudo-label; "fixed" constants.
        mean, variance: the constants of "fixed", otherwise the initial values (1/C and 1 by default).
        start: weight of the initial values in the averages (see RunningAverage).
        empty_class: for "per_class", a class absent from the batch keeps its values ("hold"), or moves towards μ = 0
            and σ² = 1 as in USB ("reset").

    Raises:
        ValueError: `estimation` or `empty_class` is unknown.

    Example:
        >>> weighting = TruncatedGaussian(num_classes=2, momentum=0.5)
        >>> probs = torch.tensor([[0.9, 0.1], [0.6, 0.4]])
        >>> weighting.update(Seen(probs))
        >>> weighting(probs)
        tensor([1.0000, 0.9976])
    """

    from_sums = True

    def __init__(
        self,
        num_classes: int,
        momentum: float = PAPER_MOMENTUM,
        k: float = 2.0,
        estimation: Estimation = "all",
        mean: float | None = None,
        variance: float | None = None,
        start: Start = "paper",
        empty_class: Literal["hold", "reset"] = "hold",
        max_weight: float = 1.0,
    ) -> None:
        super().__init__(max_weight)
        if estimation not in ("all", "per_class", "fixed"):
            raise ValueError(f'estimation must be "all", "per_class" or "fixed", not {estimation!r}')
        if empty_class not in ("hold", "reset"):
            raise ValueError(f'empty_class must be "hold" or "reset", not {empty_class!r}')
        self.num_classes, self.k, self.estimation, self.empty_class = num_classes, k, estimation, empty_class
        if mean is None:
            mean = 0.95 if estimation == "fixed" else 1.0 / num_classes
        if variance is None:
            variance = 0.01 if estimation == "fixed" else 1.0
        shape = (num_classes,) if estimation == "per_class" else ()
        self.mean = RunningAverage(torch.full(shape, mean), momentum, start)
        self.variance = RunningAverage(torch.full(shape, variance), momentum, start)

    @torch.no_grad()
    def update(self, seen: Seen) -> None:
        if self.estimation == "fixed":
            confidence(seen.weak_probs)  # raises InputError for NaN
            return
        per_class = self.estimation == "per_class"
        count, mean, variance = seen.class_moments() if per_class else seen.confidence_moments()
        if per_class and self.empty_class == "reset":
            several = count > 1
            self.mean.update(torch.where(several, mean, torch.zeros_like(mean)))
            self.variance.update(torch.where(several, variance, torch.ones_like(variance)))
        else:
            self.mean.update(mean, where=count > 0)
            self.variance.update(variance, where=count > 1)

    def statistics(self) -> dict[str, Tensor]:
        return {"mean": self.mean.value, "variance": self.variance.value}

    def forward(self, probs: Tensor, pseudo_labels: Tensor | None = None) -> Tensor:
        top = confidence(probs)
        mean, variance = self.mean.value, self.variance.value
        if self.estimation == "per_class":
            labels = probs.argmax(-1) if pseudo_labels is None else pseudo_labels
            mean, variance = mean[labels], variance[labels]
        below = (top - mean).clamp_max(0.0)
        return self.max_weight * torch.exp(-(self.k**2) * below**2 / (2.0 * variance.clamp_min(SMALLEST_VARIANCE)))


class TruncatedLaplacian(Weighting):
    """λ = λ_max · exp(−k|max p − μ| / b) below the mean μ of the confidence, λ_max above it (paper, appendix).

    The paper does not say how b is estimated. `fit` chooses: "mad" averages mean|c − μ_b| of the batch; "moment" uses
    b = √(σ²/2) from the variance; "mle" centres on the batch median instead of the mean.

    Args:
        num_classes: C.
        momentum: m of both averages.
        k: factor by which the Laplacian is narrower than b.
        fit: how b is estimated.
        start: weight of the initial values in the averages (see RunningAverage).

    Raises:
        ValueError: `fit` is unknown.

    Example:
        >>> weighting = TruncatedLaplacian(num_classes=2, momentum=0.5)
        >>> probs = torch.tensor([[0.9, 0.1], [0.6, 0.4]])
        >>> weighting.update(Seen(probs))
        >>> weighting(probs)
        tensor([1.0000, 0.8899])
    """

    def __init__(
        self,
        num_classes: int,
        momentum: float = PAPER_MOMENTUM,
        k: float = 2.0,
        fit: Literal["mad", "moment", "mle"] = "mad",
        start: Start = "paper",
        max_weight: float = 1.0,
    ) -> None:
        super().__init__(max_weight)
        if fit not in ("mad", "moment", "mle"):
            raise ValueError(f'fit must be "mad", "moment" or "mle", not {fit!r}')
        self.k, self.fit = k, fit
        self.mean = RunningAverage(torch.tensor(1.0 / num_classes), momentum, start)
        # The average of b itself, or for "moment" of σ² = 2b²: both start at variance 1.
        self.spread = RunningAverage(torch.tensor(1.0 if fit == "moment" else math.sqrt(0.5)), momentum, start)

    @torch.no_grad()
    def update(self, seen: Seen) -> None:
        top = confidence(seen.weak_probs)
        centre = top.quantile(0.5) if self.fit == "mle" else top.mean()
        self.mean.update(centre)
        if len(top) > 1:
            self.spread.update(top.var(unbiased=True) if self.fit == "moment" else (top - centre).abs().mean())

    def scale(self) -> Tensor:
        """b."""
        value = self.spread.value
        return (value / 2.0).clamp_min(SMALLEST_VARIANCE).sqrt() if self.fit == "moment" else value.clamp_min(1e-6)

    def statistics(self) -> dict[str, Tensor]:
        return {"mean": self.mean.value, "scale": self.scale()}

    def forward(self, probs: Tensor, pseudo_labels: Tensor | None = None) -> Tensor:
        below = (confidence(probs) - self.mean.value).clamp_max(0.0)
        return self.max_weight * torch.exp(self.k * below / self.scale())


CURVE_CLASSES = 200


@torch.no_grad()
def weight_curve(weighting: Weighting, num_classes: int, points: int = 101) -> tuple[Tensor, Tensor]:
    """λ as a function of the confidence, averaged over classes.

    A prediction of confidence x has x on one class and the rest spread evenly, so x runs from 1/C to 1. Of many classes, up to
    CURVE_CLASSES, evenly spaced, represent all: the time grows with their number times C.

    Args:
        weighting: λ.
        num_classes: C.
        points: number of confidences.

    Returns:
        Confidences and weights, each (points,).

    Example:
        >>> weight_curve(Linear(), num_classes=2, points=3)
        (tensor([0.5000, 0.7500, 1.0000]), tensor([0.5000, 0.7500, 1.0000]))
    """
    device = next((b.device for b in weighting.buffers()), torch.device("cpu"))
    grid = torch.linspace(1.0 / num_classes, 1.0, points, device=device)
    rest = ((1.0 - grid) / max(num_classes - 1, 1))[:, None].expand(points, num_classes)
    total = torch.zeros(points, device=device)
    chosen = torch.linspace(0, num_classes - 1, min(num_classes, CURVE_CLASSES)).round().long().tolist()
    for label in chosen:
        probs = rest.clone()
        probs[:, label] = grid
        total += weighting(probs, torch.full((points,), label, device=device))
    return grid, total / len(chosen)
