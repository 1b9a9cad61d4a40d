"""A process's share of a batch: its rows, and the random numbers that the network draws for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from softmatch.distributed.processes import World, gather_rows, share, world
from softmatch.seeds import derive


class _OwnRows(torch.autograd.Function):
    """This process's rows; the gradient is that of all rows, because all processes have the whole tensor."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor) -> Tensor:
        ctx.number = len(whole)
        return whole[share(len(whole))].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        size = world().size
        cuts = [share(ctx.number, World(rank, size)) for rank in range(size)]
        return gather_rows(gradients[0], [cut.stop - cut.start for cut in cuts])


def own_rows(whole: Tensor) -> Tensor:
    """This process's rows of a tensor that all processes have."""
    if not (whole.requires_grad and torch.is_grad_enabled()):
        return whole[share(len(whole))]
    rows: Tensor = _OwnRows.apply(whole)  # type: ignore[no-untyped-call]  # torch's own signature
    return rows


class Draws:
    """Random numbers inside the network (dropout), which each process draws for its share only.

    They depend on the step, the number of the pass within it, and the process. torch's generators, from which methods draw for
    the whole batch, are restored: they stay equal on all processes, whatever the sizes of the shares.
    """

    def __init__(self) -> None:
        self._step = self._passes = 0

    def begin(self, step: int) -> None:
        """Start a step, by its number."""
        self._step, self._passes = step, 0

    @contextmanager
    def own(self, device: torch.device) -> Iterator[None]:
        """One pass of a network on this device."""
        seed = derive(torch.initial_seed(), "pass", self._step, self._passes, world().rank)
        self._passes += 1
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.default_generator.manual_seed(seed)
            if device.type == "cuda":
                torch.cuda.manual_seed(seed)
            yield
