"""The store: a folder of runs by name that several sheets share. A run that is finished there is never trained again.

runs/NAME.yaml     source and settings of a run: softmatch train -c runs/NAME.yaml trains it again
runs/NAME/         its run folder
runs/NAME.log      output of its attempts
NAME-OF-A-SHEET/   tables, figures and the page of a sheet
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock

from softmatch.errors import InputError
from softmatch.experiments.sheet import Run
from softmatch.files.atomic import write_atomically
from softmatch.files.locks import is_locked, try_lock
from softmatch.files.untrusted import parse_json, read_text
from softmatch.runs.folder import LOCK, is_finished


class Store:
    """Paths and files of runs."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    def folder(self, run: Run) -> Path:
        return self.runs / run.name

    def settings_file(self, run: Run) -> Path:
        return self.runs / f"{run.name}.yaml"

    def log(self, run: Run) -> Path:
        return self.runs / f"{run.name}.log"

    def results(self, sheet: str) -> Path:
        """The folder of a sheet's tables, figures and page."""
        return self.root / sheet

    def is_finished(self, run: Run) -> bool:
        """True if a run has its figures and its report."""
        return is_finished(self.folder(run))

    def is_locked(self, run: Run) -> bool:
        """True while a process trains a run."""
        return is_locked(self.folder(run) / LOCK)

    def claim(self, run: Run) -> FileLock | None:
        """Lock the log of a run until it is released; None while another process has claimed or trains the run."""
        lock = try_lock(self.log(run))
        if lock is None or not self.is_locked(run):
            return lock
        lock.release()
        return None

    def result(self, run: Run) -> dict[str, Any] | None:
        """result.json of a run; None if it is not finished."""
        if not self.is_finished(run):
            return None
        path = self.folder(run) / "result.json"
        try:
            found = parse_json(read_text(path), path)
            if not isinstance(found, dict):
                raise InputError(f"{path} must hold a JSON object.")
        except InputError as error:
            raise InputError(f"{error} Its result is lost: remove {path.parent}, and the same command runs it again.") from error
        return found

    def prepare(self, run: Run) -> None:
        """Write the settings file."""
        self.runs.mkdir(parents=True, exist_ok=True)
        written = {"source": run.source, **{key: _plain(value) for key, value in run.settings.items() if key != "out"}}
        content = yaml.safe_dump(written, sort_keys=False, allow_unicode=True).encode()
        path = self.settings_file(run)
        if not path.is_file() or path.read_bytes() != content:
            write_atomically(path, content)

    def arguments(self, run: Run, also: Sequence[str] = ()) -> list[str]:
        """Command line of `softmatch` that trains or resumes a run; `also` are options that do not change its result."""
        return ["train", "-c", str(self.settings_file(run)), "--out", str(self.folder(run)), "--resume", "auto", *also]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return str(value) if isinstance(value, Path) else value
