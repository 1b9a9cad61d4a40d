"""Runs as processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from softmatch.distributed.launching import usable_cpus
from softmatch.experiments.places import Handle, process_options, thread_options
from softmatch.experiments.starting import start


def gpus() -> list[str]:
    """The GPUs of this machine that may be used, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    named = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return (named or [str(number) for number in range(torch.cuda.device_count())]) if torch.cuda.is_available() else []


class Here:
    """So many runs at a time; a run of one process has the GPU that the fewest others have.

    Args:
        slots: runs at a time.
        processes: that train a run together.
        threads: of each process. Default: cores divided by processes.
    """

    def __init__(self, slots: int, processes: int = 1, threads: int | None = None) -> None:
        self.slots = slots
        share = max(usable_cpus() // (slots * processes), 1)
        self.options = [*thread_options(threads or share), *process_options(processes)]
        self._gpus = gpus() if processes == 1 else []
        self._having: list[tuple[Handle, str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Nothing: what runs are forked from ends with this process."""

    def start(self, arguments: Sequence[str], log: Path) -> Handle:
        if not self._gpus:
            return start(arguments, log)
        self._having = [(handle, gpu) for handle, gpu in self._having if handle.poll() is None]
        taken = [gpu for _, gpu in self._having]
        chosen = min(self._gpus, key=taken.count)
        handle = start(arguments, log, {"CUDA_VISIBLE_DEVICES": chosen})
        self._having.append((handle, chosen))
        return handle
