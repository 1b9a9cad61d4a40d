"""Calibration: values computed by hand, temperatures that are known, and what cannot be fitted; figures of each class."""

import json
import math

import pytest
import torch
from torch import Tensor

from softmatch.calibration import (
    HIGHEST,
    LOWEST,
    ClassFigures,
    calibrate,
    class_figures,
    expected_calibration_error,
    fit_temperature,
    negative_log_likelihood,
    reliability,
    scale,
)
from softmatch.errors import InputError


def draw(samples: int, classes: int, temperature: float = 1.0, seed: int = 0, spread: float = 2.0) -> tuple[Tensor, Tensor]:
    """Labels drawn from softmax(z), and the probabilities of a network that says softmax(z · T): T sets it right."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(samples, classes, generator=generator, dtype=torch.float64) * spread
    labels = torch.multinomial(torch.softmax(logits, -1), 1, generator=generator).flatten()
    return torch.softmax(logits * temperature, -1).float(), labels


def binary(confidences: list[float], right: list[bool]) -> tuple[Tensor, Tensor]:
    """Predictions of class 0 with these confidences, right or wrong."""
    first = torch.tensor(confidences)
    return torch.stack([first, 1 - first], -1), torch.tensor([int(not r) for r in right])


def test_reliability_by_hand() -> None:
    probs, labels = binary([0.55, 0.65, 0.95, 0.75, 1.0], [True, False, True, True, False])
    bins = reliability(probs, labels, bins=5)
    assert [(b.low, b.high, b.count) for b in bins] == [(0, 0.2, 0), (0.2, 0.4, 0), (0.4, 0.6, 1), (0.6, 0.8, 2), (0.8, 1, 2)]
    assert [b.accuracy for b in bins] == [None, None, 1.0, 0.5, 0.5]
    assert [b.confidence for b in bins[:2]] == [None, None]
    assert [b.confidence for b in bins[2:]] == pytest.approx([0.55, 0.7, 0.975])
    # (1·|1 − 0.55| + 2·|0.5 − 0.7| + 2·|0.5 − 0.975|) / 5
    assert expected_calibration_error(probs, labels, bins=5) == pytest.approx((0.45 + 0.4 + 0.95) / 5)


def test_likelihood_by_hand() -> None:
    probs, labels = binary([0.5, 0.8], [True, False])
    assert negative_log_likelihood(probs, labels) == pytest.approx((math.log(2) + math.log(5)) / 2)


def test_probability_of_zero_stays_finite() -> None:
    probs = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    labels = torch.tensor([1, 1])
    assert negative_log_likelihood(probs, labels) == pytest.approx(-math.log(torch.finfo(torch.float32).tiny) / 2)
    for temperature in (LOWEST, 1.0, HIGHEST):
        scaled = scale(probs, temperature)
        assert scaled.dtype == torch.float32
        assert scaled.isfinite().all()
        assert scaled.sum(-1).tolist() == pytest.approx([1, 1])


@pytest.mark.parametrize("temperature", [0.05, 0.5, 3.0, 20.0])
def test_scaling_is_dividing_the_logits_and_keeps_the_prediction(temperature: float) -> None:
    logits = torch.randn(200, 7, dtype=torch.float64) * 3
    probs = torch.softmax(logits, -1)
    scaled = scale(probs, temperature)
    torch.testing.assert_close(scaled, torch.softmax(logits / temperature, -1))
    assert torch.equal(scaled.argmax(-1), probs.argmax(-1))


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_impossible_temperature(temperature: float) -> None:
    with pytest.raises(InputError, match="above zero"):
        scale(torch.eye(2), temperature)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0, 5.0])
def test_known_temperature_is_found(temperature: float) -> None:
    found = fit_temperature(*draw(20_000, 5, temperature))
    assert found == pytest.approx(temperature, rel=0.05)


@pytest.mark.parametrize(("temperature", "samples", "classes"), [(0.3, 60, 3), (2.0, 400, 10), (8.0, 200, 2)])
def test_optimum_agrees_with_a_grid(temperature: float, samples: int, classes: int) -> None:
    probs, labels = draw(samples, classes, temperature)
    grid = [LOWEST * (HIGHEST / LOWEST) ** (place / 4000) for place in range(4001)]
    losses = [-float(torch.log_softmax(probs.double().log() / t, -1).gather(1, labels[:, None]).mean()) for t in grid]
    best = min(range(len(grid)), key=losses.__getitem__)
    found = fit_temperature(probs, labels)
    assert grid[best - 1] < found < grid[best + 1]
    assert negative_log_likelihood(scale(probs.double(), found), labels) <= losses[best]


@pytest.mark.parametrize(("right", "bound"), [(True, LOWEST), (False, HIGHEST)])
def test_temperature_stays_in_its_bounds(right: bool, bound: float) -> None:
    """All right: the likelihood grows without end as T falls; all wrong: as it rises."""
    probs, labels = binary([0.6, 0.7, 0.999], [right] * 3)
    assert fit_temperature(probs, labels) == pytest.approx(bound, rel=1e-6)


def test_uniform_predictions_have_no_temperature_to_find() -> None:
    probs, labels = torch.full((60, 3), 1 / 3), torch.arange(60) % 3
    assert LOWEST <= fit_temperature(probs, labels) <= HIGHEST
    found = calibrate(probs, labels)
    assert found.temperature == 1.0


def test_overconfident_network_is_mended() -> None:
    probs, labels = draw(4000, 5, temperature=3.0)
    found = calibrate(probs, labels)
    assert found.temperature == pytest.approx(3.0, rel=0.1)
    assert found.reason is None
    assert found.ece > 0.15
    assert found.ece_scaled < 0.03
    assert found.nll_scaled < found.nll - 0.5
    assert sum(b.count for b in found.bins) == sum(b.count for b in found.bins_scaled) == 4000


def test_scaled_figures_are_of_the_other_half() -> None:
    """The pooled loss is that of two temperatures, each fitted without the samples it is applied to."""
    probs, labels = draw(60, 3, temperature=4.0, seed=1)
    found = calibrate(probs, labels, seed=5)
    honest, fitted = found.nll_scaled, negative_log_likelihood(scale(probs.double(), fit_temperature(probs, labels)), labels)
    assert honest > fitted
    assert calibrate(probs, labels, seed=5) == found
    assert calibrate(probs, labels, seed=6).nll_scaled != honest
    assert calibrate(probs, labels, seed=6).temperature == found.temperature


def test_calibrated_network_is_left_as_it_is() -> None:
    probs, labels = draw(20_000, 4)
    found = calibrate(probs, labels)
    assert found.temperature == pytest.approx(1.0, abs=0.03)
    assert found.ece == pytest.approx(found.ece_by_chance, rel=0.6)
    assert found.ece < 0.015


def test_scaling_that_does_not_help_is_left_out() -> None:
    """One of 60 is wrong: the half without it would have the confidence raised without end."""
    probs, labels = binary([0.9] * 60, [True] * 59 + [False])
    found = calibrate(probs, labels)
    assert found.temperature == 1.0
    assert "left out" in found.reason
    assert found.nll_scaled >= found.nll


def test_chance_is_what_calibrated_predictions_show() -> None:
    """Mean ECE over many draws in which each prediction is right with its confidence."""
    confidence = 0.5 + 0.5 * torch.rand(80, generator=torch.Generator().manual_seed(0))
    probs = torch.stack([confidence, 1 - confidence], -1)
    generator = torch.Generator().manual_seed(1)
    eces = []
    for _ in range(300):
        labels = (torch.rand(80, generator=generator) >= confidence).long()
        eces.append(expected_calibration_error(probs, labels))
    assert calibrate(probs, labels).ece_by_chance == pytest.approx(sum(eces) / len(eces), rel=0.08)


@pytest.mark.parametrize(
    ("right", "reason"),
    [
        ([True] * 20 + [False] * 29, "needs 50 measured samples, and there are 49"),
        ([True] * 50, "all predictions are right"),
        ([False] * 50, "all predictions are wrong"),
    ],
)
def test_no_temperature_where_none_can_be_fitted(right: list[bool], reason: str) -> None:
    found = calibrate(*binary([0.8] * len(right), right))
    assert found.temperature is None
    assert reason in found.reason
    assert found.ece == pytest.approx(abs(sum(right) / len(right) - 0.8))
    assert (found.ece_scaled, found.nll_scaled, found.bins_scaled) == (None, None, None)


def test_without_samples() -> None:
    probs, labels = torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)
    assert math.isnan(expected_calibration_error(probs, labels))
    assert math.isnan(negative_log_likelihood(probs, labels))
    with pytest.raises(InputError, match="without samples"):
        fit_temperature(probs, labels)
    found = calibrate(probs, labels)
    assert (found.samples, found.ece, found.nll, found.temperature) == (0, None, None, None)


@pytest.mark.parametrize(
    ("probs", "labels", "message"),
    [
        (torch.eye(2), torch.tensor([0]), r"\(2, 2\) and \(1,\)"),
        (torch.eye(2), torch.tensor([0, 2]), "from 0 to 1"),
        (torch.eye(2), torch.tensor([-1, 0]), "reach from -1 to 0"),
        (torch.tensor([[math.nan, 1.0]]), torch.tensor([0]), "finite"),
    ],
)
def test_unusable_input_is_refused(probs: Tensor, labels: Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        calibrate(probs, labels)


def test_figures_survive_json() -> None:
    found = calibrate(*draw(100, 3, 2.0)).as_dict()
    again = json.loads(json.dumps(found))
    assert again["samples"] == 100
    assert len(again["bins"]) == len(again["bins_scaled"]) == 15
    assert set(again["bins"][-1]) == {"low", "high", "count", "confidence", "accuracy"}


def test_class_figures_by_hand() -> None:
    predicted, labels = torch.tensor([0, 0, 1, 1, 1, 3]), torch.tensor([0, 1, 1, 1, 2, 2])
    assert class_figures(predicted, labels, 5) == [
        ClassFigures(samples=1, error=0.0, precision=0.5, recall=1.0),
        ClassFigures(samples=3, error=1 / 3, precision=2 / 3, recall=2 / 3),
        ClassFigures(samples=2, error=1.0, precision=None, recall=0.0),
        ClassFigures(samples=0, error=None, precision=0.0, recall=None),
        ClassFigures(samples=0, error=None, precision=None, recall=None),
    ]
