"""Processes of runs on this machine, which end with the process that started them, however that ends.

To import torch and what training needs takes seconds: on Linux one process does it, and each run is a fork of that one.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from softmatch.experiments.child import begin, forked
from softmatch.experiments.places import FAILED, SHARED, WRONG_USE, Ended

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess  # which Windows does not have

PRELOADED = ("softmatch.cli.app", "softmatch.cli.running", "softmatch.report", "torch._dynamo", "sklearn.datasets")
"""What training imports when it begins. None of it starts threads that a fork would lack."""
SERVER_LOST = 255
"""What multiprocessing gives for the code of a process whose end it did not see, since its fork server has ended."""
PAUSE = 0.05


def start(
    arguments: Sequence[str],
    log: Path,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    fork: bool = sys.platform == "linux",
) -> Forked | Started:
    """Run `softmatch` in a process of its own.

    Args:
        arguments: of the command line.
        log: file that its output is added to.
        environment: variables besides those of this process.
        folder: that relative paths in the settings begin in, if there is such a folder here. Default: the current one.
        fork: from a process that has imported everything. Elsewhere than on Linux, libraries do not allow it.
    """
    own = {**os.environ, **(environment or {})}
    where = folder if folder is not None and folder.is_dir() else Path.cwd()
    quiet = (environment or {}).get("RANK", "0") != "0"  # of several processes the first speaks for all
    if not quiet:
        begin(log)
    if fork:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(PRELOADED))
        process = context.Process(target=forked, args=(list(arguments), str(log), own, str(where), quiet))
        with _without_main():
            process.start()
        return Forked(process)
    with log.open("ab") as file:
        return Started(
            subprocess.Popen(
                [sys.executable, "-m", "softmatch.experiments.child", *arguments],
                env=own,
                cwd=where,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL if quiet else file,
                stderr=file,
                start_new_session=os.name == "posix",  # an interruption at the terminal reaches the sweep alone
            )
        )


def execute(arguments: Sequence[str], log: Path, environment: Mapping[str, str], folder: Path) -> Ended:
    """`start` and wait; what workers on other machines are sent. An interruption makes the run save and end."""
    if not log.parent.is_dir():
        return Ended(WRONG_USE, f"{socket.gethostname()} has no folder {log.parent}: {SHARED}")
    process = start(arguments, log, environment, folder)
    try:
        return wait(process)
    except KeyboardInterrupt:
        process.stop()
        return wait(process)


def wait(process: Forked | Started) -> Ended:
    """How it has ended, when it has. Signals and interruptions are heard while waiting."""
    while (ended := process.poll()) is None:
        time.sleep(PAUSE)
    return ended


class Forked:
    """A fork of the process that has imported everything; see `softmatch.experiments.places.Handle`."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process

    def poll(self) -> Ended | None:
        code = self._process.exitcode
        if code is None:
            return None
        if code == SERVER_LOST:
            return None if _is_there(self.pid) else Ended(FAILED, "its end was not seen: its fork server has ended")
        self._process.join()
        return Ended(code)

    def stop(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)  # terminate() does nothing once the fork server has ended

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def _without_main() -> Iterator[None]:
    """A process that is started in this block does not run the main module of this one again, whoever has written that."""
    own = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = own


class Started:
    """A program that was started; see `softmatch.experiments.places.Handle`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def poll(self) -> Ended | None:
        code = self._process.poll()
        if code is None:
            return None
        if self._process.stdin is not None:
            self._process.stdin.close()
        return Ended(code)

    def stop(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    @property
    def pid(self) -> int:
        return self._process.pid
