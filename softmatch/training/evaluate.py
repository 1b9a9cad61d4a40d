"""Predictions of a network on items, and what they say about its error."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from softmatch.views import Views


@torch.no_grad()
def predict_probabilities(network: nn.Module, views: Views, items: Tensor, device: torch.device, batch: int = 1024) -> Tensor:
    """p(y | x) of every item (N, C), on the host, in evaluation mode."""
    was_training = network.training
    network.eval()
    try:
        parts = [torch.softmax(network(views.plain(part.to(device))).float(), -1).cpu() for part in torch.split(items, batch)]
    finally:
        network.train(was_training)
    return torch.cat(parts)


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
