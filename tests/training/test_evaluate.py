"""Predictions and bootstrap intervals."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from softmatch.training.evaluate import error_interval, predict_probabilities
from softmatch.views import VectorViews


def test_predictions_do_not_depend_on_the_batch_and_keep_the_mode() -> None:
    network = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).train()
    items, views = torch.randn(50, 2), VectorViews([0.0, 0.0], [1.0, 1.0])
    whole = predict_probabilities(network, views, items, torch.device("cpu"))
    parts = predict_probabilities(network, views, items, torch.device("cpu"), batch=7)
    assert torch.allclose(whole, parts, atol=1e-6)
    assert torch.allclose(whole.sum(1), torch.ones(50))
    assert network.training


def test_interval_of_an_error_rate_is_close_to_the_binomial_one() -> None:
    errors = (torch.arange(1000) < 100).float()
    low, high = error_interval(errors)
    half = 1.96 * (0.1 * 0.9 / 1000) ** 0.5
    assert low == pytest.approx(0.1 - half, abs=0.003)
    assert high == pytest.approx(0.1 + half, abs=0.003)


def test_interval_of_a_difference_is_paired() -> None:
    """Two classifiers wrong on the same samples: no doubt about their difference, though each rate is uncertain."""
    first = (torch.arange(500) < 50).float()
    assert error_interval(first, first) == (0.0, 0.0)
    second = (torch.arange(500) < 75).float()
    low, high = error_interval(first, second)
    assert low < -0.05 < high < 0
