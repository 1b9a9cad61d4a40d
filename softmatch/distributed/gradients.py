"""The sum of gradients over the processes, in messages that leave while the backward pass still computes.

DistributedDataParallel does the same for a network that is called as a whole, once in a step. Methods here call its features,
its heads and several passes by themselves, which its reducer does not see.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist

from softmatch.distributed.processes import world

MESSAGE = 2**22
"""Bytes of gradients after which a message is full. Smaller networks are one message, sent at the end."""


class GradientSum:
    """Replaces each gradient of a module by its sum over the processes; all have gradients of the same parameters.

    Messages hold the parameters that had a gradient in the step before, the last layers first, as the backward pass reaches
    them. They leave in the same order in every process. What is left at the end, such as the first step's, leaves then.
    """

    def __init__(self, module: nn.Module, size: int = MESSAGE) -> None:
        self._parameters, self._size = [*module.parameters()][::-1], size
        self._messages: list[list[nn.Parameter]] = []
        self._awaited: list[int] = []
        self._sent: list[tuple[list[nn.Parameter], Tensor, Any]] = []

    @contextmanager
    def during_backward(self) -> Iterator[None]:
        """In this block, which holds the backward pass, messages leave as soon as their gradients are there."""
        self._awaited = [len(message) for message in self._messages]
        hooks = [
            parameter.register_post_accumulate_grad_hook(partial(self._arrived, number))  # type: ignore[no-untyped-call]  # in torch
            for number, message in enumerate(self._messages)
            for parameter in message
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _arrived(self, number: int, parameter: Tensor) -> None:
        self._awaited[number] -= 1
        while len(self._sent) < len(self._messages) and self._awaited[len(self._sent)] == 0:
            self._send(self._messages[len(self._sent)])

    def _send(self, message: list[nn.Parameter]) -> None:
        """Send the gradients of a message, without those that are missing in this step."""
        known = [parameter for parameter in message if parameter.grad is not None]
        flat = torch.cat([parameter.grad.flatten() for parameter in known if parameter.grad is not None]) if known else None
        work = None if flat is None else dist.all_reduce(flat, async_op=True)
        self._sent.append((known, torch.zeros(0) if flat is None else flat, work))

    def finish(self) -> None:
        """Send what is left, and wait for all sums."""
        if world().size == 1:
            return
        for message in self._messages[len(self._sent) :]:
            self._send(message)
        planned = {parameter for message in self._messages for parameter in message}
        found = [parameter for parameter in self._parameters if parameter.grad is not None]
        self._send([parameter for parameter in found if parameter not in planned])
        for known, flat, work in self._sent:
            if work is not None:
                work.wait()
            for parameter, part in zip(known, torch.split(flat, [each.numel() for each in known]), strict=True):
                assert parameter.grad is not None
                parameter.grad.copy_(part.view_as(parameter.grad))
        self._sent.clear()
        self._messages = self._cut(found)

    def _cut(self, parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
        """Parameters in messages that are full, but for the last."""
        messages: list[list[nn.Parameter]] = [[]]
        for parameter in parameters:
            if sum(each.nbytes for each in messages[-1]) >= self._size:
                messages.append([])
            messages[-1].append(parameter)
        return messages
