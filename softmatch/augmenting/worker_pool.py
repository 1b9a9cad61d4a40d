"""Batches of texts worked on in this process, or in several worker processes that each load the models."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache, partial
from itertools import islice
from multiprocessing import connection, resource_tracker
from threading import Thread
from typing import Any

from softmatch.augmenting.makers import Make, Maker
from softmatch.distributed.launching import usable_cpus
from softmatch.errors import LoadingError

Made = tuple[Sequence[str], list[str]]
"""A batch, and its versions."""


def make_batches(maker: Maker, batches: Sequence[Sequence[str]], processes: int = 1) -> Generator[Made]:
    """Yield every batch with its versions, as they are finished, from `processes` worker processes or, if 1, from this one."""
    processes = min(processes, len(batches))
    if processes > 1:
        yield from _share(maker, batches, processes)
    elif batches:
        make = maker.load()
        for batch in batches:
            yield batch, make(batch)


def _share(maker: Maker, batches: Sequence[Sequence[str]], processes: int) -> Generator[Made]:
    context = multiprocessing.get_context("spawn")
    numbers, (ended, alive) = context.SimpleQueue(), context.Pipe(duplex=False)
    for number in range(processes):
        numbers.put(number)
    started = (maker, max(usable_cpus() // processes, 1), numbers, ended)
    pool = ProcessPoolExecutor(processes, context, initializer=_start, initargs=started)
    left, running = iter(batches), dict[Future[list[str]], Sequence[str]]()
    try:
        while True:
            with _interrupts_blocked():  # workers are started here
                running |= {pool.submit(_make, batch): batch for batch in islice(left, 2 * processes - len(running))}
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    except BrokenProcessPool as error:
        raise LoadingError(
            "a worker process has ended, perhaps for lack of memory: try fewer --processes or a smaller --batch. Finished texts "
            "are kept; the same command resumes."
        ) from error
    finally:
        alive.close()  # ends the workers at once: all that was yielded is here
        pool.shutdown(cancel_futures=True)


def _start(maker: Maker, threads: int, numbers: Any, ended: Any) -> None:
    """Prepare a worker process. It loads its models with the first batch, whose errors are reported."""
    global _load
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))  # for libraries that a user's own function imports
    Thread(target=_end_with, args=(ended,), daemon=True).start()
    _load = cache(partial(maker.load, numbers.get(), threads))


_load: Any


def _end_with(ended: Any) -> None:
    """End this process when the main process closes its end of a pipe, or dies."""
    connection.wait([ended])
    os._exit(1)


def _make(batch: Sequence[str]) -> list[str]:
    make: Make = _load()
    return make(batch)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Processes started in the block never see Ctrl-C, which a terminal sends to all; this one sees it after the block."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # the first process would start it otherwise, which unblocks SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
