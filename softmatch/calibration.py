"""Calibration of confidences: reliability, calibration error, temperature scaling; and error, precision and recall by class."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from softmatch.errors import InputError
from softmatch.seeds import stream

BINS = 15
LEAST_SAMPLES = 50
"""With fewer, a temperature says more about the sample than about the network."""
LOWEST, HIGHEST = 0.05, 20.0
TINY = torch.finfo(torch.float32).tiny
"""Replaces a probability that float32 has rounded to zero: its logarithm must stay finite."""

NO_HELP = (
    "Temperature scaling was tried and left out: on samples that the temperature was not fitted on, "
    "the scaled probabilities fit no better than the plain ones."
)


@dataclass(frozen=True)
class Bin:
    """Predictions whose confidence max p is in [low, high); the last bin includes 1. An empty bin has no means."""

    low: float
    high: float
    count: int
    confidence: float | None  # mean
    accuracy: float | None  # share of correct predictions


@dataclass(frozen=True)
class Calibration:
    """Calibration of predictions on samples with known classes, before and after temperature scaling.

    Attributes:
        ece: Σ count/N · |accuracy − confidence| over the bins; None without samples.
        ece_by_chance: its mean for a perfectly calibrated network and the same number of samples.
        nll: the mean of −log p(true class); None without samples.
        temperature: fitted on all samples; 1 where scaling does not help; None where it could not be fitted.
        reason: why the temperature is 1 or None, as a sentence; else None.
        ece_scaled, nll_scaled, bins_scaled: after scaling each half of the samples with the temperature of the other half,
            even if scaling does not help; None where no temperature could be fitted.
    """

    samples: int
    ece: float | None
    ece_by_chance: float | None
    nll: float | None
    bins: tuple[Bin, ...]
    temperature: float | None = None
    reason: str | None = None
    ece_scaled: float | None = None
    nll_scaled: float | None = None
    bins_scaled: tuple[Bin, ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class ClassFigures:
    """Samples of one true class, their error, precision and recall; None where undefined."""

    samples: int
    error: float | None
    precision: float | None
    recall: float | None


def reliability(probs: Tensor, labels: Tensor, bins: int = BINS) -> list[Bin]:
    """Confidence and accuracy in bins of equal width over max p."""
    _check(probs, labels)
    confidence, predicted = probs.double().max(-1)
    places = (confidence * bins).long().clamp(0, bins - 1)
    counts = torch.bincount(places, minlength=bins).tolist()
    sums = torch.bincount(places, weights=confidence, minlength=bins).tolist()
    right = torch.bincount(places, weights=(predicted == labels).double(), minlength=bins).tolist()
    return [
        Bin(place / bins, (place + 1) / bins, n, sums[place] / n if n else None, right[place] / n if n else None)
        for place, n in enumerate(counts)
    ]


def expected_calibration_error(probs: Tensor, labels: Tensor, bins: int = BINS) -> float:
    """ECE = Σ count/N · |accuracy − confidence|; NaN without samples."""
    return _ece(reliability(probs, labels, bins))


def negative_log_likelihood(probs: Tensor, labels: Tensor) -> float:
    """The mean of −log p(true class); a probability of zero counts as the smallest that float32 has. NaN without samples."""
    _check(probs, labels)
    return float(-_logs(probs).gather(1, labels[:, None]).mean())


def scale(probs: Tensor, temperature: float) -> Tensor:
    """softmax(log p / T), the same as dividing the logits by T; computed in double precision, returned in the type of `probs`."""
    if not 0 < temperature < float("inf"):
        raise InputError(f"a temperature must be a number above zero, not {temperature}.")
    return torch.softmax(_logs(probs) / temperature, -1).to(probs.dtype)


def fit_temperature(probs: Tensor, labels: Tensor) -> float:
    """The T in [0.05, 20] with the lowest negative log-likelihood, which has one minimum."""
    from scipy.optimize import minimize_scalar  # takes half a second to import

    _check(probs, labels)
    if not len(probs):
        raise InputError("a temperature cannot be fitted without samples.")
    logs = _logs(probs)
    found = minimize_scalar(
        lambda log_t: float(F.cross_entropy(logs / math.exp(log_t), labels)),
        bounds=(math.log(LOWEST), math.log(HIGHEST)),
        method="bounded",
        options={"xatol": 1e-8},
    )
    return math.exp(found.x)


def calibrate(probs: Tensor, labels: Tensor, seed: int = 0) -> Calibration:
    """Measure the calibration of predictions on samples that were not trained on.

    The temperature is fitted on all samples. Its effect is measured on samples that it was not fitted on, in two halves drawn
    by `seed`; if it does not lower their negative log-likelihood, it is 1.
    """
    bins = reliability(probs, labels)
    samples = len(labels)
    if not samples:
        return Calibration(0, None, None, None, tuple(bins), reason="There are no samples to measure calibration on.")
    plain = Calibration(samples, _ece(bins), _ece_by_chance(probs), negative_log_likelihood(probs, labels), tuple(bins))
    if (reason := _unfit(probs, labels)) is not None:
        return replace(plain, reason=reason)
    order = torch.randperm(samples, generator=stream(seed, "calibration"))
    halves = order[: samples // 2], order[samples // 2 :]
    scaled = torch.empty(probs.shape, dtype=torch.float64)
    for fitted, applied in (halves, halves[::-1]):
        scaled[applied] = scale(probs[applied].double(), fit_temperature(probs[fitted], labels[fitted]))
    loss = negative_log_likelihood(scaled, labels)
    better = plain.nll is not None and loss < plain.nll
    return replace(
        plain,
        temperature=fit_temperature(probs, labels) if better else 1.0,
        reason=None if better else NO_HELP,
        ece_scaled=expected_calibration_error(scaled, labels),
        nll_scaled=loss,
        bins_scaled=tuple(reliability(scaled, labels)),
    )


def class_figures(predicted: Tensor, labels: Tensor, num_classes: int) -> list[ClassFigures]:
    """Samples, error, precision and recall of each class."""
    hits = torch.bincount(labels[predicted == labels], minlength=num_classes).tolist()
    samples = torch.bincount(labels, minlength=num_classes).tolist()
    given = torch.bincount(predicted, minlength=num_classes).tolist()
    return [
        ClassFigures(n, (n - hit) / n if n else None, hit / made if made else None, hit / n if n else None)
        for n, hit, made in zip(samples, hits, given, strict=True)
    ]


def _ece(bins: list[Bin]) -> float:
    total = sum(one.count for one in bins)
    gaps = [
        one.count * abs(one.accuracy - one.confidence) for one in bins if one.accuracy is not None and one.confidence is not None
    ]
    return sum(gaps) / total if total else float("nan")


def _ece_by_chance(probs: Tensor) -> float:
    """Mean ECE if every prediction were correct with the probability of its confidence.

    The count of correct ones in a bin then has variance Σ p(1 − p); by the normal approximation, its mean absolute deviation
    is √(2/π) times the root of that.
    """
    confidence = probs.double().amax(-1)
    places = (confidence * BINS).long().clamp(0, BINS - 1)
    variance = torch.bincount(places, weights=confidence * (1 - confidence).clamp(min=0), minlength=BINS)
    return float((variance * 2 / torch.pi).sqrt().sum() / len(confidence))


def _unfit(probs: Tensor, labels: Tensor) -> str | None:
    """Reason why no temperature can be fitted, or None."""
    if len(labels) < LEAST_SAMPLES:
        return f"No temperature was fitted: that needs {LEAST_SAMPLES} measured samples, and there are {len(labels)}."
    right = int((probs.argmax(-1) == labels).sum())
    if right == len(labels):
        return "No temperature was fitted: all predictions are right, so any higher confidence would fit better."
    if right == 0:
        return "No temperature was fitted: all predictions are wrong, so any lower confidence would fit better."
    return None


def _logs(probs: Tensor) -> Tensor:
    return probs.double().clamp(min=TINY).log()


def _check(probs: Tensor, labels: Tensor) -> None:
    if probs.ndim != 2 or labels.shape != probs.shape[:1]:
        raise InputError(f"probs must be (N, C) and labels (N,); they are {tuple(probs.shape)} and {tuple(labels.shape)}.")
    if not bool(probs.isfinite().all()):
        raise InputError("probs must be finite numbers.")
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < probs.shape[1]:
        raise InputError(
            f"labels must be classes from 0 to {probs.shape[1] - 1}; they reach from {labels.min()} to {labels.max()}."
        )
