"""Targets and divergences: one-hot with ties to the lowest class, sharpening, cross-entropy and KL."""

import pytest
import torch
from torch.nn import functional as F

from softmatch import targets
from tests.golden import STEP_1, close

SHARPENED = [
    [0.998438, 0.001146, 0.000416],
    [0.747864, 0.241594, 0.010542],
    [0.003125, 0.988263, 0.008612],
    [0.498650, 0.059959, 0.441391],
]


def test_hard_is_one_hot_and_ties_go_to_the_lowest_class() -> None:
    probs = torch.tensor([[0.2, 0.4, 0.4], [0.25, 0.5, 0.25], [1 / 3, 1 / 3, 1 / 3]])
    assert targets.hard(probs).tolist() == [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    assert targets.hard(probs).dtype == torch.float32


def test_soft_is_the_prediction() -> None:
    assert torch.equal(targets.soft(STEP_1.weak), STEP_1.weak)


def test_sharpened_golden() -> None:
    close(targets.sharpened(STEP_1.weak, 0.4), SHARPENED)


def test_sharpening_equals_dividing_the_logits() -> None:
    logits = torch.randn(64, 7) * 4
    torch.testing.assert_close(targets.sharpened(logits.softmax(-1), 0.5), torch.softmax(logits / 0.5, -1))


def test_sharpening_survives_zero_probability_and_small_temperature() -> None:
    sharp = targets.sharpened(torch.tensor([[1.0, 0.0, 0.0], [0.6, 0.4, 0.0]]), 0.01)
    close(sharp, [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])


def test_cross_entropy_equals_torch_for_hard_and_soft_targets() -> None:
    logits, target = torch.randn(16, 5), torch.randn(16, 5).softmax(-1)
    torch.testing.assert_close(targets.cross_entropy(target, logits), F.cross_entropy(logits, target, reduction="none"))
    classes = target.argmax(-1)
    expected = F.cross_entropy(logits, classes, reduction="none")
    torch.testing.assert_close(targets.cross_entropy(targets.hard(target), logits), expected)


def test_cross_entropy_of_half_precision_logits_is_float32() -> None:
    assert targets.cross_entropy(STEP_1.weak, STEP_1.strong.log().half()).dtype == torch.float32


def test_kl_golden() -> None:
    divergence = targets.kl_divergence(targets.sharpened(STEP_1.weak, 0.4), STEP_1.strong.log())
    close(divergence, [0.346363, 0.217765, 0.374875, 0.134361])


def test_kl_of_a_prediction_with_itself_is_zero_also_with_zero_probabilities() -> None:
    close(targets.kl_divergence(STEP_1.weak, STEP_1.weak.log()), [0.0] * 4)
    close(targets.kl_divergence(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 0.0]])), [0.693147])


def test_kl_and_cross_entropy_have_the_same_gradient() -> None:
    target, gradients = targets.sharpened(STEP_1.weak, 0.4), []
    for divergence in (targets.kl_divergence, targets.cross_entropy):
        logits = STEP_1.strong.log().requires_grad_()
        divergence(target, logits).sum().backward()
        gradients.append(logits.grad)
    torch.testing.assert_close(gradients[0], gradients[1])
    assert float(gradients[0].abs().max()) == pytest.approx(0.338263, abs=1e-5)
