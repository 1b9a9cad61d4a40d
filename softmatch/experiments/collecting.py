"""A sheet's finished runs, cell by cell and seed by seed: what tables, tests and pages are made of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from softmatch.errors import InputError
from softmatch.experiments.measures import Files, Measure, measure_named
from softmatch.experiments.sheet import Column, Row, Run, Sheet
from softmatch.experiments.store import Store
from softmatch.report.run_contents import number

State = Literal["finished", "unmeasured", "unreadable", "failed", "unfinished", "missing"]
"""finished: with the figure that is asked for; unmeasured: finished without it; unreadable: its result is damaged;
failed: it was tried and did not finish; unfinished: it was begun; missing: it was not."""


class Attempt(Protocol):
    """How a run ended in a sweep: `softmatch.experiments.sweep.Outcome`."""

    @property
    def run(self) -> Run: ...
    @property
    def state(self) -> str: ...
    @property
    def attempts(self) -> int: ...
    @property
    def message(self) -> str: ...


@dataclass(frozen=True)
class Entry:
    """A seed of a cell.

    Attributes:
        value: of the measure; None unless `state` is "finished".
        files: None unless the run is finished.
        message: why there is nothing, where that is known.
    """

    seed: int
    run: Run
    folder: Path
    log: Path
    state: State
    value: float | None = None
    files: Files | None = None
    attempts: int = 0
    message: str = ""

    def figure(self, name: str) -> float | None:
        """A number of result.json."""
        return None if self.files is None else number(self.files.result.get(name))

    @property
    def seconds(self) -> float | None:
        return self.figure("seconds")


@dataclass(frozen=True)
class Cell:
    """A row in a column: one entry for each seed of the sheet, in its order."""

    row: Row
    column: Column
    entries: tuple[Entry, ...]

    @cached_property
    def values(self) -> dict[int, float]:
        """By seed, in the order of the sheet's seeds."""
        return {entry.seed: entry.value for entry in self.entries if entry.value is not None}

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def complete(self) -> bool:
        """Every seed has its value."""
        return bool(self.entries) and self.n == len(self.entries)

    @property
    def missing(self) -> list[int]:
        """Seeds without a value, whatever the reason."""
        return [entry.seed for entry in self.entries if entry.value is None]

    @property
    def failed(self) -> list[int]:
        """Seeds that were tried in vain, or whose result cannot be read."""
        return [entry.seed for entry in self.entries if entry.state in ("failed", "unreadable")]

    @property
    def mean(self) -> float | None:
        return math.fsum(self.values.values()) / self.n if self.n else None

    @property
    def sd(self) -> float | None:
        """Standard deviation of the sample, by n − 1; None for fewer than two values."""
        if self.n < 2 or self.mean is None:
            return None
        return math.sqrt(math.fsum((value - self.mean) ** 2 for value in self.values.values()) / (self.n - 1))

    @property
    def low(self) -> float | None:
        return min(self.values.values(), default=None)

    @property
    def high(self) -> float | None:
        return max(self.values.values(), default=None)


@dataclass(frozen=True)
class Results:
    """All cells of a sheet for one measure."""

    sheet: Sheet
    measure: Measure
    cells: Mapping[tuple[str, str], Cell] = field(repr=False)

    def cell(self, row: str, column: str) -> Cell | None:
        """By the name of a row and the title of a column; None where the sheet leaves it out."""
        return self.cells.get((row, column))

    def column(self, title: str) -> list[Cell]:
        """The cells of a column, in the order of the rows."""
        return [cell for (_, column), cell in self.cells.items() if column == title]

    def entries(self) -> Iterator[tuple[Cell, Entry]]:
        """One for each seed of each cell, also where two cells share a run."""
        for cell in self.cells.values():
            for entry in cell.entries:
                yield cell, entry

    @cached_property
    def progress(self) -> tuple[int, int]:
        """Finished runs, and all; what two cells share is one run."""
        by_key = {entry.run.key: entry for _, entry in self.entries()}
        return sum(entry.files is not None for entry in by_key.values()), len(by_key)

    @property
    def failures(self) -> list[tuple[Cell, Entry]]:
        return [(cell, entry) for cell, entry in self.entries() if entry.state in ("failed", "unreadable")]


def collect(sheet: Sheet, store: Store, measure: str = "error", *, outcomes: Sequence[Attempt] = ()) -> Results:
    """What a sheet's runs have come to.

    Args:
        measure: a key of `softmatch.experiments.measures.MEASURES`.
        outcomes: of the sweep that ran them, which say why a run is not there.
    """
    found, attempts = measure_named(measure), {outcome.run.key: outcome for outcome in outcomes}
    known: dict[str, Entry] = {}
    cells = {}
    for row, column in sheet.cells():
        entries = []
        for seed in sheet.seeds:
            run = sheet.run(row, column, seed)
            if run.key not in known:
                known[run.key] = _entry(run, seed, store, found, attempts.get(run.key))
            entries.append(known[run.key])
        cells[row.name, column.title] = Cell(row, column, tuple(entries))
    return Results(sheet, found, cells)


def read_result(run: Run, store: Store) -> dict[str, Any] | None:
    """result.json of a run; None where it is not finished.

    Raises:
        InputError: it is damaged, with what to do.
    """
    try:
        return store.result(run)
    except InputError as error:
        raise InputError(
            f"{error} Its result is lost: remove {store.folder(run)}, and the same command runs it again."
        ) from error


def _entry(run: Run, seed: int, store: Store, measure: Measure, attempt: Attempt | None) -> Entry:
    folder = store.folder(run)
    where = (seed, run, folder, store.log(run))
    try:
        result = read_result(run, store)
    except InputError as error:
        return Entry(*where, "unreadable", message=str(error))
    if result is not None:
        files = Files(folder, result)
        value = measure.get(files)
        return Entry(*where, "unmeasured" if value is None else "finished", value, files)
    if attempt is not None and attempt.state != "done":
        return Entry(*where, "failed", attempts=attempt.attempts, message=attempt.message)
    return Entry(*where, "unfinished" if folder.is_dir() else "missing")
