"""η₀·cos(7πk/16K), and optimisers whose weight decay spares biases and normalisation."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import nn


def cosine_factor(step: int, total_steps: int) -> float:
    """max(0, cos(7πk/16K)): 1 at the start, 0.195 at the end.

    Example:
        >>> round(cosine_factor(5, 10), 6)
        0.77301
    """
    return max(0.0, math.cos(7.0 * math.pi * step / (16.0 * total_steps)))


def make_optimizer(
    network: nn.Module,
    name: Literal["sgd", "adam", "adamw"],
    lr: float,
    weight_decay: float,
    decay: Literal["gradient", "shrink"] = "gradient",
) -> torch.optim.Optimizer:
    """SGD with Nesterov momentum 0.9, Adam or AdamW; weight decay on tensors with more than one dimension only.

    Args:
        decay: "gradient" leaves weight decay to the optimiser; "shrink" multiplies the weights by 1 − weight_decay after
            each step, whatever the learning rate, as the code behind the long-tailed results does.
    """
    parameters = [p for p in network.parameters() if p.requires_grad]
    weights: list[torch.Tensor] = [p for p in parameters if p.ndim > 1]
    groups = [
        {"params": weights, "weight_decay": weight_decay if decay == "gradient" else 0.0},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    optimizer: torch.optim.Optimizer
    if name == "sgd":
        optimizer = torch.optim.SGD(groups, lr=lr, momentum=0.9, nesterov=True, foreach=True)
    else:
        optimizer = (torch.optim.Adam if name == "adam" else torch.optim.AdamW)(groups, lr=lr, foreach=True)
    if decay == "shrink":

        @torch.no_grad()
        def shrink(*_: object) -> None:
            torch._foreach_mul_(weights, 1.0 - weight_decay)

        optimizer.register_step_post_hook(shrink)
    return optimizer


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """The same learning rate for all groups."""
    for group in optimizer.param_groups:
        group["lr"] = lr
