"""What figures are drawn from: the finished runs of a column, and figures over steps with their mean and spread over seeds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmatch.experiments.sheet import Column, Row, Sheet
from softmatch.experiments.store import Store
from softmatch.report.run_contents import Contents, Record, number, read
from softmatch.runs.folder import RunFolder

Values = NDArray[np.float64]
Runs = Mapping[str, Sequence[Contents]]
"""Finished runs by the name of their row, in the order of their seeds."""


def finished_runs(sheet: Sheet, store: Store, column: Column) -> dict[str, list[Contents]]:
    """What the finished runs of a column hold, by row; a row without any is left out."""
    found = {
        row.name: [
            read(RunFolder(store.folder(run)))
            for run in (sheet.run(row, column, seed) for seed in sheet.seeds)
            if store.is_finished(run)
        ]
        for row, place in sheet.cells()
        if place is column
    }
    return {name: runs for name, runs in found.items() if runs}


def is_softmatch(sheet: Sheet, row: Row) -> bool:
    """Whether a row is SoftMatch with all of its defaults, whatever its name."""
    return sheet.run(row, sheet.columns[0], 0).method == "softmatch" and set(row.settings) <= {"method"}


def place(column: Column, between: str = ", ") -> str:
    """A column in words: one that is a mere number counts labels."""
    name = f"{column.name} labels" if re.fullmatch(r"[\d,]+", column.name) else column.name
    return f"{column.group}{between}{name}" if column.group else name


def spread(values: Values) -> tuple[Values, Values]:
    """Mean and standard deviation (n − 1) over the first axis, of what is known.

    Both are NaN where nothing is; the deviation of a single value is 0.
    """
    known = ~np.isnan(values)
    count, filled = known.sum(0), np.where(known, values, 0.0)
    with np.errstate(invalid="ignore"):
        mean = np.where(count > 0, filled.sum(0) / np.maximum(count, 1), np.nan)
        squares = np.where(known, values - mean, 0.0) ** 2
    return mean, np.where(count > 0, np.sqrt(squares.sum(0) / np.maximum(count - 1, 1)), np.nan)


@dataclass(frozen=True)
class Series:
    """A figure over training.

    Attributes:
        steps: (T,), ascending.
        values: (seeds, T), fractions; NaN where there is none.
    """

    steps: NDArray[np.int64]
    values: Values

    @property
    def n(self) -> int:
        return len(self.values)

    @cached_property
    def mean(self) -> Values:
        return spread(self.values)[0]

    @cached_property
    def sd(self) -> Values:
        return spread(self.values)[1]


def over_steps(runs: Sequence[Contents], get: Callable[[Record], Any]) -> Series:
    """A figure of every record, at every step that a run has."""
    steps = sorted({record["step"] for run in runs for record in run.records})
    values = np.full((len(runs), len(steps)), np.nan)
    for line, run in zip(values, runs, strict=True):
        for record in run.records:
            if (value := number(get(record))) is not None:
                line[steps.index(record["step"])] = value
    return Series(np.array(steps, dtype=np.int64), values)


def common_steps(runs: Runs) -> list[int]:
    """Steps at which all runs have a record."""
    each = [{record["step"] for record in run.records} for several in runs.values() for run in several]
    return sorted(set.intersection(*each)) if each else []


def at_step(runs: Sequence[Contents], step: int) -> list[Record]:
    """The records of a step, of the runs that have one."""
    return [record for run in runs for record in run.records if record["step"] == step]


def class_figures(record: Record, name: str) -> list[float | None]:
    """A figure of each class; empty where the record has none."""
    found: list[float | None] | None = (record.get("classes") or {}).get(name)
    return found or []
