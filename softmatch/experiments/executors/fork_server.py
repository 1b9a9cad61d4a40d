"""A process that imports torch once and forks a child for each run, which would otherwise take seconds to start (Linux)."""

from __future__ import annotations

import atexit
import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from softmatch.distributed.launching import ending_with

PRELOADED = ("softmatch.cli.running", "torch._dynamo", "sklearn.datasets")
"""Slow imports of a run. None of them starts a thread or uses a GPU, which a fork would lack."""
LOST = 255
"""Exit code of a child whose server has ended; the kernel tells such a child to save and end."""


class Forked:
    """A forked `softmatch`, with those methods of `subprocess.Popen` that an executor calls."""

    def __init__(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        if _server().poll() is not None:
            _server.cache_clear()
        self._server = _server()
        self._code: int | None = None
        self.pid: int = self._ask([*arguments], str(log.resolve()), {**os.environ, **environment}, str(Path.cwd()))

    def poll(self) -> int | None:
        """The exit code, −n if signal n ended it; None while it runs."""
        if self._code is None:
            try:
                self._code = self._ask(self.pid)
            except OSError:
                self._code = LOST
        return self._code

    def terminate(self) -> None:
        """Tell it to save and end."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def _ask(self, *request: object) -> Any:
        """The answer of `serve`; raises OSError if the server has ended."""
        asked, answers = self._server.stdin, self._server.stdout
        assert asked is not None
        assert answers is not None
        asked.write(f"{json.dumps(request)}\n")
        asked.flush()
        if not (answer := answers.readline()):
            raise ChildProcessError("the process that starts runs has ended")
        return json.loads(answer)


@cache
def _server() -> subprocess.Popen[str]:
    """The server of this process, with which it ends: its input is closed then."""
    command = [sys.executable, "-m", "softmatch.experiments.executors.fork_server"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    atexit.register(server.communicate)
    return server


def serve() -> None:
    """Answer a request per line: a child to start by its pid, and a pid by the exit code of that child, or null."""
    for name in PRELOADED:
        import_module(name)
    end_with_server = ending_with(os.getpid(), signal.SIGTERM)
    for line in sys.stdin:
        request = json.loads(line)
        if len(request) == 1:
            pid, status = os.waitpid(*request, os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        elif not (answer := os.fork()):
            end_with_server()
            _become(*request)
            return
        print(json.dumps(answer), flush=True)


def _become(arguments: Sequence[str], log: str, environment: Mapping[str, str], folder: str) -> None:
    """Be `python -m softmatch` in this folder, with its output in a log."""
    os.setsid()
    for path, number in ((os.devnull, 0), (log, 1), (log, 2)):
        os.dup2(os.open(path, os.O_RDWR | os.O_APPEND), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[0], sys.argv = folder, ["softmatch", *arguments]
    runpy.run_module("softmatch", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    serve()
