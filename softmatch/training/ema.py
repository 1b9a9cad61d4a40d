"""Averaged weights, which are evaluated and saved."""

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn


class ModelAverage:
    """θ' ← m·θ' + (1 − m)·θ over the parameters, after every step; buffers (batch statistics) are copied.

    Frozen parameters are shared with the network: there is no second copy of them.

    Args:
        momentum: m; 0 keeps a plain copy.
        warm: raise the momentum as (1 + t)/(10 + t) up to m, so that a short run forgets its first weights. If false, the
            average starts as a copy of the first weights, as in the paper's code.
    """

    def __init__(self, network: nn.Module, momentum: float, warm: bool = True) -> None:
        frozen = {name: p for name, p in network.named_parameters(remove_duplicate=False) if not p.requires_grad}
        self.network = copy.deepcopy(network, {id(p): p for p in frozen.values()}).requires_grad_(False)
        self._shared = frozenset(frozen)
        self.momentum, self.warm = momentum, warm

    @torch.no_grad()
    def update(self, network: nn.Module, step: int) -> None:
        """Add the weights after step `step`, counted from 0."""
        momentum = min(self.momentum, (1 + step) / (10 + step)) if self.warm else self.momentum
        pairs = zip(self.network.parameters(), network.parameters(), strict=True)
        own = [(ours.detach(), theirs.detach()) for ours, theirs in pairs if ours is not theirs]
        torch._foreach_lerp_([ours for ours, _ in own], [theirs for _, theirs in own], 1.0 - momentum)
        buffers = list(self.network.buffers())
        if buffers:
            torch._foreach_copy_(buffers, list(network.buffers()))

    def state(self) -> dict[str, Tensor]:
        """Tensors that are not shared with the network."""
        return {name: value for name, value in self.network.state_dict().items() if name not in self._shared}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Inverse of `state`. Raises RuntimeError for the state of another network."""
        shared = {name: value for name, value in self.network.state_dict().items() if name in self._shared}
        self.network.load_state_dict({**tensors, **shared})
