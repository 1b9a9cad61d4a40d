"""What a network costs, counted on torch's meta device: no memory is taken and nothing is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from softmatch.networks import Network, build_network
from softmatch.networks.heads import feature_size

ROWS = 2
"""Of the pass that is counted: batch normalisation needs more than one value."""
VIEWS = (
    "view",
    "t",
    "transpose",
    "expand",
    "detach",
    "alias",
    "_unsafe_view",
    "permute",
    "split",
    "slice",
    "select",
    "unsqueeze",
)
"""Operations that only look at a tensor in another way: they start nothing on a device."""
DRAWN = ("normal_", "uniform_", "kaiming_normal_", "kaiming_uniform_", "xavier_normal_", "xavier_uniform_", "trunc_normal_")
"""What fills a tensor with random numbers, of torch.nn.init and of tensors."""


@dataclass(frozen=True)
class NetworkCost:
    """Of one network.

    Attributes:
        parameters, trained: numbers in its weights, and in those that training changes.
        state: bytes of its state: weights, and running statistics.
        forward, backward: FLOPs of a sample in the two passes of training.
        saved: bytes of a sample that are kept from the forward pass for the backward pass, in float32.
        largest: bytes of the largest tensor of a sample on the way.
        forward_operations, backward_operations: that the host has to start, for a pass of any size.
        norms: channels of each batch normalisation.
        features: size of what the head gets; None: the network does not show it.
        work: what it mostly computes: "images" (convolutions), "texts" (matrix products).
    """

    parameters: int
    trained: int
    state: int
    forward: float
    backward: float
    saved: float
    largest: float
    forward_operations: int
    backward_operations: int
    norms: tuple[int, ...]
    features: int | None
    work: str = "images"

    @property
    def input_backward(self) -> float:
        """FLOPs of a backward pass to the input alone: the derivative of a product by its input costs as much as the product."""
        return self.forward


class CountedOperations(TorchDispatchMode):  # type: ignore[no-untyped-call]  # untyped in torch
    """How many operations are started, and the largest tensor that one makes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in torch
        self.number: int = 0
        self.largest: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func.__name__.partition(".")[0] not in VIEWS:
            self.number += 1
            made = found if isinstance(found, tuple | list) else (found,)
            self.largest = max([self.largest, *(value.nbytes for value in made if isinstance(value, Tensor))])
        return found


class _Unfilled(TorchFunctionMode):
    """In this block nothing is drawn: what has no memory needs no first weights."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        given = (*args, *(kwargs or {}).values())
        if func.__name__ in DRAWN and isinstance(given[0], Tensor):
            return given[0]
        return func(*args, **(kwargs or {}))


def make_network(network: Network, shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """A network without memory: on the meta device."""
    with torch.device("meta"), _Unfilled():
        return build_network(network, shape, num_classes).to("meta").train()


def count_network(network: nn.Module, shape: tuple[int, ...], work: str = "images") -> NetworkCost:
    """Count a pass of two samples forward and backward."""
    saved: dict[int, Tensor] = {}

    def keep(value: Tensor) -> Tensor:
        saved[value.untyped_storage()._cdata] = value
        return value

    inputs = torch.empty(ROWS, *shape, device="meta")
    keeping = torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value)
    with FlopCounterMode(display=False) as forward, CountedOperations() as started, keeping:
        out = network(inputs)
    with FlopCounterMode(display=False) as backward, CountedOperations() as back:
        out.sum().backward()
    state = [*network.parameters(), *network.buffers()]
    own = {value.untyped_storage()._cdata for value in state}
    kept = sum(value.untyped_storage().nbytes() for place, value in saved.items() if place not in own)
    return NetworkCost(
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        trained=sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad),
        state=sum(value.nbytes for value in network.state_dict().values()),
        forward=forward.get_total_flops() / ROWS,
        backward=backward.get_total_flops() / ROWS,
        saved=kept / ROWS,
        largest=max(started.largest, 4 * ROWS * prod(shape)) / ROWS,
        forward_operations=started.number,
        backward_operations=back.number,
        norms=tuple(norm.num_features for norm in network.modules() if isinstance(norm, _BatchNorm)),
        features=feature_size(network),
        work=work,
    )
