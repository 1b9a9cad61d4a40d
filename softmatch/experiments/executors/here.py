"""Runs as child processes on this machine; workers of clusters start theirs in the same way."""

import math
import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

from softmatch.distributed.launching import ending_with, usable_cpus
from softmatch.experiments.executors import HEADING, SHARED, WRONG_USE, Ended, Executor, Job, Where

PRELOADED = ("softmatch.cli.app", "softmatch.cli.running", "torch._dynamo", "sklearn.datasets")
"""Slow imports of a run. None of them starts a thread of its own or uses a GPU, which a fork would lack."""


@contextmanager
def opened(where: Where, root: Path) -> Iterator[Executor]:
    """Child processes that share the cores; a run of one process gets the GPU that the fewest other runs use."""
    number, found = where.processes_per_run, gpus()
    slots = where.processes or max((len(found) or usable_cpus()) // number, 1)
    users: list[tuple[Job, str | None]] = []

    def start(arguments: Sequence[str], log: Path) -> Job:
        users[:] = [(job, gpu) for job, gpu in users if job.poll() is None]
        gpu = min(found, key=[gpu for _, gpu in users].count) if found and number == 1 else None
        users.append((start_job(arguments, log, {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}), gpu))
        return users[-1][0]

    yield Executor(slots, where.train_options(max(usable_cpus() // (slots * number), 1)), start)


def start_job(arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> Job:
    """Start `softmatch` on this machine; on Linux as a fork of a process that has imported torch, which takes seconds."""
    if sys.platform != "linux":
        child = start_child(arguments, log, environment)
        return Job(lambda: None if child.poll() is None else Ended(child.returncode), child.terminate, child.kill)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOADED])
    begin(log).close()
    forked = context.Process(target=_become, args=([*arguments], log.resolve(), {**os.environ, **environment}))
    forked.start()
    return Job(lambda: None if forked.exitcode is None else Ended(forked.exitcode), forked.terminate, forked.kill)


def _become(arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
    """Be `python -m softmatch` in this forked process, which is told to save and end when the sweep ends, for whatever reason."""
    multiprocessing.set_start_method(None, force=True)  # that of a new interpreter, for workers that read images
    os.setsid()
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.path[0], sys.argv = str(Path.cwd()), ["softmatch", *arguments]
    runpy.run_module("softmatch", run_name="__main__")


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def gpus() -> list[str]:
    """Usable GPUs of this machine, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    if not torch.cuda.is_available():
        return []
    named = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return named or [str(number) for number in range(torch.cuda.device_count())]


def start_child(
    arguments: Sequence[str],
    log: Path,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    ending: int = signal.SIGTERM,
) -> subprocess.Popen[bytes]:
    """Start `softmatch`. On Linux it is told to save and end when this process ends, for whatever reason.

    Args:
        environment: variables in addition to those of this process.
        folder: start of relative paths in the settings, if it exists here. Default: the current folder.
        ending: the signal that it gets then.
    """
    with begin(log) as file:
        return subprocess.Popen(
            [sys.executable, "-m", "softmatch", *arguments],
            env={**os.environ, **(environment or {})},
            cwd=folder if folder is not None and folder.is_dir() else None,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,  # Ctrl-C in the terminal reaches the sweep alone, which tells its runs
            preexec_fn=ending_with(os.getpid(), ending) if sys.platform == "linux" else None,
        )


def begin(log: Path) -> IO[bytes]:
    """Open a log, and add the line that begins an attempt: where and when."""
    file = log.open("ab", buffering=0)
    file.write(f"{HEADING}{socket.gethostname()}, {datetime.now():%Y-%m-%d %H:%M:%S}\n".encode())
    return file


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
