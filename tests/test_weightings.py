"""λ(p) of the paper's Table 1 and appendix: golden values, running statistics and their edge cases."""

import math

import pytest
import torch
from torch import Tensor

from softmatch.state import ramp_factor
from softmatch.step import Seen
from softmatch.weightings import (
    Constant,
    Gaussian,
    Laplacian,
    Linear,
    Quadratic,
    RampUp,
    Threshold,
    TruncatedGaussian,
    TruncatedLaplacian,
    Weighting,
    weight_curve,
)
from tests.golden import ALIGNED_CONFIDENCE, CLASSES, MOMENTUM, STEP_1, WARM_MEAN, WARM_VARIANCE, close, probs_of

ALIGNED = probs_of(ALIGNED_CONFIDENCE, [0, 1, 1, 2])
RAW_LABELS = torch.tensor([0, 0, 1, 0])


def warm(**options: object) -> TruncatedGaussian:
    settings: dict[str, object] = {"momentum": MOMENTUM, "mean": WARM_MEAN, "variance": WARM_VARIANCE}
    return TruncatedGaussian(CLASSES, **(settings | options))  # type: ignore[arg-type]  # options by name


def seen(confidence: list[float], labels: list[int] | None = None) -> Seen:
    return Seen(probs_of(confidence, [0] * len(confidence) if labels is None else labels))


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [
        (Constant(), [1.0, 1.0, 1.0, 1.0]),
        (Linear(), list(ALIGNED_CONFIDENCE)),
        (Quadratic(), [0.967017, 0.659055, 0.948451, 0.829356]),
        (Laplacian(), [0.545872, 0.142794, 0.469158, 0.252342]),
        (Gaussian(), [0.832571, 0.150448, 0.750973, 0.387507]),
        (TruncatedGaussian(CLASSES, estimation="fixed"), [0.031295, 0.0, 0.001894, 0.0]),
        (Threshold(0.6), [1.0, 0.0, 1.0, 0.0]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Weighting) else "",
)
def test_functions_golden(weighting: Weighting, expected: list[float]) -> None:
    close(weighting(ALIGNED), expected, tolerance=2e-6)  # the confidences given are themselves rounded
    weighting.max_weight = 2.5
    close(weighting(ALIGNED), [2.5 * value for value in expected], tolerance=5e-6)
    weighting.max_weight = 1.0


@pytest.mark.parametrize(
    ("fit", "spread", "scale", "expected"),
    [
        ("mad", math.sqrt(WARM_VARIANCE / 2), 0.145529, [1.0, 0.011385, 1.0, 0.119080]),
        ("moment", WARM_VARIANCE, math.sqrt(0.0408892 / 2), [1.0, 0.010513, 1.0, 0.114654]),
    ],
)
def test_truncated_laplacian_golden(fit: str, spread: float, scale: float, expected: list[float]) -> None:
    weighting = TruncatedLaplacian(CLASSES, MOMENTUM, fit=fit)  # type: ignore[arg-type]  # parametrised literal
    weighting.mean.value.fill_(WARM_MEAN)
    weighting.spread.value.fill_(spread)
    weighting.update(STEP_1.seen())
    close(weighting.statistics()["mean"], 0.741750)
    close(weighting.statistics()["scale"], scale)
    close(weighting(ALIGNED), expected)


def test_truncated_laplacian_mle_centres_on_the_median() -> None:
    weighting = TruncatedLaplacian(CLASSES, 0.0, fit="mle")
    weighting.update(seen([0.4, 0.5, 0.6, 0.7, 0.95]))
    close(weighting.mean.value, 0.6)
    close(weighting.scale(), (0.2 + 0.1 + 0.0 + 0.1 + 0.35) / 5)


@pytest.mark.parametrize("fit", ["mad", "moment", "mle"])
def test_truncated_laplacian_starts_at_variance_one(fit: str) -> None:
    weighting = TruncatedLaplacian(CLASSES, fit=fit)  # type: ignore[arg-type]  # parametrised literal
    close(weighting.mean.value, 1 / 3)
    close(weighting.scale(), math.sqrt(0.5))


def test_truncated_gaussian_starts_at_the_papers_values() -> None:
    weighting = TruncatedGaussian(10)
    close(weighting.mean.value, 0.1)
    close(weighting.variance.value, 1.0)


def test_equality_with_the_mean_gives_the_largest_weight() -> None:
    weighting = warm(mean=0.75, max_weight=3.0)
    probs = torch.tensor([[0.75, 0.25, 0.0], [0.7499, 0.2501, 0.0]])
    weights = weighting(probs)
    assert float(weights[0]) == 3.0
    assert float(weights[1]) < 3.0


def test_one_sample_moves_the_mean_and_not_the_variance() -> None:
    weighting = warm()
    weighting.update(seen([0.95]))
    close(weighting.mean.value, 0.9 * 0.75 + 0.1 * 0.95)
    close(weighting.variance.value, 0.04)
    assert int(weighting.variance.updates) == 0
    laplacian = TruncatedLaplacian(CLASSES)
    laplacian.update(seen([0.95]))
    close(laplacian.scale(), math.sqrt(0.5))


def test_a_batch_of_equal_confidences_leaves_finite_weights() -> None:
    weighting = TruncatedGaussian(CLASSES, momentum=0.0)
    weighting.update(seen([0.8, 0.8, 0.8]))
    close(weighting.variance.value, 0.0)
    close(weighting(probs_of([0.8, 0.5, 0.9], [0, 0, 0])), [1.0, 0.0, 1.0])


def test_fixed_statistics_do_not_learn() -> None:
    weighting = TruncatedGaussian(CLASSES, estimation="fixed", momentum=0.5)
    weighting.update(STEP_1.seen())
    close(weighting.mean.value, 0.95)
    close(weighting.variance.value, 0.01)


def test_per_class_hold_golden() -> None:
    weighting = warm(estimation="per_class")
    weighting.update(STEP_1.seen())
    close(weighting.mean.value, [0.737333, 0.755, 0.75])
    close(weighting.variance.value, [0.042163, 0.04, 0.04])
    close(weighting(ALIGNED, RAW_LABELS), [1.0, 0.007484, 1.0, 0.341873], tolerance=2e-6)


def test_per_class_reset_is_usb_golden() -> None:
    weighting = warm(estimation="per_class", empty_class="reset")
    weighting.update(STEP_1.seen())
    close(weighting.mean.value, [0.737333, 0.675, 0.675])
    close(weighting.variance.value, [0.042163, 0.136, 0.136])


def test_per_class_uses_the_given_labels_and_else_its_own_argmax() -> None:
    weighting = warm(estimation="per_class")
    weighting.mean.value.copy_(torch.tensor([0.9, 0.1, 0.1]))
    probs = probs_of([0.6], [1])
    assert float(weighting(probs)) == 1.0
    assert float(weighting(probs, torch.tensor([0]))) < 0.2


def test_per_class_with_one_class_equals_all() -> None:
    batch, every, one = seen([0.9, 0.5, 0.7], [0, 0, 0]), warm(), warm(estimation="per_class")
    every.update(batch)
    one.update(batch)
    close(one.mean.value[0], float(every.mean.value), tolerance=1e-6)
    close(one.variance.value[0], float(every.variance.value), tolerance=1e-6)


def test_narrower_gaussians_give_smaller_weights() -> None:
    weights = [warm(k=k)(ALIGNED) for k in (1.0, 2.0, 3.0)]
    assert bool((weights[0] >= weights[1]).all() and (weights[1] >= weights[2]).all())
    assert float(weights[0][1]) > float(weights[1][1]) > float(weights[2][1])


def test_threshold_is_inclusive_unless_strict() -> None:
    probs = torch.tensor([[0.8, 0.2], [0.79, 0.21], [0.81, 0.19]])
    assert Threshold(0.8)(probs).tolist() == [1.0, 0.0, 1.0]
    assert Threshold(0.8, strict=True)(probs).tolist() == [0.0, 0.0, 1.0]


def test_adamatch_ramp_golden() -> None:
    """μ(t) = ½ − ½cos(min(π, 2πt/K)) reaches one at half of the run, so its ramp is K/2 long."""
    share_of_run = torch.tensor([0.0, 0.1, 0.25, 0.5])
    close(ramp_factor(share_of_run / 0.5, "cosine"), [0.0, 0.095492, 0.5, 1.0])


def test_ramp_up_counts_updates_from_zero_and_scales_its_inner_weighting() -> None:
    weighting = RampUp(4, Threshold(0.5, max_weight=2.0))
    assert weighting.max_weight == 2.0
    found: list[Tensor] = []
    for _ in range(6):
        weighting.update(STEP_1.seen())
        found.append(weighting(STEP_1.weak)[0])
    close(torch.stack(found), [0.0, 0.5, 1.0, 1.5, 2.0, 2.0])
    assert float(weighting(STEP_1.weak)[3]) == 0.0
    close(weighting.statistics()["ramp"], 1.0)


def test_ramp_up_passes_the_batch_to_its_inner_weighting() -> None:
    inner = warm()
    RampUp(4, inner).update(STEP_1.seen())
    close(inner.mean.value, 0.741750)


def test_weight_curve_of_the_truncated_gaussian() -> None:
    weighting = warm()
    confidence, weights = weight_curve(weighting, CLASSES, points=41)
    assert confidence.shape == weights.shape == (41,)
    close(confidence[0], 1 / 3)
    close(confidence[-1], 1.0)
    expected = torch.exp(-4 * (confidence - 0.75).clamp_max(0) ** 2 / 0.08)
    torch.testing.assert_close(weights, expected)


def test_weight_curve_averages_over_classes() -> None:
    weighting = warm(estimation="per_class")
    weighting.mean.value.copy_(torch.tensor([0.4, 0.4, 1.0]))
    weighting.variance.value.fill_(1e-6)
    _, weights = weight_curve(weighting, CLASSES, points=11)
    close(weights[5], 2 / 3)


def test_weight_curve_of_many_classes_asks_some_of_them_all_over() -> None:
    asked: list[int] = []

    class Asked(Constant):
        def forward(self, probs: torch.Tensor, pseudo_labels: torch.Tensor | None = None) -> torch.Tensor:
            asked.append(int(pseudo_labels[0]))
            assert probs[-1].argmax() == asked[-1]
            return super().forward(probs, pseudo_labels)

    _, weights = weight_curve(Asked(0.5), 1001, points=3)
    torch.testing.assert_close(weights, torch.full((3,), 0.5))
    assert (asked[0], asked[-1], len(asked), len(set(asked))) == (0, 1000, 200, 200)
    asked.clear()
    weight_curve(Asked(0.5), 150, points=3)
    assert asked == list(range(150))


@pytest.mark.parametrize("max_weight", [0.0, -1.0, math.inf, math.nan])
def test_max_weight_must_be_positive_and_finite(max_weight: float) -> None:
    with pytest.raises(ValueError, match="max_weight"):
        Constant(max_weight)


def test_unknown_options_are_refused() -> None:
    with pytest.raises(ValueError, match="estimation"):
        TruncatedGaussian(CLASSES, estimation="class")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match="empty_class"):
        TruncatedGaussian(CLASSES, estimation="per_class", empty_class="usb")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match="fit"):
        TruncatedLaplacian(CLASSES, fit="median")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match="shape"):
        RampUp(3, shape="cosinus")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match="step"):
        RampUp(0)


def test_a_weighting_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match="must define forward"):
        Weighting()(ALIGNED)
