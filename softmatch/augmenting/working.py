"""Batches of texts that are worked on: in this process, or in several that each load the models."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from softmatch.augmenting.sentences import Parts
from softmatch.distributed.launching import PASSED_ON, usable_cpus
from softmatch.errors import LoadingError, SoftmatchError

__all__ = ["Maker", "work"]

Make = Callable[[Sequence[str]], list[str]]


class Maker(Protocol):
    """What makes new texts. It is sent to other processes, so it holds no model.

    Attributes:
        name: as the user has called it.
        what: is made new: "sentences" or "texts".
    """

    @property
    def name(self) -> str: ...

    @property
    def what(self) -> str: ...

    @property
    def fingerprint(self) -> str:
        """Of all that decides what is made."""

    def split(self, text: str) -> Parts:
        """What is made new at odd places, what stays at even ones."""

    def load(self, worker: int = 0, threads: int | None = None) -> Make:
        """What makes as many new ones of some, in the process where it is called."""


Done = tuple[Sequence[str], list[str]]
"""A batch, and what was made of it."""


def work(maker: Maker, batches: Sequence[Sequence[str]], processes: int = 1) -> Generator[Done]:
    """Every batch with what was made of it, in the order in which they are done.

    Args:
        processes: how many of them work; 1: this one does.

    Raises:
        LoadingError: one of them has ended.
    """
    processes = min(processes, len(batches))
    if processes > 1:
        yield from _share(maker, batches, processes)
    elif batches:
        make = maker.load()
        for batch in batches:
            yield batch, make(batch)


def _share(maker: Maker, batches: Sequence[Sequence[str]], processes: int) -> Generator[Done]:
    workers = _Workers(maker, processes)
    try:
        left, given = iter(batches), dict[Any, Sequence[str]]()
        for pipe in workers.pipes:
            given[pipe] = next(left)
            workers.send(pipe, given[pipe])
        while given:
            for pipe in wait(list(given)):
                made = workers.receive(pipe)
                done = given.pop(pipe)
                if (batch := next(left, None)) is not None:  # before the old one is written: it need not wait
                    given[pipe] = batch
                    workers.send(pipe, batch)
                yield done, made
    finally:
        workers.end()


class _Workers:
    """Processes, each at the end of a pipe: they end when it is closed, so also when this process is killed.

    Attributes:
        pipes: one to each.
    """

    def __init__(self, maker: Maker, number: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipes: list[Any] = []
        self._processes: dict[Any, Any] = {}
        threads = max(usable_cpus() // number, 1)
        try:
            with _signals_blocked():
                for worker in range(number):
                    pipe, theirs = context.Pipe()
                    process = context.Process(target=_serve, args=(theirs, maker, worker, threads), daemon=True)
                    process.start()
                    theirs.close()
                    self.pipes.append(pipe)
                    self._processes[pipe] = process
        except BaseException:
            self.end()
            raise

    def send(self, pipe: Any, batch: Sequence[str]) -> None:
        try:
            pipe.send(list(batch))
        except OSError as error:
            raise self._lost(pipe) from error

    def receive(self, pipe: Any) -> list[str]:
        """What a process has made of its batch."""
        try:
            found = pipe.recv()
        except (EOFError, OSError) as error:
            raise self._lost(pipe) from error
        if isinstance(found, SoftmatchError):
            raise found
        return list(found)

    def _lost(self, pipe: Any) -> LoadingError:
        process = self._processes[pipe]
        process.join(5.0)
        code = process.exitcode
        how = f"signal {-code}" if code is not None and code < 0 else f"code {code}"
        why = ", perhaps for lack of memory: give fewer --processes or a smaller --batch" if code == -signal.SIGKILL else ""
        return LoadingError(
            f"process {self.pipes.index(pipe) + 1} of {len(self.pipes)} ended with {how}{why}. What was made until then is kept: "
            "the same command goes on from there."
        )

    def end(self) -> None:
        """Of processes that hold nothing that is not also here."""
        for pipe in self.pipes:
            pipe.close()
        for process in self._processes.values():
            process.kill()
            process.join()


def _serve(pipe: Connection[Any, Any], maker: Maker, worker: int, threads: int) -> None:
    """Work on what comes through a pipe until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))  # for libraries that a user's own function imports
    try:
        make = maker.load(worker, threads)
        while True:
            pipe.send(make(pipe.recv()))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except SoftmatchError as error:
        with suppress(BrokenPipeError, ConnectionResetError):  # another process has failed first, and all are being ended
            pipe.send(error)


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Processes started in here are deaf to signals that a terminal or scheduler sends to all.

    They ask this process to end, and reach it when the block has ended.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # which the first process would start otherwise, and that ends such a block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {getattr(signal, name) for name in PASSED_ON})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
