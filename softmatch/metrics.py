"""Quantity f and quality g of pseudo-labels (paper, definitions 2.1 and 2.2), and confidence intervals of error rates."""

from dataclasses import dataclass

import torch
from torch import Tensor

from softmatch.distributed.processes import sum_in_place

UNKNOWN = -1
BINS = 50
LEVEL = 0.95
"""Confidence level of intervals."""
RESAMPLES = 4000


def quantity(weights: Tensor) -> Tensor:
    """f = mean λ (definition 2.1), in [0, λ_max].

    Args:
        weights: λ of each sample (B,).

    Returns:
        f, a tensor of one number.

    Example:
        >>> quantity(torch.tensor([1.0, 0.5]))
        tensor(0.7500)
    """
    return weights.float().mean()


def quality(weights: Tensor, pseudo_labels: Tensor, truth: Tensor) -> Tensor:
    """g = Σ λ·1(ŷ = y) / Σ λ (definition 2.2), an accuracy in [0, 1].

    Samples of unknown truth (−1) do not count. NaN if no weight is left.

    Args:
        weights: λ of each sample (B,).
        pseudo_labels: ŷ (B,).
        truth: y (B,); −1 where unknown.

    Returns:
        g, a tensor of one number.

    Example:
        >>> quality(torch.tensor([1.0, 0.5]), torch.tensor([0, 1]), torch.tensor([0, 0]))
        tensor(0.6667)
    """
    weights = weights.float() * (truth != UNKNOWN)
    return (weights * (pseudo_labels == truth)).sum() / weights.sum()


def class_quality(weights: Tensor, pseudo_labels: Tensor, truth: Tensor, num_classes: int, by: str = "label") -> Tensor:
    """g of each class (C,): over the samples with that pseudo-label, or (`by="truth"`) over those of that true class.

    Args:
        weights: λ of each sample (B,).
        pseudo_labels: ŷ (B,).
        truth: y (B,); −1 where unknown.
        num_classes: C.
        by: "label" or "truth".

    Returns:
        g of each class (C,); NaN where no weight is.

    Raises:
        ValueError: `by` is neither.

    Example:
        >>> class_quality(torch.tensor([1.0, 0.5]), torch.tensor([0, 1]), torch.tensor([0, 0]), num_classes=2)
        tensor([1., 0.])
    """
    if by not in ("label", "truth"):
        raise ValueError(f'by must be "label" or "truth", not {by!r}')
    known = truth != UNKNOWN
    weights = weights.float() * known
    groups = pseudo_labels if by == "label" else torch.where(known, truth, 0)
    zeros = torch.zeros(num_classes, device=weights.device)
    total = zeros.index_add(0, groups, weights)
    return zeros.index_add(0, groups, weights * (pseudo_labels == truth)) / total


@dataclass(frozen=True)
class PseudoLabels:
    """Pseudo-labels of one unlabelled batch with their weights, detached.

    Attributes:
        labels: ŷ, the class the method trains on, (B,).
        weights: λ, (B,).
        unaligned_weights: λ without alignment, (B,); the same tensor if the method does not align.
        confidence: max p of the raw prediction, (B,).

    Example:
        >>> weights = torch.tensor([1.0])
        >>> PseudoLabels(torch.tensor([3]), weights, weights, torch.tensor([0.9])).labels
        tensor([3])
    """

    labels: Tensor
    weights: Tensor
    unaligned_weights: Tensor
    confidence: Tensor


class PseudoLabelMeter:
    """Sums over steps that give f, g, per-class figures and confidence histograms.

    Ratios are formed from summed numerators and denominators, never averaged. Everything stays on the device until
    `read`; `reset` starts the next window.

    Args:
        num_classes: C.
        device: place of the sums.
        fewest: samples that a window has at least. Until it has them, `reset` does not end it, and `read` adds the window before.

    Example:
        >>> meter, weights = PseudoLabelMeter(num_classes=2), torch.tensor([1.0, 0.5])
        >>> meter.update(PseudoLabels(torch.tensor([0, 1]), weights, weights, weights), truth=torch.tensor([0, 0]))
        >>> meter.read()["quantity"]
        0.75
    """

    def __init__(self, num_classes: int, device: torch.device | str = "cpu", fewest: int = 0) -> None:
        self.num_classes, self.fewest = num_classes, fewest
        self.device = torch.device(device)
        self._sums, self._earlier, self._own = self._zeros(), self._zeros(), self._zeros()
        self._new, self._samples = 0, 0  # since the last reset, and of this window

    def _zeros(self) -> dict[str, Tensor]:
        return {
            "class_sums": torch.zeros(5, self.num_classes, device=self.device),  # samples, λ, λ before UA, λ known, λ right
            "histograms": torch.zeros(3, BINS, device=self.device),  # rows: all, wrong, right
            "used": torch.zeros((), device=self.device),
        }

    def reset(self) -> None:
        """Begin what the next `read` is about."""
        self._new = 0
        if self._samples >= self.fewest:
            self._earlier, self._sums, self._samples = self._sums, self._zeros(), 0

    @torch.no_grad()
    def update(self, pseudo: PseudoLabels, truth: Tensor, samples: int | None = None) -> None:
        """Add one batch. `truth` (B,) is −1 if unknown; it is used for these sums only.

        Args:
            samples: size of the whole batch, if the rows are this process's share of it: `settle` adds those of the others.
        """
        sums, number = (self._sums, len(pseudo.labels)) if samples is None else (self._own, samples)
        known = (truth != UNKNOWN).float()
        right = (pseudo.labels == truth).float()
        weights = pseudo.weights.float()
        rows = torch.stack(
            [torch.ones_like(weights), weights, pseudo.unaligned_weights.float(), weights * known, weights * right]
        )
        sums["class_sums"].index_add_(1, pseudo.labels, rows)
        bins = (pseudo.confidence.float() * BINS).long().clamp(0, BINS - 1)
        sums["histograms"].index_add_(1, bins, torch.stack([torch.ones_like(weights), known - right, right]))
        sums["used"] += (weights > 0).float().sum()
        self._new += number
        self._samples += number

    def settle(self) -> None:
        """Add up what the processes have each of their shares, in one message, at the same step: before `read` and `state`."""
        sum_in_place([*self._own.values()])
        for name, value in self._own.items():
            self._sums[name] += value
            value.zero_()

    def state(self) -> dict[str, Tensor]:
        """The sums, for `load_state`."""
        earlier = {f"earlier_{name}": value for name, value in self._earlier.items()}
        return {**self._sums, **earlier, "counts": torch.tensor([self._new, self._samples])}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Continue with these sums; those of an older checkpoint have no earlier window."""
        for name, value in self._sums.items():
            value.copy_(state[name])
            self._earlier[name].copy_(state.get(f"earlier_{name}", torch.zeros(())))
        counts = state.get("counts", state["class_sums"][0].sum().expand(2))
        self._new, self._samples = (int(count) for count in counts)

    def read(self) -> dict[str, object]:
        """Figures since the last reset, over `fewest` samples or more where there were so many; as fractions, None for 0/0."""
        sums = self._sums if self._new else self._zeros()
        if self._new and self._samples < self.fewest:
            sums = {name: value + self._earlier[name] for name, value in sums.items()}
        samples, weight, unaligned, known, right = sums["class_sums"].double().cpu()
        histograms = sums["histograms"].cpu()
        total = float(samples.sum())
        used = float(sums["used"])
        return {
            "samples": int(total),
            "quantity": _ratio(float(weight.sum()), total),
            "quality": _ratio(float(right.sum()), float(known.sum())),
            "utilization": _ratio(used, total),
            "classes": {
                "samples": [int(n) for n in samples],
                "quantity": _ratios(weight, samples),
                "quality": _ratios(right, known),
                "unaligned_quantity": _ratios(unaligned, samples),
            },
            "histogram": {
                "all": [int(n) for n in histograms[0]],
                "wrong": [int(n) for n in histograms[1]],
                "right": [int(n) for n in histograms[2]],
            },
        }


def _ratio(top: float, bottom: float) -> float | None:
    return top / bottom if bottom > 0 else None


def _ratios(top: Tensor, bottom: Tensor) -> list[float | None]:
    return [_ratio(float(t), float(b)) for t, b in zip(top, bottom, strict=True)]


def wilson_interval(wrong: int, number: int) -> tuple[float, float]:
    """Wilson's interval of an error rate, valid for few samples and if none or all are wrong."""
    from scipy.stats import binomtest  # takes half a second to import

    found = binomtest(wrong, number).proportion_ci(LEVEL, method="wilson")
    return float(found.low), float(found.high)


def error_interval(errors: Tensor, other: Tensor | None = None) -> tuple[float, float]:
    """Interval over test samples of the error rate (Wilson), or of its difference to `other` on the same samples (bootstrap).

    If no sample differs, the bootstrap has no spread, and the interval follows the rule of three.
    """
    if other is None:
        return wilson_interval(int(errors.sum()), len(errors))
    values = errors.double() - other.double()
    if not bool(values.any()):
        return -min(3 / len(values), 1.0), min(3 / len(values), 1.0)
    generator, means = torch.Generator().manual_seed(0), []
    for _ in range(RESAMPLES // 200):  # 200 at a time, to bound the memory
        chosen = torch.randint(len(values), (200, len(values)), generator=generator)
        means.append(values[chosen].mean(1))
    spread = torch.cat(means).quantile(torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2], dtype=torch.float64))
    return float(spread[0]), float(spread[1])
