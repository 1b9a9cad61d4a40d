"""The run folder: the one contract between commands. Whatever reads a run needs this folder and nothing else.

config.yaml     every effective setting            split.json      positions of labelled, unlabelled, test samples
metrics.jsonl   one record per evaluation          checkpoints/    full training state, newest two and best
model/          weights, classes, preparation      result.json     the final figures, as fractions
report.html     the report, self-contained         twin/           metrics and model of the supervised twin
boundary.json   points and decision regions, for two-dimensional data
folds/          metrics of each part of a cross-fit held_out.csv   predictions of samples that were not trained on
"""

from __future__ import annotations

import json
import math
import os
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from softmatch.errors import InputError
from softmatch.files.atomic import LEFTOVER, write_atomically
from softmatch.files.locks import held
from softmatch.files.untrusted import parse_json, read_text

DIGITS = 6
LOCK = ".lock"
LONGEST_WAIT = 15.0
"""Seconds for a lock: processes that read images for one that was killed hold it until they notice, which takes 5."""


class RunFolder:
    """Paths and files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """Make the folder. One that holds anything is refused: runs are never overwritten."""
        refuse_used(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"the run folder {path} cannot be made: {error.strerror or error}.") from error
        return cls(path)

    @classmethod
    def create_new(cls, root: Path, name: str) -> RunFolder:
        """root/name, or root/name-2, -3, … where that exists."""
        number = 1
        while True:
            path = root / (name if number == 1 else f"{name}-{number}")
            try:
                root.mkdir(parents=True, exist_ok=True)
                path.mkdir()  # which one process alone can do
                return cls(path)
            except FileExistsError:
                number += 1
            except OSError as error:
                raise InputError(f"the run folder {path} cannot be made: {error.strerror or error}.") from error

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def outcome(self) -> Path:
        """What later parts of a run need of a network that is trained."""
        return self.path / "outcome.safetensors"

    def drop_checkpoints(self) -> None:
        """Of a network that is trained and not kept."""
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def locked(self) -> AbstractContextManager[None]:
        """Lock held by the process that trains in this folder; the system releases it however that process ends."""
        return held(self.path / LOCK, LONGEST_WAIT, f"{self.path} is being trained by another process.")

    def remove_leftovers(self) -> None:
        """What was being written when an earlier process was killed. Only while the folder is locked."""
        for path in self.path.rglob(".*"):
            if LEFTOVER.fullmatch(path.name):
                path.unlink(missing_ok=True)

    def finish(self) -> None:
        """All figures are written: what was kept to go on from is not needed any more."""
        for path in self.path.rglob(self.outcome.name):
            path.unlink()

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    def twin(self) -> RunFolder:
        """The folder of the supervised twin."""
        return RunFolder(self.path / "twin")

    def fold(self, number: int) -> RunFolder:
        """The folder of a part of a cross-fit."""
        return RunFolder(self.path / "folds" / str(number))

    def append_record(self, record: dict[str, Any]) -> bytes:
        """One line of metrics.jsonl, without the seconds: the rest is the same whenever the run is repeated. Gives the line."""
        kept = {key: value for key, value in record.items() if key != "seconds"}
        line = (json.dumps(_plain(kept, DIGITS), ensure_ascii=False) + "\n").encode()
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "metrics.jsonl").open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        return line

    def put_records(self, lines: bytes) -> None:
        """Let metrics.jsonl be these lines: those after a checkpoint are made again, and what was lost or torn is mended."""
        path = self.path / "metrics.jsonl"
        if lines != (path.read_bytes() if path.is_file() else b""):
            self.path.mkdir(parents=True, exist_ok=True)
            write_atomically(path, lines)

    def records(self) -> list[dict[str, Any]]:
        """Records of metrics.jsonl in the order of their steps; of a step that stands twice, the later one.

        A line that is not a record is left out: it is what an interruption in the middle of writing leaves behind.
        """
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        found: dict[int, dict[str, Any]] = {}
        for line in read_text(path, errors="replace").split("\n"):
            if (record := read_record(line)) is not None:
                found[record["step"]] = record
        return [found[step] for step in sorted(found)]

    def write_json(self, name: str, value: Any) -> None:
        text = json.dumps(_plain(value), ensure_ascii=False, indent=1) + "\n"
        write_atomically(self.path / name, text.encode())

    def read_json(self, name: str) -> Any:
        """The content of a JSON file of the run, or None where it has none."""
        path = self.path / name
        if not path.exists():
            return None
        return parse_json(read_text(path), path)


def refuse_used(path: Path) -> None:
    """Raise InputError for a place of a run folder where something is already; what a killed process has left is nothing."""
    if path.exists() and not (path.is_dir() and all(_is_left_behind(each.name) for each in path.iterdir())):
        raise InputError(f"{path} exists already and is never overwritten: choose another --out.")


def _is_left_behind(name: str) -> bool:
    return name == LOCK or LEFTOVER.fullmatch(name) is not None


def read_record(line: str) -> dict[str, Any] | None:
    """The record of a line of metrics.jsonl; None for a line that holds none."""
    try:
        found = parse_json(line, "a record")
    except InputError:
        return None
    return found if isinstance(found, dict) and type(found.get("step")) is int and found["step"] >= 0 else None


def _plain(value: Any, digits: int | None = None) -> Any:
    """NaN and infinity are not JSON: they become null. Floats keep `digits` significant digits, if given."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return value if digits is None else float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {key: _plain(item, digits) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, digits) for item in value]
    return value
