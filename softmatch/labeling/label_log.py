"""Log of labels: one line per act, on disk before it is acknowledged; labels, undo and history follow from its lines."""

import csv
import hashlib
import io
import itertools
import json
import os
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from softmatch.data.cells import guarded
from softmatch.data.readers.labels import NO_LABEL, clean_label
from softmatch.errors import InputError, SoftmatchError
from softmatch.files.atomic import write_atomically
from softmatch.files.locks import try_lock
from softmatch.files.untrusted import parse_json

LOG, TABLE, LOCK, ADDRESS, WRITTEN = "log.jsonl", "labels.csv", ".lock", "address.txt", ".labels.sha256"
COLUMNS = ("name", "digest", "label", "purpose")
LONGEST = 100
"""Characters of a class name."""
How = Literal["key", "accept", "new", "none", "skip", "group", "review", "rename", "move", "undo", "redo"]
NONE, SKIP = "none", "skip"
"""Purposes of samples without a label: none of the classes fits, or it was passed over."""


class Value(NamedTuple):
    """A sample that was seen: its label, and its purpose ("random", "chosen", "group"; NONE or SKIP without a label)."""

    label: str | None
    purpose: str
    digest: str


@dataclass(frozen=True)
class Change:
    """A sample in an act; without a purpose it has not been seen."""

    name: str
    digest: str
    label: str | None
    purpose: str | None
    previous: str | None = None
    previous_purpose: str | None = None

    def inverse(self) -> "Change":
        """Return the change that takes this one back."""
        return Change(self.name, self.digest, self.previous, self.previous_purpose, self.label, self.purpose)


@dataclass(frozen=True)
class Act:
    """A line of the log."""

    time: str
    request: str
    how: str
    changes: tuple[Change, ...]


class LabelLog:
    """Labels of a project folder. One process at a time has it; threads may share it.

    Attributes:
        values: every sample that was seen, by name.
        cut: bytes of an incomplete last line that were removed: its request was never acknowledged.
        edited: copies of labels.csv as others had changed it: the log is not made from it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.cut = folder, 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = try_lock(folder / LOCK)
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"the project folder {folder} cannot be written: {reason}. Choose another --project.") from error
        if lock is None:
            where = (folder / ADDRESS).read_text(encoding="utf-8") if (folder / ADDRESS).is_file() else "another process"
            raise InputError(f"{folder} is open in {where.strip()}. Stop that server, or choose another --project.")
        self._lock, self._guard = lock, threading.RLock()
        self.values: dict[str, Value] = {}
        self.edited: list[Path] = []
        self._acts: list[Act] = []
        self._done: list[Act] = []
        self._undone: list[Act] = []
        self._requests: dict[str, Act] = {}
        self._seen: dict[str, None] = {}
        try:
            self._read()
            self._file = os.open(folder / LOG, os.O_WRONLY | os.O_APPEND)
        except BaseException:
            lock.release()
            raise
        self._table_of = -1

    def _read(self) -> None:
        path = self.folder / LOG
        if not path.exists():
            write_atomically(path, b"")
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        for number, line in enumerate(content[:whole].decode("utf-8", "replace").split("\n")[:-1], 1):
            try:
                self._take(_act(parse_json(line, f"{path}, line {number}")))
            except (InputError, TypeError, KeyError, AttributeError, IndexError) as error:
                advice = "Restore the file from a backup, or remove this line to go on without this act"
                raise InputError(f"{path}, line {number} is damaged ({error}). {advice}.") from error
        if whole < len(content):
            self.cut = len(content) - whole
            with path.open("r+b") as file:
                file.truncate(whole)
                os.fsync(file.fileno())
        self._size = whole

    def _take(self, act: Act) -> None:
        """Apply an act that is on disk."""
        for change in act.changes:
            if change.label is not None and change.label not in self._seen:
                before = change.previous if act.how == "rename" else None  # whose place, and so whose key, the new name gets
                self._seen = dict.fromkeys(
                    name for old in self._seen for name in ((old, change.label) if old == before else (old,))
                ) | {change.label: None}
            if change.purpose is None:
                self.values.pop(change.name, None)
            else:
                self.values[change.name] = Value(change.label, change.purpose, change.digest)
        if act.how == "undo":
            self._undone.append(self._done.pop())
        elif act.how == "redo":
            self._done.append(self._undone.pop())
        elif act.how == "move":  # earlier acts are about names that mean other samples now
            self._done.clear()
            self._undone.clear()
        else:
            self._done.append(act)
            self._undone.clear()
        self._acts.append(act)
        self._requests[act.request] = act

    def write(
        self, request: str, how: How, samples: Iterable[tuple[str, str]], label: str | None, purpose: Mapping[str, str]
    ) -> Act:
        """Give samples a label, and return when that is on disk. A request that was written before is not written again.

        Args:
            samples: name and digest of each.
            label: None: no label, for the purposes NONE and SKIP.
            purpose: by name.
        """
        with self._guard:
            if request in self._requests:
                return self._requests[request]
            changes = []
            for name, digest in samples:
                before = self.values.get(name)
                was = (None, None) if before is None else (before.label, before.purpose)
                changes.append(Change(name, digest, label, purpose[name], *was))
            return self._append(request, how, tuple(changes))

    def rename(self, request: str, old: str, new: str) -> Act:
        """Give all samples of a class another label, in one step. A class that exists gets them in addition to its own."""
        with self._guard:
            if request in self._requests:
                return self._requests[request]
            samples = [(name, value) for name, value in self.values.items() if value.label == old]
            changes = [Change(name, value.digest, new, value.purpose, old, value.purpose) for name, value in samples]
            return self._append(request, "rename", tuple(changes))

    def move(self, request: str, names: Mapping[str, str]) -> Act:
        """Give the labels of samples to their new names, which may be exchanged. Acts before it cannot be undone."""
        with self._guard:
            old = {name: self.values[name] for name in names}
            changes = [Change(name, value.digest, None, None, value.label, value.purpose) for name, value in old.items()]
            for name, value in old.items():
                before = None if names[name] in names else self.values.get(names[name])
                was = (None, None) if before is None else (before.label, before.purpose)
                changes.append(Change(names[name], value.digest, value.label, value.purpose, *was))
            return self._append(request, "move", tuple(changes))

    def undo(self, request: str) -> Act | None:
        """Take back the last act; None where there is none."""
        return self._turn(request, "undo", self._done)

    def redo(self, request: str) -> Act | None:
        """Repeat the last act that was taken back; None where there is none."""
        return self._turn(request, "redo", self._undone)

    def _turn(self, request: str, how: How, acts: list[Act]) -> Act | None:
        with self._guard:
            if request in self._requests:
                return self._requests[request]
            if not acts:
                return None
            changes = acts[-1].changes
            return self._append(request, how, changes if how == "redo" else tuple(change.inverse() for change in changes[::-1]))

    def _append(self, request: str, how: How, changes: tuple[Change, ...]) -> Act:
        act = Act(datetime.now(UTC).isoformat(timespec="milliseconds"), request, how, changes)
        line = (json.dumps(asdict(act)) + "\n").encode()
        try:
            if os.write(self._file, line) < len(line):
                raise OSError("the disk is full")
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, self._size)  # a part of a line would damage the next one
            raise SoftmatchError(
                f"{self.folder / LOG} cannot be written: {error.strerror or error}. Nothing was lost."
            ) from error
        self._size += len(line)
        self._take(act)
        return act

    def has(self, request: str) -> bool:
        """True for a request that was written."""
        return request in self._requests

    @property
    def version(self) -> int:
        """Number of acts."""
        return len(self._acts)

    @property
    def can_undo(self) -> bool:
        return bool(self._done)

    @property
    def can_redo(self) -> bool:
        return bool(self._undone)

    def counts(self) -> dict[str, int]:
        """Samples of each class that has some, in the order in which the classes were first used."""
        with self._guard:
            found = Counter(value.label for value in self.values.values() if value.label is not None)
            return {label: found[label] for label in self._seen if found[label]}

    def labels(self) -> dict[str, Value]:
        """Copy of the values with a label."""
        with self._guard:
            return {name: value for name, value in self.values.items() if value.label is not None}

    def write_table(self, path: Path | None = None, without: Collection[str] = ()) -> Path:
        """Write the labels as a table, by default labels.csv of the project; a reader sees the old one or the new one.

        Args:
            without: names of samples that are left out.
        """
        target = path or self.folder / TABLE
        with self._guard:
            if path is None and self._table_of == self.version:
                return target
            version, labels = self.version, {name: value for name, value in self.labels().items() if name not in without}
        text = io.StringIO(newline="")
        table = csv.writer(text, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows((guarded(name), v.digest, guarded(str(v.label)), v.purpose) for name, v in labels.items())
        content = text.getvalue().encode("utf-8", "backslashreplace")
        if path is None:
            self._keep_edited(content)
        write_atomically(target, content)
        if path is None:
            self._table_of = version
        return target

    def _keep_edited(self, new: bytes) -> None:
        """Copy labels.csv if it is not as it was last written, and note the digest of the new one."""
        table, written = self.folder / TABLE, self.folder / WRITTEN
        found = table.read_bytes() if table.is_file() else None
        now = hashlib.sha256(found or b"").hexdigest()
        if found is not None and written.is_file() and now not in written.read_text():
            numbers = (self.folder / f"labels-edited-{number}.csv" for number in itertools.count(1))
            self.edited.append(copy := next(path for path in numbers if not path.exists()))
            write_atomically(copy, found)
        write_atomically(written, f"{hashlib.sha256(new).hexdigest()}\n{now}\n".encode())

    def announce(self, address: str) -> None:
        """Note where the page is served, for the message to whoever starts a second server."""
        (self.folder / ADDRESS).write_text(address + "\n", encoding="utf-8")

    def close(self) -> None:
        """Write labels.csv and let others have the project."""
        self.write_table()
        os.close(self._file)
        (self.folder / ADDRESS).unlink(missing_ok=True)
        self._lock.release()


def _act(found: Mapping[str, Any]) -> Act:
    return Act(found["time"], found["request"], found["how"], tuple(Change(**each) for each in found["changes"]))


def class_name(text: object) -> str:
    """Clean the name of a class. Raises InputError for one that training would refuse."""
    label = clean_label(text) if isinstance(text, str) else None
    if label is None or len(label) > LONGEST or not label.isprintable():
        raise InputError(f"a class needs a name of 1 to {LONGEST} printable characters.")
    if label.casefold() in NO_LABEL:
        raise InputError(f"{label!r} means “no label” in tables, so it cannot be a class. Choose another name.")
    return label
