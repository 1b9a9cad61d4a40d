"""Where runs are kept: a folder of run folders by name, which several sheets share. What is finished there is never run again.

runs/NAME.yaml     source and settings of a run: softmatch train -c runs/NAME.yaml makes it again
runs/NAME/         its run folder
runs/NAME.log      what its last attempts printed
NAME-OF-A-SHEET/   tables, figures and the page of a sheet
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from softmatch.errors import InputError
from softmatch.experiments.sheet import Run
from softmatch.files.untrusted import parse_json, read_text
from softmatch.runs.folder import is_finished


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
        """Whether a run has its figures and its report."""
        return is_finished(self.folder(run))

    def result(self, run: Run) -> dict[str, Any] | None:
        """result.json of a finished run."""
        if not self.is_finished(run):
            return None
        path = self.folder(run) / "result.json"
        found = parse_json(read_text(path), path)
        if not isinstance(found, dict):
            raise InputError(f"{path} must hold a JSON object: remove its folder, and it is run again.")
        return found

    def prepare(self, run: Run) -> None:
        """Write the settings file."""
        self.runs.mkdir(parents=True, exist_ok=True)
        written = {"source": run.source, **{key: _plain(value) for key, value in run.settings.items() if key != "out"}}
        content = yaml.safe_dump(written, sort_keys=False, allow_unicode=True).encode()
        path = self.settings_file(run)
        if not path.is_file() or path.read_bytes() != content:
            from softmatch.files.atomic import write_atomically  # imports torch

            write_atomically(path, content)

    def arguments(self, run: Run, also: Sequence[str] = ()) -> list[str]:
        """What to give to `softmatch` to make a run, or to go on with it.

        Args:
            also: options that say where and how it is computed.
        """
        return ["train", "-c", str(self.settings_file(run)), "--out", str(self.folder(run)), "--resume", "auto", *also]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return str(value) if isinstance(value, Path) else value
