"""A sheet: rows × columns × seeds of runs, as data. A comparison is one sheet, and so is each table of the paper.

A row is what is compared (a method, its options), a column is where (a source, its labels), both as settings of
`softmatch.config.Config` that differ from the defaults. Two cells with the same settings are the same run, also of two sheets.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from softmatch.config import Config, former_names, merge
from softmatch.errors import InputError

Settings = Mapping[str, Any]

ELSEWHERE = ("data", "device", "threads", "checkpoint_every", "out")
"""Settings that say where and how a run is computed; they do not change its key. `made_of` describes the data."""
KEY, DIGEST = 10, 16
"""Digits of a run's key, and of a digest of files."""
CODE = re.compile(r"(?:^|\+)([^+:]*\.py):")
"""file.py:name, also as the wrapper or the base of a method."""


@dataclass(frozen=True)
class Run:
    """One training: a source, and settings that differ from its defaults.

    Attributes:
        made_of: digest of the files of the source; empty for data that never change.
    """

    source: str
    settings: Settings
    made_of: str = ""

    @property
    def method(self) -> str:
        return str(self.settings.get("method", Config.model_fields["method"].default))

    @property
    def seed(self) -> int:
        return int(self.settings.get("seed", 0))

    @cached_property
    def key(self) -> str:
        """Identity of the run: two runs with the same source, data, settings and files of code have the same key."""
        known = former_names(self.settings)  # as the keys of existing runs were made
        decisive = {key: value for key, value in known.items() if key not in ELSEWHERE and value not in (None, {})}
        if "workers" in decisive:  # the views depend on whether processes make them, not on how many
            decisive["workers"] = bool(decisive["workers"])
        also = [part for part in (self.made_of, code_of(decisive)) if part]
        text = json.dumps([self.source, decisive, *also], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:KEY]

    @property
    def name(self) -> str:
        """Name for folders and messages; the key makes it unique."""
        labels = self.settings.get("labels")
        parts = [Path(self.source).stem, self.method.rpartition(":")[2], *([f"{labels}-labels"] if labels else [])]
        readable = "-".join(re.sub(r"[^\w.+-]+", "-", part).strip("-.") for part in parts)
        return f"{readable}-seed-{self.seed}-{self.key}"


@dataclass(frozen=True)
class Row:
    """One of the things that are compared."""

    name: str
    settings: Settings


@dataclass(frozen=True)
class Column:
    """A setting in which rows are compared.

    Attributes:
        group: heading over neighbouring columns, for example a dataset.
        source: source as in `softmatch train`.
        made_of: see `Run`.
    """

    name: str
    source: str
    settings: Settings
    group: str = ""
    made_of: str = ""

    @property
    def title(self) -> str:
        return f"{self.group}, {self.name}" if self.group else self.name


@dataclass(frozen=True)
class Sheet:
    """rows × columns × seeds.

    Attributes:
        common: settings of all runs; a column overrides them, and a row overrides both.
    """

    name: str
    title: str
    rows: Sequence[Row]
    columns: Sequence[Column]
    seeds: Sequence[int]
    common: Settings = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, names in (("row", [row.name for row in self.rows]), ("column", [column.title for column in self.columns])):
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise InputError(f"the {what} {min(twice)!r} is in {self.name} twice: give each its own name.")

    def run(self, row: Row, column: Column, seed: int) -> Run:
        """The run of a cell."""
        settings = merge(self.common, column.settings, row.settings, {"seed": seed}, where=self.name)
        return Run(column.source, settings, column.made_of)

    def cells(self) -> Iterator[tuple[Row, Column]]:
        return product(self.rows, self.columns)

    def runs(self) -> list[Run]:
        """All runs, seed by seed, so that an unfinished sheet has all cells; a run that two cells share is in it once."""
        found = {run.key: run for seed in self.seeds for row, column in self.cells() if (run := self.run(row, column, seed))}
        return list(found.values())


def digest(path: Path) -> str:
    """Digest of a file's bytes; for a folder, of the names, sizes and times of its files, which are not read."""
    found = hashlib.sha256()
    if path.is_dir():
        for each in sorted(file for file in path.rglob("*") if file.is_file()):
            stat = each.stat()
            found.update(f"{each.relative_to(path).as_posix()}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    else:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256")
    return found.hexdigest()[:DIGEST]


def code_of(settings: Any) -> dict[str, str]:
    """Digests of the Python files that settings name, by these names."""
    if isinstance(settings, Mapping):
        settings = list(settings.values())
    if isinstance(settings, str):
        files = {name: Path(name).expanduser() for name in CODE.findall(settings)}
        return {name: digest(path) for name, path in files.items() if path.is_file()}
    if isinstance(settings, Sequence):
        return {name: found for each in settings for name, found in code_of(each).items()}
    return {}
