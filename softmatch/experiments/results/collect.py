"""Finished runs of a sheet, by cell and seed: the input of tables, tests, pages and figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

from softmatch.errors import InputError
from softmatch.experiments.results.measures import Measure, measure_named
from softmatch.experiments.results.run_files import RunFiles, number
from softmatch.experiments.sheet import Column, Row, Run, Sheet
from softmatch.experiments.store import Store
from softmatch.experiments.sweep import Outcome

State = Literal["finished", "unmeasured", "unreadable", "failed", "unfinished", "missing"]
"""unmeasured: finished without the figure asked for; unreadable: its result is damaged; missing: not started."""


@dataclass(frozen=True)
class Entry:
    """One seed of a cell."""

    seed: int
    run: Run
    folder: Path
    log: Path
    state: State
    value: float | None = None  # of the measure; None unless `state` is "finished"
    files: RunFiles | None = None  # None unless the run is finished
    attempts: int = 0
    message: str = ""  # why there is no value, where that is known

    def figure(self, name: str) -> float | None:
        """A number of result.json."""
        return None if self.files is None else number(self.files.result.get(name))


@dataclass(frozen=True)
class Cell:
    """A row in a column: one entry for each seed of the sheet, in its order."""

    row: Row
    column: Column
    entries: tuple[Entry, ...]

    @cached_property
    def values(self) -> dict[int, float]:
        """Values by seed, in the order of the sheet's seeds."""
        return {entry.seed: entry.value for entry in self.entries if entry.value is not None}

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def missing(self) -> list[int]:
        """Seeds without a value, whatever the reason."""
        return [entry.seed for entry in self.entries if entry.value is None]

    @property
    def mean(self) -> float | None:
        return fmean(self.values.values()) if self.n else None

    @property
    def sd(self) -> float | None:
        """Standard deviation of the sample (n − 1); None for fewer than two values."""
        return stdev(self.values.values()) if self.n > 1 else None

    @property
    def runs(self) -> list[RunFiles]:
        """Files of the finished runs."""
        return [entry.files for entry in self.entries if entry.files is not None]


@dataclass(frozen=True)
class Results:
    """All cells of a sheet for one measure, by row and column."""

    sheet: Sheet
    measure: Measure
    cells: Mapping[tuple[str, str], Cell] = field(repr=False)

    def cell(self, row: str, column: str) -> Cell | None:
        """The cell of a row's name and a column's title; None where the sheet leaves it out."""
        return self.cells.get((row, column))

    def column(self, title: str) -> list[Cell]:
        """Cells of a column, in the order of the rows."""
        return [cell for (_, column), cell in self.cells.items() if column == title]

    def entries(self) -> Iterator[tuple[Cell, Entry]]:
        """One for each seed of each cell, even if two cells share a run."""
        for cell in self.cells.values():
            for entry in cell.entries:
                yield cell, entry

    @cached_property
    def progress(self) -> tuple[int, int]:
        """Number of finished runs and of all runs; cells that share a run count it once."""
        by_key = {entry.run.key: entry for _, entry in self.entries()}
        return sum(entry.files is not None for entry in by_key.values()), len(by_key)


def collect(sheet: Sheet, store: Store, measure: str = "error", *, outcomes: Sequence[Outcome] = ()) -> Results:
    """Collect the runs of a sheet for one of MEASURES; the outcomes of a sweep say why a run is missing."""
    found, by_key = measure_named(measure), {outcome.run.key: outcome for outcome in outcomes}
    entries = {run.key: _entry(run, store, found, by_key.get(run.key)) for run in sheet.runs()}
    cells = {}
    for row, column in sheet.cells():
        own = tuple(entries[sheet.run(row, column, seed).key] for seed in sheet.seeds)
        cells[row.name, column.title] = Cell(row, column, own)
    return Results(sheet, found, cells)


def read_result(run: Run, store: Store) -> dict[str, Any] | None:
    """result.json of a run; None where it is not finished, InputError with what to do where it is damaged."""
    try:
        return store.result(run)
    except InputError as error:
        lost = f"Its result is lost: remove {store.folder(run)}, and the same command runs it again."
        raise InputError(f"{error} {lost}") from error


def _entry(run: Run, store: Store, measure: Measure, outcome: Outcome | None) -> Entry:
    folder = store.folder(run)
    where = (run.seed, run, folder, store.log(run))
    try:
        result = read_result(run, store)
    except InputError as error:
        return Entry(*where, "unreadable", message=str(error))
    if result is not None:
        files = RunFiles(folder, result)
        value = measure.get(files)
        return Entry(*where, "unmeasured" if value is None else "finished", value, files)
    if outcome is not None and outcome.state != "done":
        return Entry(*where, "failed", attempts=outcome.attempts, message=outcome.message)
    return Entry(*where, "unfinished" if folder.is_dir() else "missing")
