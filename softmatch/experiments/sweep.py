"""Make all runs of a sheet, at any place: what is finished is left alone, what fails is tried again, one failure ends nothing.

Two sweeps on the same store share the work: a run that another process makes is waited for, after all others.
"""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal, Protocol

from softmatch.distributed.launching import listening
from softmatch.errors import STOPPED, Stopped
from softmatch.experiments.child import HEADING, LONGEST_SAVING
from softmatch.experiments.places import FAILED, WRONG_USE, Ended, Handle, Place
from softmatch.experiments.sheet import Run
from softmatch.experiments.store import Store
from softmatch.files.locks import lock_now
from softmatch.runs.folder import LOCK

PAUSE = 0.05
LOOK = 1.0
"""Seconds between looks at runs that other processes make."""
TAIL = 12
"""Lines of a log in a message."""
INTERRUPTED = 130
BUSY = "is being trained by another process"
"""What a run says that finds its folder locked."""


@dataclass(frozen=True)
class Outcome:
    """What became of a run.

    Attributes:
        state: done; failed, at the last attempt; stopped: something keeps stopping it, and it has saved where it was.
        attempts: of this sweep; 0 for a run that was finished before, or that another process has made.
        message: how the last attempt ended and the end of its log, where it is not done.
    """

    run: Run
    state: Literal["done", "failed", "stopped"]
    attempts: int
    message: str = ""


class Listener(Protocol):
    """Is told what happens."""

    def begins(self, waiting: Sequence[Run]) -> None:
        """These runs are to be made."""

    def started(self, run: Run, attempt: int) -> None:
        """The place has begun with it; a cluster may let it wait before."""

    def retried(self, run: Run, attempt: int, message: str) -> None:
        """That attempt has failed, and there will be another."""

    def elsewhere(self, run: Run) -> None:
        """Another process makes it at this moment."""

    def ended(self, outcome: Outcome) -> None: ...

    def look(self) -> None:
        """Called all the time."""


@dataclass
class _Task:
    """A run that is to be made.

    Attributes:
        claim: its log, locked while this sweep is at it.
        begin: bytes of the log before this attempt.
        begun: whether the place has begun with it.
    """

    run: Run
    log: Path
    attempts: int = 0
    handle: Handle | None = None
    claim: IO[bytes] | None = None
    begin: int = 0
    begun: bool = False

    def let_go(self) -> None:
        if self.claim is not None:
            self.claim.close()
        self.handle, self.claim, self.begun = None, None, False

    def tail(self) -> str:
        """The last lines that this attempt has printed."""
        with self.log.open("rb") as file:
            file.seek(self.begin)
            lines = file.read().decode("utf-8", errors="replace").splitlines()
        return "\n".join([line for line in lines if line.strip() and not line.startswith(HEADING)][-TAIL:])


def sweep(
    runs: Sequence[Run],
    store: Store,
    place: Place,
    *,
    retries: int = 2,
    also: Sequence[str] = (),
    data: Mapping[str, Path] | None = None,
    listener: Listener | None = None,
    command: str = "the same command",
) -> list[Outcome]:
    """Make all runs that are not finished.

    A run that fails, or is lost, is tried again from its last checkpoint after the others; what is wrong use is not, for it
    would end in the same way.

    Args:
        place: that was entered.
        also: options of `softmatch train` for all runs, which say where and how they are computed.
        data: where the files of a source are, by its name.
        command: that goes on after an interruption, for the message.

    Returns:
        What became of each run, in the order of `runs`.

    Raises:
        Stopped: for SIGINT, SIGTERM, SIGUSR1 and SIGHUP, when all runs have saved where they were and ended.
    """
    own = Store(store.root.resolve())  # other machines have another current folder
    return _Sweep(own, place, retries, also, data or {}, listener, command).make(runs)


@dataclass
class _Sweep:
    store: Store
    place: Place
    retries: int
    also: Sequence[str]
    data: Mapping[str, Path]
    listener: Listener | None
    command: str
    waiting: deque[_Task] = field(default_factory=deque)
    running: list[_Task] = field(default_factory=list)
    elsewhere: list[_Task] = field(default_factory=list)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    heard: deque[int] = field(default_factory=deque)
    next_look: float = 0.0

    def make(self, runs: Sequence[Run]) -> list[Outcome]:
        for run in {run.key: run for run in runs}.values():
            if self.store.is_finished(run):
                self.outcomes[run.key] = Outcome(run, "done", 0)
            else:
                self.waiting.append(_Task(run, self.store.log(run)))
        if self.listener is not None:
            self.listener.begins([task.run for task in self.waiting])
        with listening(self.heard.append), ExitStack() as at_the_end:
            at_the_end.callback(self._kill)
            while self.waiting or self.running or self.elsewhere:
                if self.heard:
                    self._stop()
                self._fill()
                self._gather()
                self._look_elsewhere()
                if self.listener is not None:
                    self.listener.look()
                time.sleep(PAUSE)
        return [self.outcomes[run.key] for run in runs]

    def _fill(self) -> None:
        """Start what there is room for."""
        while self.waiting and len(self.running) < self.place.slots and not self.heard:
            task = self.waiting.popleft()
            self.store.prepare(task.run)
            claim = task.log.open("ab")
            if not lock_now(claim) or self._is_locked(task.run):
                claim.close()
                self._leave(task)
            elif self.store.is_finished(task.run):  # by another sweep, since this one began
                claim.close()
                self._end(task, "done")
            else:
                self._start(task, claim)

    def _start(self, task: _Task, claim: IO[bytes]) -> None:
        task.claim, task.begin = claim, task.log.stat().st_size
        task.attempts += 1
        try:
            task.handle = self.place.start(self._arguments(task.run), task.log)
        except OSError as error:  # no memory or no process left, say: one run that cannot be started ends nothing
            task.let_go()
            self._judge(task, Ended(FAILED, f"could not be started: {error.strerror or error}"), "")
        else:
            self.running.append(task)

    def _arguments(self, run: Run) -> list[str]:
        path = self.data.get(run.source)
        where = [] if path is None else ["--data", str(path.resolve())]
        return self.store.arguments(run, [*where, *self.place.options, *self.also])

    def _gather(self) -> None:
        """Take note of what has ended."""
        for task in list(self.running):
            assert task.handle is not None
            ended = task.handle.poll()
            if not task.begun and task.log.stat().st_size > task.begin:
                task.begun = True
                if self.listener is not None:
                    self.listener.started(task.run, task.attempts)
            if ended is not None:
                self.running.remove(task)
                tail = task.tail()
                task.let_go()
                self._judge(task, ended, tail)

    def _judge(self, task: _Task, ended: Ended, tail: str) -> None:
        run, message = task.run, "\n".join(part for part in (f"{ended.describe()}.", tail) if part)
        if self.store.is_finished(run):
            self._end(task, "done")
        elif ended.code == WRONG_USE and (self._is_locked(run) or BUSY in tail):
            task.attempts -= 1
            self._leave(task)
        elif ended.code == WRONG_USE:
            self._end(task, "failed", message)
        elif task.attempts <= self.retries:
            if self.listener is not None:
                self.listener.retried(run, task.attempts, message)
            self.waiting.append(task)
        else:
            self._end(task, "stopped" if ended.code in (STOPPED, INTERRUPTED) else "failed", message)

    def _end(self, task: _Task, state: Literal["done", "failed", "stopped"], message: str = "") -> None:
        outcome = Outcome(task.run, state, task.attempts, message)
        self.outcomes[task.run.key] = outcome
        if self.listener is not None:
            self.listener.ended(outcome)

    def _is_locked(self, run: Run) -> bool:
        """Whether another process trains it at this moment."""
        try:
            with (self.store.folder(run) / LOCK).open("r+b") as file:  # to be written: NFS locks no others
                return not lock_now(file)
        except FileNotFoundError:
            return False

    def _leave(self, task: _Task) -> None:
        """To the other process that is at it."""
        self.elsewhere.append(task)
        if self.listener is not None:
            self.listener.elsewhere(task.run)

    def _look_elsewhere(self) -> None:
        """At what others make: it is finished at last, or they have given it up."""
        if time.monotonic() < self.next_look:
            return
        self.next_look = time.monotonic() + LOOK
        for task in list(self.elsewhere):
            with task.log.open("ab") as file:
                free = lock_now(file) and not self._is_locked(task.run)
            if free:
                self.elsewhere.remove(task)
                self.waiting.append(task)

    def _stop(self) -> None:
        """Tell all runs to save and end, wait for them, and raise Stopped. A second interruption does not wait."""
        for task in self.running:
            assert task.handle is not None
            task.handle.stop()
        self.heard.clear()
        latest = time.monotonic() + LONGEST_SAVING
        while self.running and signal.SIGINT not in self.heard and time.monotonic() < latest:
            self._gather_stopped()
            time.sleep(PAUSE)
        number = len(self.outcomes) + len(self.waiting) + len(self.elsewhere) + len(self.running)
        done = sum(outcome.state == "done" for outcome in self.outcomes.values())
        raise Stopped(
            f"stopped; {done} of {number} runs are finished, and those that were begun are saved. Go on with: {self.command}"
        )

    def _gather_stopped(self) -> None:
        for task in list(self.running):
            assert task.handle is not None
            if task.handle.poll() is not None:
                self.running.remove(task)
                task.let_go()
                if self.store.is_finished(task.run):
                    self._end(task, "done")
                else:
                    self.waiting.append(task)

    def _kill(self) -> None:
        """What is left when this ends before its time."""
        for task in self.running:
            assert task.handle is not None
            task.handle.kill()
            task.let_go()
