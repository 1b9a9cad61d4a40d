"""Training signal annealing (TSA): UDA's option that leaves out labelled samples which are already learned."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class SignalAnnealing(nn.Module):
    """L_s over the labelled samples with p(correct label) ≤ η_t = a_t(1 − 1/C) + 1/C, divided by their number.

    Args:
        schedule: a_t is "linear" t/K, "log" 1 − e^(−5t/K), or "exp" e^(5(t/K − 1)).
    """

    calls: Tensor

    def __init__(self, num_classes: int, total_steps: int, schedule: Literal["linear", "log", "exp"] = "linear") -> None:
        super().__init__()
        if schedule not in ("linear", "log", "exp"):
            raise ValueError(f'schedule must be "linear", "log" or "exp", not {schedule!r}')
        self.num_classes, self.total_steps, self.schedule = num_classes, total_steps, schedule
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def threshold(self) -> Tensor:
        """η_t, with t the number of training steps so far."""
        progress = (self.calls / self.total_steps).clamp_max(1.0)
        if self.schedule == "log":
            progress = 1.0 - torch.exp(-5.0 * progress)
        elif self.schedule == "exp":
            progress = torch.exp(5.0 * (progress - 1.0))
        return progress * (1.0 - 1.0 / self.num_classes) + 1.0 / self.num_classes

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        losses = F.cross_entropy(logits, labels, reduction="none")
        kept = (losses.detach() >= -torch.log(self.threshold()) - 1e-7).to(losses.dtype)
        if self.training:
            self.calls.add_(1)
        return (losses * kept).sum() / kept.sum().clamp_min(1.0)
