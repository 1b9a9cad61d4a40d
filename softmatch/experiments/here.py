"""Runs as processes of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from softmatch.experiments.places import Handle, process_options, thread_options
from softmatch.experiments.starting import start
from softmatch.training.launching import usable_cpus


class Here:
    """So many runs at a time.

    Args:
        slots: runs at a time.
        processes: that train a run together.
        threads: of each process. Default: cores divided by processes.
    """

    def __init__(self, slots: int, processes: int = 1, threads: int | None = None) -> None:
        self.slots = slots
        share = max(usable_cpus() // (slots * processes), 1)
        self.options = [*thread_options(threads or share), *process_options(processes)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Nothing: what runs are forked from ends with this process."""

    def start(self, arguments: Sequence[str], log: Path) -> Handle:
        return start(arguments, log)
