"""Finished runs of a sheet, by cell and seed, and their measures: the input of tables, tests, pages and figures."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from statistics import fmean, pstdev, stdev
from typing import Any, Literal

from softmatch.errors import InputError, nearest
from softmatch.experiments.sheet import Column, Row, Run, Sheet
from softmatch.experiments.store import Store
from softmatch.experiments.sweep import Outcome
from softmatch.report.run_contents import Record, number
from softmatch.runs.folder import RunFolder


def numbers(record: Any, *keys: str) -> list[float | None]:
    """The list at a path of keys, None for each item that is not a number; empty where there is no list."""
    for key in keys:
        record = record.get(key) if isinstance(record, dict) else None
    return [number(item) for item in record] if isinstance(record, list) else []


def known(values: Iterable[float | None]) -> list[float]:
    """The values that are not missing."""
    return [value for value in values if value is not None]


State = Literal["finished", "unmeasured", "unreadable", "failed", "unfinished", "missing"]
"""unmeasured: finished without the figure asked for; unreadable: its result is damaged; missing: not started."""


@dataclass(frozen=True)
class Entry:
    """One seed of a cell. Files other than result.json are read when they are needed."""

    run: Run
    folder: Path
    log: Path
    state: State = "missing"
    result: Mapping[str, Any] | None = None  # result.json; None unless the run is finished
    value: float | None = None  # of the measure; None unless `state` is "finished"
    attempts: int = 0
    message: str = ""  # why there is no value, where that is known

    def figure(self, name: str) -> float | None:
        """A number of result.json."""
        return number((self.result or {}).get(name))

    @cached_property
    def records(self) -> list[Record]:
        return RunFolder(self.folder).records()

    @property
    def class_errors(self) -> dict[str, float | None]:
        found = (self.result or {}).get("class_errors")
        return {str(name): number(error) for name, error in found.items()} if isinstance(found, dict) else {}


Get = Callable[[Entry], float | None]
Summary = Callable[[list[float]], float]


@dataclass(frozen=True)
class Measure:
    """A figure of a run; `get` returns None for a run that does not have it."""

    title: str
    unit: Literal["%", "s"]  # a share is shown in per cent
    better: Literal["lower", "higher"]
    get: Get

    @property
    def factor(self) -> float:
        """From the figure to its unit."""
        return 100.0 if self.unit == "%" else 1.0

    def shown(self, value: float | None, sign: str = "") -> str:
        """A value in its unit, an error of 0.0491 as '4.91', or with `sign` "+" as '+4.91'; a dash where there is none."""
        digits = 2 if self.unit == "%" else 1
        return "–" if value is None else f"{value * self.factor:{sign}.{digits}f}".replace("-", "\N{MINUS SIGN}")


def _over(summary: Summary, values: Iterable[float | None]) -> float | None:
    """Summary of the values that are known; None where none is."""
    return summary(found) if (found := known(values)) else None


def _final(key: str) -> Get:
    return lambda run: run.figure(key)


def _recorded(key: str, summary: Summary) -> Get:
    """Summary of a figure over the records that have it."""
    return lambda run: _over(summary, [number(record.get(key)) for record in run.records])


def _class_quality(choose: Summary) -> Get:
    """Mean over the records of the quality of a class, which is chosen in each record anew."""
    return lambda run: _over(fmean, [_over(choose, numbers(record, "classes", "quality")) for record in run.records])


def _spread(key: str) -> Get:
    """Standard deviation over the classes of their average weight at the first record."""

    def get(run: Entry) -> float | None:
        found = known(numbers(run.records[0], "classes", key)) if run.records else []
        return pstdev(found) if len(found) > 1 else None

    return get


MEASURES: Mapping[str, Measure] = {
    "error": Measure("error", "%", "lower", _final("test_error")),
    "quantity": Measure("quantity f of the pseudo-labels", "%", "higher", _final("quantity")),
    "quality": Measure("quality g of the pseudo-labels", "%", "higher", _final("quality")),
    "mean quantity": Measure("quantity f, mean over the records", "%", "higher", _recorded("quantity", fmean)),
    "mean quality": Measure("quality g, mean over the records", "%", "higher", _recorded("quality", fmean)),
    "best class quality": Measure("quality g of the best class, mean over the records", "%", "higher", _class_quality(max)),
    "worst class quality": Measure("quality g of the worst class, mean over the records", "%", "higher", _class_quality(min)),
    "seconds": Measure("training time", "s", "lower", _final("seconds")),
    # chosen by the test set: lower than an error that could be had without it
    "best error": Measure("lowest error at a record", "%", "lower", _recorded("test_error", min)),
    "early error": Measure("error at the first record", "%", "lower", _recorded("test_error", itemgetter(0))),
    "early quantity": Measure("quantity f at the first record", "%", "higher", _recorded("quantity", itemgetter(0))),
    "early quality": Measure("quality g at the first record", "%", "higher", _recorded("quality", itemgetter(0))),
    "spread of weights": Measure("spread of the classes' weights at the first record", "%", "lower", _spread("quantity")),
    "spread without alignment": Measure(
        "spread of the classes' weights at the first record, without alignment", "%", "lower", _spread("unaligned_quantity")
    ),
    "worst class": Measure("error of the worst class", "%", "lower", lambda run: _over(max, run.class_errors.values())),
    "mean of classes": Measure("mean error of the classes", "%", "lower", lambda run: _over(fmean, run.class_errors.values())),
}
"""By the names that claims and commands use."""


def measure_named(name: str) -> Measure:
    """One of MEASURES."""
    if name not in MEASURES:
        raise InputError(f"there is no measure {name!r}. {nearest(name, MEASURES)}")
    return MEASURES[name]


@dataclass(frozen=True)
class Cell:
    """A row in a column: one entry for each seed of the sheet, in its order."""

    row: Row
    column: Column
    entries: tuple[Entry, ...]

    @cached_property
    def values(self) -> dict[int, float]:
        """Values by seed, in the order of the sheet's seeds."""
        return {entry.run.seed: entry.value for entry in self.entries if entry.value is not None}

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def missing(self) -> list[int]:
        """Seeds without a value, whatever the reason."""
        return [entry.run.seed for entry in self.entries if entry.value is None]

    @property
    def mean(self) -> float | None:
        return fmean(self.values.values()) if self.n else None

    @property
    def sd(self) -> float | None:
        """Standard deviation of the sample (n − 1); None for fewer than two values."""
        return stdev(self.values.values()) if self.n > 1 else None

    @property
    def runs(self) -> list[Entry]:
        """The entries whose runs are finished."""
        return [entry for entry in self.entries if entry.result is not None]


@dataclass(frozen=True)
class Results:
    """All cells of a sheet for one measure, by row and column."""

    sheet: Sheet
    measure: Measure
    cells: Mapping[tuple[str, str], Cell] = field(repr=False)

    def column(self, title: str) -> list[Cell]:
        """Cells of a column, in the order of the rows."""
        return [cell for (_, column), cell in self.cells.items() if column == title]

    def entries(self) -> Iterator[tuple[Cell, Entry]]:
        """One for each seed of each cell, even if two cells share a run."""
        return ((cell, entry) for cell in self.cells.values() for entry in cell.entries)

    @cached_property
    def progress(self) -> tuple[int, int]:
        """Number of finished runs and of all runs; cells that share a run count it once."""
        by_key = {entry.run.key: entry for _, entry in self.entries()}
        return sum(entry.result is not None for entry in by_key.values()), len(by_key)


def collect(sheet: Sheet, store: Store, measure: str = "error", *, outcomes: Sequence[Outcome] = ()) -> Results:
    """Collect the runs of a sheet for one of MEASURES; the outcomes of a sweep say why a run is missing."""
    found, by_key = measure_named(measure), {outcome.run.key: outcome for outcome in outcomes}
    entries = {run.key: _entry(run, store, found, by_key.get(run.key)) for run in sheet.runs()}
    cells = {}
    for row, column in sheet.cells():
        own = tuple(entries[sheet.run(row, column, seed).key] for seed in sheet.seeds)
        cells[row.name, column.title] = Cell(row, column, own)
    return Results(sheet, found, cells)


def _entry(run: Run, store: Store, measure: Measure, outcome: Outcome | None) -> Entry:
    entry = Entry(run, store.folder(run), store.log(run))
    try:
        entry = replace(entry, result=store.result(run))
    except InputError as error:
        return replace(entry, state="unreadable", message=str(error))
    if entry.result is not None:
        value = measure.get(entry)
        return replace(entry, state="unmeasured" if value is None else "finished", value=value)
    if outcome is not None and outcome.state != "done":
        return replace(entry, state="failed", attempts=outcome.attempts, message=outcome.message)
    return replace(entry, state="unfinished") if entry.folder.is_dir() else entry
