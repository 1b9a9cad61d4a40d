"""Signals that stop a run, from a spot machine, Slurm or a user: it saves its state and says how to resume."""

import logging
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from softmatch.distributed.processes import largest
from softmatch.errors import HEARD

SIGNALS = ("SIGTERM", "SIGINT", "SIGUSR1", "SIGHUP")
"""SIGUSR1 is the usual warning from Slurm; SIGHUP comes when a terminal or connection closes."""


LOG = logging.getLogger(__name__)
NO_SIGNALS = "This system has no signals but Ctrl-C: a run that is ended in another way resumes from its last checkpoint."


class Stopping(Exception):  # noqa: N818  # not an error
    """Ends the loop at once; the interrupted step can be repeated."""


class Stop:
    """Remembers a signal that arrives in this block; a second SIGINT raises KeyboardInterrupt.

    Signals are handled in the main thread only.
    """

    def __init__(self) -> None:
        self.signal = ""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stop":
        if threading.current_thread() is threading.main_thread():
            if HEARD:  # a library has dropped the interruption
                raise KeyboardInterrupt
            if not hasattr(signal, "SIGHUP"):
                LOG.warning(NO_SIGNALS)
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
        """Raise Stopping if any process has received a signal. All processes must call this together."""
        if largest(int(bool(self.signal))):
            raise Stopping
