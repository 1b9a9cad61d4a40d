"""Listeners of a run, your own or a tracker: they receive settings, records and result, and cannot stop or delay training."""

import logging
import threading
import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self

from softmatch.errors import first_line
from softmatch.runs.folder import RunFolder
from softmatch.training.fit import Watcher
from softmatch.training.loop import Record
from softmatch.training.task import Task

LOG = logging.getLogger("softmatch")
LONGEST_CALL = 60.0
"""Seconds that a call of a listener may take before the listener is left alone."""
LONGEST_END, LONGEST_STOP = 120.0, 10.0
"""Seconds that a finished run waits for its listeners, and one that was stopped or has failed."""
SILENT = 2.0
"""Seconds of waiting before it is reported."""
MOST_RECORDS = 1000
"""Records that may wait for a slow listener; further ones are left out."""
MOST_FAILURES = 3
"""Calls that fail in a row before a listener is left alone."""


@dataclass(frozen=True)
class TrackedRun:
    """A run as its listeners see it.

    Attributes:
        name: name of the run folder.
        source: data set, file or folder, as in config.yaml.
        settings: all settings of `Config`, as JSON has them.
        folder: the run folder; None for a `Classifier`, which writes no files.
        group: name of the sweep that the run belongs to.
        resumed: True if the run has been started before.
    """

    name: str
    source: str
    settings: dict[str, Any]
    folder: Path | None = None
    group: str | None = None
    resumed: bool = False


class Listener:
    """Receives the course of a run; by default it ignores it. See docs/trackers.md.

    All methods are called in a thread of the listener's own, one after the other. If one raises or hangs, a warning says so
    once, and training continues. With several processes, only the first one has listeners.

    Example:
        >>> class Bell(Listener):
        ...     def end(self, result):
        ...         print("done" if result else "stopped")
        >>> Bell().end(None)
        stopped
    """

    def start(self, run: TrackedRun) -> None:
        """Called before the first step; also when a run is resumed."""

    def record(self, record: Record) -> None:
        """Called with each record, as in metrics.jsonl, with `role`: the method, "baseline", or one in a fold ("1/5 softmatch").

        A resumed run repeats the records after its last checkpoint.
        """

    def end(self, result: dict[str, Any] | None) -> None:
        """Called with the content of result.json; with None if the run was stopped or has failed."""


class _Line(threading.Thread):
    """Calls one listener, in a thread that does not keep the program from ending."""

    def __init__(self, name: str, listener: Listener) -> None:
        super().__init__(name=f"listener {name}", daemon=True)
        self.label, self._listener = name, listener
        self._calls = SimpleQueue[tuple[str, Any]]()
        self._began: float | None = None
        self._failures, self._left_alone, self._said = 0, False, False

    def send(self, method: str, argument: Any) -> None:
        """Have a method called after those before it."""
        if not self.is_alive():
            return
        if self._hangs():
            self._leave_alone()
        elif method == "record" and self._calls.qsize() >= MOST_RECORDS:
            self._say("is slower than the training; some records are left out")
        else:
            self._calls.put((method, argument))

    def run(self) -> None:
        method = ""
        while method != "end" and not self._left_alone:
            method, argument = self._calls.get()
            self._began = time.monotonic()
            try:
                getattr(self._listener, method)(argument)
                self._failures = 0
            except BaseException as error:  # libraries raise SystemExit, too
                self._failures += 1
                self._left_alone |= method == "start" or self._failures == MOST_FAILURES
                self._say(f"failed in {method}: {type(error).__name__}: {first_line(Exception(error))}")
            self._began = None

    def wait(self, until: float) -> bool:
        """Wait for the last call; return whether it was made. A listener that hangs is left alone."""
        while self.is_alive() and not self._hangs() and (left := until - time.monotonic()) > 0:
            self.join(min(left, 0.1))
        return not self.is_alive()

    def _hangs(self) -> bool:
        began = self._began
        return began is not None and time.monotonic() - began > LONGEST_CALL

    def _leave_alone(self) -> None:
        self._left_alone = True
        self._say("does not answer, and is left alone")

    def give_up(self) -> None:
        """Leave the listener alone unless it has ended."""
        if self.is_alive():
            self._leave_alone()

    def _say(self, text: str) -> None:
        """Print a warning, the first time."""
        if not self._said:
            self._said = True
            LOG.warning("softmatch: %s %s. Training is not affected.", self.label, text)


class Tracking:
    """Watches a job for its listeners, and passes all on to another watcher. The `with` block ends with the listeners.

    Attributes:
        result: final figures, for the listeners; None until the run is finished.
    """

    def __init__(
        self, listeners: Mapping[str, Listener], watcher: Watcher | None = None, group: str | None = None, resumed: bool = False
    ) -> None:
        self._lines = [_Line(name, listener) for name, listener in listeners.items()]
        self._watcher, self._group, self._resumed = watcher, group, resumed
        self.result: dict[str, Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        running = [line for line in self._lines if line.is_alive()]
        for line in running:
            line.send("end", deepcopy(self.result))
        until = time.monotonic() + (LONGEST_STOP if self.result is None else LONGEST_END)
        try:
            late = [line for line in running if not line.wait(min(until, time.monotonic() + SILENT))]
            if late:
                self.note(f"Waiting for {', '.join(line.label for line in late)}. Ctrl-C ends the waiting.")
            for line in late:
                line.wait(until)
        except KeyboardInterrupt:
            pass  # the run itself has ended
        for line in running:
            line.give_up()

    def start(self, run: TrackedRun) -> None:
        for line in self._lines:
            line.start()
            line.send("start", run)

    def understood(self, task: Task, run: RunFolder) -> None:
        if self._watcher is not None:
            self._watcher.understood(task, run)
        settings = task.config.model_dump(mode="json")
        self.start(TrackedRun(run.path.name, task.source, settings, run.path, self._group, self._resumed))

    def record(self, role: str, record: Record, steps: int) -> None:
        if self._watcher is not None:
            self._watcher.record(role, record, steps)
        for line in self._lines:
            line.send("record", {**deepcopy(record), "role": role})

    def note(self, text: str) -> None:
        if self._watcher is not None:
            self._watcher.note(text)
