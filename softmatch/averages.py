"""Running averages, and their momentum as a function of the number of steps of a run."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

Start = Literal["paper", "first", "debiased"]

PAPER_MOMENTUM = 0.999
WINDOWS_PER_RUN = 40


def momentum_for(steps: int) -> float:
    """Momentum m whose window 1/(1 − m) is one fortieth of a run of `steps` steps, between 0.9 and the paper's 0.999.

    The paper's 2^20 steps give its own 0.999; 2,000 steps give 0.98.

    Args:
        steps: number of steps of the run.

    Returns:
        m.

    Example:
        >>> momentum_for(2**20), momentum_for(2000)
        (0.999, 0.98)
    """
    return min(max(1.0 - WINDOWS_PER_RUN / max(steps, 1), 0.9), PAPER_MOMENTUM)


def steps_for(momentum: float) -> int:
    """Length of the shortest run for which `momentum_for` gives this momentum or more: 40,000 steps for the paper's 0.999."""
    return round(WINDOWS_PER_RUN / (1.0 - momentum))


def queue_for(steps: int, longest: int) -> int:
    """Length of a queue of batches: `longest`, but at most a fortieth of a run of `steps` steps and at least one batch."""
    return min(longest, max(round(steps / WINDOWS_PER_RUN), 1))


class RunningAverage(nn.Module):
    """Exponential moving average x̄ ← m·x̄ + (1 − m)·x of a tensor, with its state in buffers.

    Args:
        initial: value before the first update, and the shape of the average.
        momentum: m.
        start: "paper" keeps `initial` in the average, with weight mᵗ after t updates; "first" replaces it by the first
            value seen; "debiased" divides by 1 − mᵗ as Adam does, so that the average never remembers `initial`.

    Raises:
        ValueError: `momentum` is not in [0, 1), or `start` is unknown.

    Example:
        >>> average = RunningAverage(torch.tensor(1.0), momentum=0.5)
        >>> average.update(torch.tensor(0.0))
        >>> average.value
        tensor(0.5000)
    """

    value: Tensor
    updates: Tensor

    def __init__(self, initial: Tensor, momentum: float = PAPER_MOMENTUM, start: Start = "paper") -> None:
        super().__init__()
        if not 0.0 <= momentum < 1.0:
            raise ValueError(f"momentum must lie in [0, 1), not {momentum}")
        if start not in ("paper", "first", "debiased"):
            raise ValueError(f'start must be "paper", "first" or "debiased", not {start!r}')
        self.momentum = momentum
        self.start = start
        self.register_buffer("value", initial.detach().clone().float())
        self.register_buffer("updates", torch.zeros(initial.shape, dtype=torch.int64))

    @torch.no_grad()
    def update(self, new: Tensor, where: Tensor | None = None) -> None:
        """Take in one value; entries with `where` false stay unchanged and count as not updated."""
        mask = torch.ones_like(self.updates, dtype=torch.bool) if where is None else where
        count = self.updates + 1
        rate = torch.full_like(self.value, 1.0 - self.momentum)
        if self.start == "first":
            rate = torch.where(count == 1, torch.ones_like(rate), rate)
        elif self.start == "debiased":
            # 1 − mᵗ as −expm1(t·ln m): in float32 the subtraction would leave 1e-5 of `initial` for m = 0.999.
            rate = rate / -torch.expm1(count * math.log(max(self.momentum, 1e-30)))
        moved = self.value + rate * (new.to(self.value.dtype) - self.value)
        self.value.copy_(torch.where(mask, moved, self.value))
        self.updates.copy_(torch.where(mask, count, self.updates))
