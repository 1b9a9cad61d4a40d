"""Inside a run's own process: our entry point, which is told to save and end when whoever started the process is gone."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

HEADING = "=== "
"""How the line in a log begins that says where and when an attempt was begun."""
LONGEST_SAVING = 300.0
"""Seconds that a run has to save and end when it is told to; then it is killed."""


def forked(arguments: Sequence[str], log: str, environment: Mapping[str, str], folder: str, quiet: bool) -> None:
    """Be `softmatch` in a process that was forked for it.

    Args:
        environment: all of it.
        folder: to be in.
        quiet: only errors go to the log.
    """
    import multiprocessing

    os.setsid()  # an interruption at the terminal reaches the sweep alone, which tells the runs
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    target = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_WRONLY) if quiet else target, 1)
    os.dup2(target, 2)
    parent = multiprocessing.parent_process()
    assert parent is not None
    sys.exit(_run(arguments, parent.join))


def main() -> int:
    """`python -m softmatch.experiments.child …` is `python -m softmatch …` for as long as its standard input is open."""
    line = os.dup(0)

    def gone() -> None:
        while os.read(line, 1):
            pass

    return _run(sys.argv[1:], gone)


def begin(log: Path) -> None:
    """Say in a log that an attempt begins here and now."""
    with log.open("a", encoding="utf-8") as file:
        file.write(f"{HEADING}{socket.gethostname()}, {datetime.now():%Y-%m-%d %H:%M:%S}\n")


def _run(arguments: Sequence[str], gone: Callable[[], object]) -> int:
    """Our entry point.

    Args:
        gone: returns when nobody waits for this process any more.
    """
    if hasattr(signal, "SIGUSR2"):
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # Slurm sends it to all processes of a job; our own then sends SIGTERM
    threading.Thread(target=_end_after, args=(gone,), daemon=True).start()
    sys.argv = ["softmatch", *arguments]
    from softmatch.__main__ import main as run

    return run()


def _end_after(gone: Callable[[], object]) -> None:
    with suppress(OSError):  # a pipe that broke is one that was closed
        gone()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LONGEST_SAVING)
    os.kill(os.getpid(), signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
