"""Runs as child processes on this machine; workers of clusters start theirs in the same way."""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from softmatch.distributed.launching import ending_with, usable_cpus
from softmatch.experiments.executors import HEADING, SHARED, WRONG_USE, Ended, Executor, Job, Where
from softmatch.experiments.executors.fork_server import Forked


@contextmanager
def opened(where: Where, root: Path) -> Iterator[Executor]:
    """Child processes that share the cores; a run of one process gets the GPU that the fewest other runs use."""
    number, found = where.processes_per_run, gpus()
    slots = where.processes or max((len(found) or usable_cpus()) // number, 1)
    start_one = fork_child if sys.platform == "linux" else start_child
    users: list[tuple[subprocess.Popen[bytes] | Forked, str | None]] = []

    def start(arguments: Sequence[str], log: Path) -> Job:
        users[:] = [(child, gpu) for child, gpu in users if child.poll() is None]
        gpu = min(found, key=[gpu for _, gpu in users].count) if found and number == 1 else None
        child = start_one(arguments, log, {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu})
        users.append((child, gpu))
        return Job(lambda: None if (code := child.poll()) is None else Ended(code), child.terminate, child.kill)

    yield Executor(slots, where.train_options(max(usable_cpus() // (slots * number), 1)), start)


def gpus() -> list[str]:
    """Usable GPUs of this machine, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    if not torch.cuda.is_available():
        return []
    named = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return named or [str(number) for number in range(torch.cuda.device_count())]


def fork_child(arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> Forked:
    """Start `softmatch` as a fork of a process that has imported torch."""
    write_heading(log)
    return Forked(arguments, log, environment)


def start_child(
    arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start `softmatch`. On Linux it is told to save and end when this process ends, for whatever reason.

    Args:
        environment: variables in addition to those of this process.
        folder: start of relative paths in the settings, if it exists here. Default: the current folder.
    """
    write_heading(log)
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "softmatch", *arguments],
            env={**os.environ, **(environment or {})},
            cwd=folder if folder is not None and folder.is_dir() else None,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,  # Ctrl-C in the terminal reaches the sweep alone, which tells its runs
            preexec_fn=ending_with(os.getpid(), signal.SIGTERM) if sys.platform == "linux" else None,
        )


def write_heading(log: Path) -> None:
    """Append the line that begins an attempt: where and when."""
    with log.open("a", encoding="utf-8") as file:
        file.write(f"{HEADING}{socket.gethostname()}, {datetime.now():%Y-%m-%d %H:%M:%S}\n")


def execute(arguments: Sequence[str], log: Path, environment: Mapping[str, str], folder: Path) -> Ended:
    """Run a child from start to end; an interruption makes it save and end."""
    if not log.parent.is_dir():
        return Ended(WRONG_USE, f"{socket.gethostname()} has no folder {log.parent}: {SHARED}")
    child = start_child(arguments, log, environment, folder)
    try:
        return Ended(child.wait(timeout=math.inf))  # without a timeout it would not hear Ray, which sends no signal
    except KeyboardInterrupt:
        child.terminate()
        return Ended(child.wait())
