"""A sweep trains all runs that are missing in a store: failed runs are retried and reported, and none is trained twice.

Two sweeps on the same store share the work: a run that another process trains is waited for, after all others.
"""

import signal
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from filelock import FileLock

from softmatch.distributed.launching import listening
from softmatch.errors import STOPPED, InputError, Stopped
from softmatch.experiments.executors import FAILED, HEADING, INTERRUPTED, WRONG_USE, Ended, Executor, Job
from softmatch.experiments.sheet import Run
from softmatch.experiments.store import Store

PAUSE, LOOK = 0.05, 1.0
"""Seconds between looks at the jobs, and at runs that other processes train."""
LONGEST_SAVING = 300.0
"""Seconds that runs have to save and end when they are told to; then they are killed."""
TAIL = 12
"""Lines of a log in a message."""
BUSY = "is being trained by another process"
"""Part of the message of a run whose folder is locked."""

State = Literal["done", "failed", "stopped"]


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        state: done; failed, at the last attempt; stopped: signals keep ending it, and it has saved its state.
        attempts: attempts of this sweep; 0 for a run that was finished before, or by another process.
        message: how the last attempt ended and the end of its log, unless it is done.
    """

    run: Run
    state: State
    attempts: int = 0
    message: str = ""


class Listener:
    """Receives the events of a sweep; by default it ignores them."""

    def begins(self, waiting: Sequence[Run]) -> None:
        """The sweep begins, with these runs to train."""

    def started(self, run: Run) -> None:
        """An attempt has begun; on a cluster it may have waited before."""

    def retried(self, run: Run, attempt: int, message: str) -> None:
        """This attempt has failed, and there will be another."""

    def elsewhere(self, run: Run) -> None:
        """Another process is training this run."""

    def ended(self, outcome: Outcome) -> None:
        """A run has ended for good."""

    def look(self) -> None:
        """Called all the time."""


@dataclass
class _Attempt:
    """An attempt to train a run.

    Attributes:
        claim: the lock of the run's log.
        begin: bytes of the log before this attempt.
        begun: whether the executor has begun with it.
    """

    run: Run
    job: Job
    claim: FileLock
    begin: int
    begun: bool = False


@dataclass
class Sweep:
    """Trains the runs of a store that are not finished.

    A run that fails is retried from its last checkpoint, after the others; wrong use is not, as it would fail again.

    Args:
        executor: place where runs are trained; it is opened if there are any.
        retries: how often a failed run is retried.
        also: options of `softmatch train` for all runs, which do not change results.
        data: files of named sources.
        command: command that resumes the sweep, for the message of an interruption.
    """

    store: Store
    executor: AbstractContextManager[Executor]
    retries: int = 2
    also: Sequence[str] = ()
    data: Mapping[str, Path] = field(default_factory=dict)
    listener: Listener = field(default_factory=Listener)
    command: str = "the same command"

    def __post_init__(self) -> None:
        self._store = Store(self.store.root.resolve())  # other machines have another current folder
        self._waiting = deque[Run]()
        self._running: list[_Attempt] = []
        self._elsewhere: list[Run] = []  # trained by other processes
        self._attempts = Counter[str]()
        self._outcomes: dict[str, Outcome] = {}
        self._heard = deque[int]()
        self._next_look = 0.0

    def run(self, runs: Sequence[Run]) -> list[Outcome]:
        """Train all runs that are not finished, and give the outcome of each. A run whose result is damaged counts as failed.

        Raises:
            Stopped: a signal (SIGINT, SIGTERM, SIGUSR1, SIGHUP) came; all runs have saved and ended.
        """
        for run in {run.key: run for run in runs}.values():
            if self._store.is_finished(run):
                self._outcomes[run.key] = Outcome(run, "done")
            else:
                self._waiting.append(run)
        if self._waiting:
            with self.executor as executor, listening(self._heard.append):
                self.listener.begins(list(self._waiting))
                self._run(executor)
        return [self._readable(self._outcomes[run.key]) for run in runs]

    def _readable(self, outcome: Outcome) -> Outcome:
        """The outcome itself, or failed if the result of the run is damaged."""
        try:
            self.store.result(outcome.run)
            return outcome
        except InputError as error:
            return replace(outcome, state="failed", message=str(error))

    def _run(self, executor: Executor) -> None:
        try:
            while self._waiting or self._running or self._elsewhere:
                if self._heard:
                    self._stop()
                self._fill(executor)
                self._gather()
                self._look_elsewhere()
                self.listener.look()
                time.sleep(PAUSE)
        finally:
            for attempt in self._running:
                attempt.job.kill()
                attempt.claim.release()

    def _fill(self, executor: Executor) -> None:
        """Start runs while there are free slots."""
        while self._waiting and len(self._running) < executor.slots and not self._heard:
            run = self._waiting.popleft()
            self._store.prepare(run)
            claim = self._store.claim(run)
            if claim is None:
                self._leave(run)
            elif self._store.is_finished(run):  # by another sweep, since this one began
                claim.release()
                self._end(run, "done")
            else:
                self._start(run, claim, executor)

    def _start(self, run: Run, claim: FileLock, executor: Executor) -> None:
        begin, path = self._store.log(run).stat().st_size, self.data.get(run.source)
        where = [] if path is None else ["--data", str(path.resolve())]
        self._attempts[run.key] += 1
        try:
            job = executor.start(self._store.arguments(run, [*where, *executor.options, *self.also]), self._store.log(run))
            self._running.append(_Attempt(run, job, claim, begin))
        except OSError as error:  # no memory or process left, say
            claim.release()
            self._judge(run, Ended(FAILED, f"could not be started: {error.strerror or error}"), "")

    def _gather(self, stopping: bool = False) -> None:
        """Take note of the attempts that have begun or ended."""
        for attempt in list(self._running):
            ended, run, log = attempt.job.poll(), attempt.run, self._store.log(attempt.run)
            if not attempt.begun and log.stat().st_size > attempt.begin:
                attempt.begun = True
                self.listener.started(run)
            if ended is None:
                continue
            self._running.remove(attempt)
            attempt.claim.release()
            if stopping and not self._store.is_finished(run):
                self._waiting.append(run)
            else:
                self._judge(run, ended, _tail(log, attempt.begin))

    def _judge(self, run: Run, ended: Ended, tail: str) -> None:
        message = "\n".join(part for part in (f"{ended.describe()}.", tail) if part)
        if self._store.is_finished(run):
            self._end(run, "done")
        elif ended.code == WRONG_USE and (self._store.is_locked(run) or BUSY in tail):
            self._attempts[run.key] -= 1
            self._leave(run)
        elif ended.code != WRONG_USE and self._attempts[run.key] <= self.retries:
            self.listener.retried(run, self._attempts[run.key], message)
            self._waiting.append(run)
        else:
            self._end(run, "stopped" if ended.code in (STOPPED, INTERRUPTED) else "failed", message)

    def _end(self, run: Run, state: State, message: str = "") -> None:
        self._outcomes[run.key] = Outcome(run, state, self._attempts[run.key], message)
        self.listener.ended(self._outcomes[run.key])

    def _leave(self, run: Run) -> None:
        """Leave a run to the other process that trains it."""
        self._elsewhere.append(run)
        self.listener.elsewhere(run)

    def _look_elsewhere(self) -> None:
        """Queue the runs again that other processes have finished or given up."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK
        for run in list(self._elsewhere):
            if (claim := self._store.claim(run)) is not None:
                claim.release()
                self._elsewhere.remove(run)
                self._waiting.append(run)

    def _stop(self) -> None:
        """Tell all runs to save and end, wait for them, and raise Stopped. A second Ctrl-C does not wait."""
        for attempt in self._running:
            attempt.job.stop()
        self._heard.clear()
        latest = time.monotonic() + LONGEST_SAVING
        while self._running and signal.SIGINT not in self._heard and time.monotonic() < latest:
            self._gather(stopping=True)
            time.sleep(PAUSE)
        number = len(self._outcomes) + len(self._waiting) + len(self._elsewhere) + len(self._running)
        done = sum(outcome.state == "done" for outcome in self._outcomes.values())
        raise Stopped(
            f"stopped; {done} of {number} runs are finished, and those that had begun are saved. Resume with: {self.command}"
        )


def _tail(log: Path, begin: int) -> str:
    """The last lines that an attempt has printed."""
    with log.open("rb") as file:
        file.seek(begin)
        lines = file.read().decode("utf-8", errors="replace").splitlines()
    return "\n".join([line for line in lines if line.strip() and not line.startswith(HEADING)][-TAIL:])
