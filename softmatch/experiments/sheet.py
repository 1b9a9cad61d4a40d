"""A sheet: rows × columns × seeds of runs, as data. A comparison is one sheet, and so is each table of the paper.

A row is what is compared (a method, its options), a column is where (a source, its labels), both as settings of
`softmatch.config.Config` that differ from the defaults. Two cells with the same settings are the same run, also of two sheets.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from softmatch.config import Config, former_names, merge
from softmatch.errors import InputError
from softmatch.experiments.contents import code_of

Settings = Mapping[str, Any]

ELSEWHERE = ("data", "device", "threads", "checkpoint_every", "out")
"""Settings that say where and how a run is computed, not what: they do not make it another run. Data are told by `made_of`."""
KEY = 10
"""Digits of a run's key."""


@dataclass(frozen=True)
class Run:
    """One training: a source, and settings that differ from its defaults.

    Attributes:
        made_of: what the files hold that the source is read from, in a word; empty for data that are always the same.
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
        """Runs with the same key are the same run: source, data, settings and files of code are."""
        known = former_names(self.settings)  # as runs that exist already were named
        decisive = {key: value for key, value in known.items() if key not in ELSEWHERE and value not in (None, {})}
        if "workers" in decisive:  # whether processes make the views decides about them; how many does not
            decisive["workers"] = bool(decisive["workers"])
        also = [part for part in (self.made_of, code_of(decisive)) if part]
        text = json.dumps([self.source, decisive, *also], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:KEY]

    @property
    def name(self) -> str:
        """For folders and messages; the key makes it unique."""
        labels = self.settings.get("labels")
        parts = [Path(self.source).stem, self.method.rpartition(":")[2], *([f"{labels}-labels"] if labels else [])]
        readable = "-".join(re.sub(r"[^\w.+-]+", "-", part).strip("-.") for part in parts)
        return f"{readable}-seed-{self.seed}-{self.key}"


@dataclass(frozen=True)
class Row:
    """What is compared.

    Attributes:
        name: in tables; unique in a sheet.
        settings: that make the difference, a method say.
    """

    name: str
    settings: Settings


@dataclass(frozen=True)
class Column:
    """Where it is compared.

    Attributes:
        name: in tables, below the group; unique within it.
        group: heading over neighbouring columns: a data set.
        source: as of `softmatch train`.
        settings: labels, network, batches, steps.
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
        name: of its folder: letters, digits and dashes.
        title: over its table.
        common: settings of all runs; those of a column win over them, and those of a row over these.
        without: titles of rows and of columns, whose cells are left empty.
    """

    name: str
    title: str
    rows: Sequence[Row]
    columns: Sequence[Column]
    seeds: Sequence[int]
    common: Settings = field(default_factory=dict)
    without: frozenset[tuple[str, str]] = frozenset()

    def __post_init__(self) -> None:
        for what, names in (("row", [row.name for row in self.rows]), ("column", [column.title for column in self.columns])):
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise InputError(f"the {what} {min(twice)!r} stands twice in {self.name}: give each another name.")

    def run(self, row: Row, column: Column, seed: int) -> Run:
        """The run of a cell."""
        settings = merge(self.common, column.settings, row.settings, {"seed": seed}, where=self.name)
        return Run(column.source, settings, column.made_of)

    def cells(self) -> Iterator[tuple[Row, Column]]:
        for row in self.rows:
            for column in self.columns:
                if (row.name, column.title) not in self.without:
                    yield row, column

    def runs(self) -> list[Run]:
        """All runs, seed by seed: an unfinished sheet has all of its cells. What two cells share is there once."""
        found = {run.key: run for seed in self.seeds for row, column in self.cells() if (run := self.run(row, column, seed))}
        return list(found.values())
