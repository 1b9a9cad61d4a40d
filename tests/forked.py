"""`python …` as a real process: a fork of one that has imported torch, which a new interpreter needs seconds for.

A process has its own folder, environment, files for its output, and session, as one of `subprocess` would.
"""

import multiprocessing
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

from softmatch.experiments.executors.here import PRELOADED


class Forked:
    """A process that runs `python -m module …` or `python -c code …`; its methods are those of `subprocess.Popen`."""

    def __init__(
        self, words: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None, terminal: str | None = None
    ) -> None:
        """Start it, in a terminal if the path of one is given."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*PRELOADED])  # the process from which sweeps fork their runs
        folder = Path(tempfile.mkdtemp(prefix="forked-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._written = [folder / name for name in ("out", "err")]
        for path in self._written:
            path.touch()
        streams = [terminal] * 3 if terminal else [os.devnull, *map(str, self._written)]
        environment = dict(os.environ if env is None else env)
        self._process = context.Process(target=_become, args=([*words], str(cwd), environment, streams))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    returncode = property(poll)

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return self._process.exitcode

    def written(self) -> str:
        """What is in its output so far."""
        return self._written[0].read_text(encoding="utf-8")

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end, and give what it has written."""
        self.wait(timeout)
        return self.written(), self._written[1].read_text(encoding="utf-8")


def run(words: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` that captures the output."""
    process = Forked(words, cwd, env)
    out, error = process.communicate()
    return subprocess.CompletedProcess([*words], process.wait(), out, error)


def _become(words: Sequence[str], folder: str, environment: Mapping[str, str], streams: Sequence[str]) -> None:
    multiprocessing.set_start_method(None, force=True)  # else its own children too would come from a server of forks
    os.setsid()
    for number, path in enumerate(streams):
        os.dup2(os.open(path, os.O_RDWR | os.O_APPEND), number)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115  # no paths
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    kind, what, *arguments = words
    sys.path[:0] = [folder, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv = [kind if kind == "-c" else what, *arguments]
    if kind == "-c":
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_module(what, run_name="__main__", alter_sys=True)
