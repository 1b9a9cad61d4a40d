"""Predictions of a network on items, and what they say about its error."""

from __future__ import annotations

import math
from statistics import NormalDist

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


def wilson_interval(wrong: int, number: int, level: float = 0.95) -> tuple[float, float]:
    """Interval of an error rate by Wilson's formula: true also for few samples, and where none or all are wrong."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    share = wrong / number
    middle = (share + z * z / (2 * number)) / (1 + z * z / number)
    half = z / (1 + z * z / number) * math.sqrt(share * (1 - share) / number + z * z / (4 * number * number))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def error_interval(
    errors: Tensor, other: Tensor | None = None, level: float = 0.95, draws: int = 4000, seed: int = 0
) -> tuple[float, float]:
    """Interval over test samples of the error rate (Wilson), or of its difference to `other` on the same samples (bootstrap).

    Where no sample differs, the bootstrap would be sure that none ever will: then the interval is that of the rule of three.

    Args:
        errors, other: (N,) of 0 and 1, one for each test sample.
    """
    if other is None:
        return wilson_interval(int(errors.sum()), len(errors), level)
    values = errors.double() - other.double()
    if not bool(values.any()):
        return -min(3 / len(values), 1.0), min(3 / len(values), 1.0)
    generator = torch.Generator().manual_seed(seed)
    means = []
    for size in [200] * (draws // 200):
        chosen = torch.randint(len(values), (size, len(values)), generator=generator)
        means.append(values[chosen].mean(1))
    spread = torch.cat(means).quantile(torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64))
    return float(spread[0]), float(spread[1])
