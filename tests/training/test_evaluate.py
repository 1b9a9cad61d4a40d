"""Predictions and bootstrap intervals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from softmatch.data.files import ImageFiles
from softmatch.training.evaluate import error_interval, predict_probabilities
from softmatch.views import ImageViews, VectorViews
from softmatch.views.pillow import PillowViews, read_image


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


def test_no_errors_among_few_samples_are_not_taken_for_certainty() -> None:
    low, high = error_interval(torch.zeros(30))
    assert low == 0.0
    assert high == pytest.approx(0.1135, abs=1e-4)  # by Wilson's formula, z²/(n + z²)
    assert error_interval(torch.ones(30)) == pytest.approx((1 - high, 1.0))


def test_interval_of_a_difference_is_paired() -> None:
    """Two classifiers wrong on the same samples: little doubt about their difference, though each rate is uncertain."""
    first = (torch.arange(500) < 50).float()
    assert error_interval(first, first) == (-3 / 500, 3 / 500)
    second = (torch.arange(500) < 75).float()
    low, high = error_interval(first, second)
    assert low < -0.05 < high < 0


def test_files_are_predicted_as_the_images_in_them(tmp_path: Path) -> None:
    for number in range(20):
        pixels = np.random.default_rng(number).integers(0, 256, (12, 12, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number:02}.png")
    files = ImageFiles(sorted(tmp_path.iterdir()), side=8, resize=10)
    network, views = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4)), ImageViews([0.5] * 3, [0.25] * 3)
    single = PillowViews(views, 8)
    images = torch.stack([single.plain(read_image(path, 10)) for path in files.paths])
    expected = predict_probabilities(network, views, images, torch.device("cpu"))
    for workers in (0, 1):
        found = predict_probabilities(network, views, files, torch.device("cpu"), batch=6, workers=workers)
        assert torch.allclose(found, expected, atol=1e-6)


def test_large_images_are_predicted_a_few_at_a_time() -> None:
    sizes = []

    class Counting(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            sizes.append(len(images))
            return torch.zeros(len(images), 2)

    items = torch.zeros(100, 3, 256, 256, dtype=torch.uint8)
    predict_probabilities(Counting(), ImageViews([0.5] * 3, [0.25] * 3), items, torch.device("cpu"))
    assert sizes == [64, 36]
