"""The averaged weights that are evaluated and saved."""

from __future__ import annotations

import copy

import torch
from torch import nn


class ModelAverage:
    """θ' ← m·θ' + (1 − m)·θ over the parameters, after every step; buffers (batch statistics) are copied.

    Args:
        momentum: m; 0 keeps a plain copy.
        warm: let the momentum grow as (1 + t)/(10 + t) up to m, so that a short run forgets its first weights. Without
            it, the average starts as a copy of the first weights, as in the paper's code base.
    """

    def __init__(self, network: nn.Module, momentum: float, warm: bool = True) -> None:
        self.network = copy.deepcopy(network).requires_grad_(False)
        self.momentum, self.warm = momentum, warm

    @torch.no_grad()
    def update(self, network: nn.Module, step: int) -> None:
        """Take in the weights after step `step` (from 0)."""
        momentum = min(self.momentum, (1 + step) / (10 + step)) if self.warm else self.momentum
        ours = [p.detach() for p in self.network.parameters()]
        theirs = [p.detach() for p in network.parameters()]
        torch._foreach_lerp_(ours, theirs, 1.0 - momentum)
        buffers = list(self.network.buffers())
        if buffers:
            torch._foreach_copy_(buffers, list(network.buffers()))
