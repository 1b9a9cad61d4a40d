"""The run folder, the one contract between commands: a command that reads a run needs this folder and nothing else.

config.yaml     every effective setting            split.json      positions of labelled, unlabelled and test samples
metrics.jsonl   one record per evaluation          checkpoints/    full training state, newest two and best
model/          weights, classes, preparation      result.json     the final figures, as fractions
report.html     the report, self-contained         twin/           metrics and model of the baseline
boundary.json   points and decision regions, for two-dimensional data
folds/          metrics of each part of a cross-fit held_out.csv   predictions of held-out samples
trackers/       ids of the run in trackers          tensorboard/    event files, with --track tensorboard
"""

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
"""Seconds to wait for a lock: the image readers of a killed process hold it until they notice, which takes 5."""


class RunFolder:
    """Paths and files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> "RunFolder":
        """Create the folder. Raises InputError for one with content: runs are never overwritten."""
        refuse_used(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _no_folder(path, error) from error
        return cls(path)

    @classmethod
    def create_new(cls, root: Path, name: str) -> "RunFolder":
        """Create root/name, or root/name-2, -3, … where that exists."""
        number = 1
        while True:
            path = root / (name if number == 1 else f"{name}-{number}")
            try:
                root.mkdir(parents=True, exist_ok=True)
                path.mkdir()  # succeeds in one process only
                return cls(path)
            except FileExistsError:
                number += 1
            except OSError as error:
                raise _no_folder(path, error) from error

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def outcome(self) -> Path:
        """File with the results of a trained network that later parts of the run need."""
        return self.path / "outcome.safetensors"

    def drop_checkpoints(self) -> None:
        """Delete the checkpoints of a network that is trained and not kept."""
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def locked(self) -> AbstractContextManager[None]:
        """Lock the folder for the process that trains in it; the system releases it however that process ends."""
        return held(self.path / LOCK, LONGEST_WAIT, f"{self.path} is being trained by another process.")

    def remove_leftovers(self) -> None:
        """Delete temporary files of a killed process. The folder must be locked."""
        for path in self.path.rglob(".*"):
            if LEFTOVER.fullmatch(path.name):
                path.unlink(missing_ok=True)

    def finish(self) -> None:
        """Delete the files that were kept to resume from; all figures are written."""
        for path in self.path.rglob(self.outcome.name):
            path.unlink()

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    def baseline(self) -> "RunFolder":
        """Folder of the baseline."""
        return RunFolder(self.path / "twin")

    def fold(self, number: int) -> "RunFolder":
        """Folder of one part of a cross-fit."""
        return RunFolder(self.path / "folds" / str(number))

    def append_record(self, record: dict[str, Any]) -> bytes:
        """Append a record to metrics.jsonl and return its line. The seconds are left out, so that repeated runs are equal."""
        kept = {key: value for key, value in record.items() if key != "seconds"}
        line = (json.dumps(_plain(kept, DIGITS), ensure_ascii=False) + "\n").encode()
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "metrics.jsonl").open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        return line

    def put_records(self, lines: bytes) -> None:
        """Replace the lines of metrics.jsonl: those after a checkpoint are written again, lost or torn ones are restored."""
        path = self.path / "metrics.jsonl"
        if lines != (path.read_bytes() if path.is_file() else b""):
            self.path.mkdir(parents=True, exist_ok=True)
            write_atomically(path, lines)

    def records(self) -> list[dict[str, Any]]:
        """Records of metrics.jsonl, sorted by step; of two with the same step, the later one.

        A line that is not a record is left out: an interrupted write leaves such a line.
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
        """Read a JSON file of the run; None where it does not exist."""
        path = self.path / name
        return parse_json(read_text(path), path) if path.exists() else None


def is_finished(folder: Path) -> bool:
    """True if a run has its figures and its report."""
    return (folder / "result.json").is_file() and (folder / "report.html").is_file()


def refuse_used(path: Path) -> None:
    """Raise InputError for a new run folder that has content; temporary files of a killed process do not count."""
    if not path.exists():
        return
    if not path.is_dir() or any(each.name != LOCK and not LEFTOVER.fullmatch(each.name) for each in path.iterdir()):
        raise InputError(f"{path} already exists and is never overwritten. Choose another --out.")


def _no_folder(path: Path, error: OSError) -> InputError:
    return InputError(f"the run folder {path} cannot be created: {error.strerror or error}.")


def read_record(line: str) -> dict[str, Any] | None:
    """Parse a line of metrics.jsonl; None for a line without a record."""
    try:
        found = parse_json(line, "a record")
    except InputError:
        return None
    return found if isinstance(found, dict) and type(found.get("step")) is int and found["step"] >= 0 else None


def _plain(value: Any, digits: int | None = None) -> Any:
    """Replace NaN and infinity, which are not JSON, by None; round floats to `digits` significant digits, if given."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return value if digits is None else float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {key: _plain(item, digits) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, digits) for item in value]
    return value
