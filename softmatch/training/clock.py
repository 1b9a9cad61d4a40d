"""Where the time of a step goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch


class Clock:
    """Names the parts of a training step. This one measures nothing and costs nothing."""

    def __call__(self, name: str) -> AbstractContextManager[None]:
        return nullcontext()


class Stopwatch(Clock):
    """Sums the seconds of each part; time in a part inside another counts for the inner one only.

    It waits for the device at the borders of parts, so a measured step is a little slower than an unmeasured one.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds: dict[str, float] = {}
        self._inner = 0.0

    def __call__(self, name: str) -> AbstractContextManager[None]:
        return self._part(name)

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        outer, self._inner = self._inner, 0.0
        started = self._now()
        try:
            yield
        finally:
            taken = self._now() - started
            self.seconds[name] = self.seconds.get(name, 0.0) + taken - self._inner
            self._inner = outer + taken

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            torch.mps.synchronize()
        return time.perf_counter()
