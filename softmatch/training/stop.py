"""Signals that ask a run to end: it saves where it is, and says how to go on. Spot machines, Slurm and people send them."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from softmatch.distributed.processes import largest

SIGNALS = ("SIGTERM", "SIGINT", "SIGUSR1", "SIGHUP")
"""SIGUSR1 is what Slurm users let a job be warned with; SIGHUP comes when a terminal or connection is closed."""


class Stopping(Exception):  # noqa: N818  # what is going on, and no error
    """Ends the loop where it is; what it was doing can be done again."""


class Stop:
    """Whether one of the signals has come, in this block. A second SIGINT ends at once, as without this block.

    In a thread other than the main one no signal is heard.
    """

    def __init__(self) -> None:
        self.signal = ""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            for name in SIGNALS:
                number = getattr(signal, name, None)  # Windows has no SIGUSR1
                if number is not None and not (name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN):  # by nohup
                    self._before[number] = signal.signal(number, self._heard)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self.signal and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number).name

    def check(self) -> None:
        """Raise Stopping if a signal was heard, in all processes if in any of them: all must ask at once."""
        if largest(int(bool(self.signal))):
            raise Stopping
