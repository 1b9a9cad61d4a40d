"""Predictions of a network on items, and what they say about its error."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from softmatch.data.files import ImageFiles
from softmatch.data.loading import read_plain
from softmatch.views import Views

MOST_VALUES = 1024 * 3 * 64 * 64
"""Of the items that go through the network at once, by default: 1,024 images of 64×64, fewer where they are larger."""


@torch.no_grad()
def predict_probabilities(
    network: nn.Module,
    views: Views,
    items: Tensor | ImageFiles,
    device: torch.device,
    batch: int | None = None,
    workers: int | None = None,
) -> Tensor:
    """p(y | x) of every item (N, C), on the host, in evaluation mode.

    Args:
        batch: items at a time; by default at most 1,024, and fewer of large images.
        workers: processes that read files meanwhile, as of `LoadedBatches`. No more than a few batches are in memory.
    """
    size = batch or min(1024, max(MOST_VALUES // math.prod(items.shape[1:]), 1))
    parts = read_plain(items, size, workers) if isinstance(items, ImageFiles) else torch.split(items, size)
    was_training = network.training
    network.eval()
    try:
        probs = [torch.softmax(network(views.plain(part.to(device))).float(), -1).cpu() for part in parts]
    finally:
        network.train(was_training)
    return torch.cat(probs)


def error_interval(
    errors: Tensor, other: Tensor | None = None, level: float = 0.95, draws: int = 4000, seed: int = 0
) -> tuple[float, float]:
    """Bootstrap interval over test samples of the error rate, or of its difference to `other` on the same samples.

    Args:
        errors, other: (N,) of 0 and 1, one for each test sample.
    """
    values = errors.double() if other is None else errors.double() - other.double()
    generator = torch.Generator().manual_seed(seed)
    means = []
    for size in [200] * (draws // 200):
        chosen = torch.randint(len(values), (size, len(values)), generator=generator)
        means.append(values[chosen].mean(1))
    spread = torch.cat(means).quantile(torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64))
    return float(spread[0]), float(spread[1])
