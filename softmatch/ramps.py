"""Factors in [0, 1] that grow in the course of training."""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn

Shape = Literal["linear", "sigmoid", "cosine", "square"]


def ramp_factor(progress: Tensor, shape: Shape = "linear") -> Tensor:
    """Value of a ramp at `progress` x = t/T, which is held in [0, 1].

    "linear" x; "sigmoid" exp(−5(1 − x)²); "cosine" ½ − ½cos(πx); "square" x².
    """
    progress = progress.clamp(0.0, 1.0)
    if shape == "linear":
        return progress
    if shape == "sigmoid":
        return torch.exp(-5.0 * (1.0 - progress) ** 2)
    if shape == "square":
        return progress**2
    return 0.5 - 0.5 * torch.cos(math.pi * progress)


class Ramp(nn.Module):
    """ramp((t − start)/T), t the number of calls of `advance` before the present one.

    Args:
        steps: T, the length of the ramp.
        start: steps before it begins, in which it is at its lowest.

    Example:
        >>> ramp = Ramp(4)
        >>> [(ramp.advance(), float(ramp()))[1] for _ in range(3)]
        [0.0, 0.25, 0.5]
    """

    updates: Tensor

    def __init__(self, steps: int, shape: Shape = "linear", start: int = 0) -> None:
        super().__init__()
        if steps < 1:
            raise ValueError(f"the ramp needs at least one step, not {steps}")
        if shape not in get_args(Shape):
            raise ValueError(f'shape must be "linear", "sigmoid", "cosine" or "square", not {shape!r}')
        self.steps, self.shape, self.start = steps, shape, start
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def advance(self) -> None:
        """One step more. Called once a step, before the value is used."""
        self.updates.add_(1)

    def forward(self) -> Tensor:
        return ramp_factor((self.updates - 1 - self.start).clamp_min(0) / self.steps, self.shape)
