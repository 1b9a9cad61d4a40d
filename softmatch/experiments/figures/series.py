"""Figures of several runs over training: values by seed and step, their mean and spread."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from softmatch.experiments.results.collect import Cell
from softmatch.experiments.results.run_files import Record, RunFiles, number
from softmatch.experiments.sheet import Column

Values = NDArray[np.float64]
FEW = 12
"""Up to this many records, each is marked."""


def is_softmatch(cell: Cell) -> bool:
    """True if a row is SoftMatch with all of its defaults, whatever its name."""
    return cell.entries[0].run.method == "softmatch" and set(cell.row.settings) <= {"method"}


def place(column: Column, between: str = ", ") -> str:
    """A column in words; a name that is a number counts labels."""
    name = f"{column.name} labels" if re.fullmatch(r"[\d,]+", column.name) else column.name
    return f"{column.group}{between}{name}" if column.group else name


def spread(values: Values) -> tuple[Values, Values]:
    """Mean and standard deviation (n − 1) over the first axis, NaN left out; the deviation of a single value is 0."""
    known = ~np.isnan(values)
    count, filled = known.sum(0), np.where(known, values, 0.0)
    with np.errstate(invalid="ignore"):
        mean = np.where(count > 0, filled.sum(0) / np.maximum(count, 1), np.nan)
        squares = np.where(known, values - mean, 0.0) ** 2
    return mean, np.where(count > 0, np.sqrt(squares.sum(0) / np.maximum(count - 1, 1)), np.nan)


def over_steps(runs: Sequence[RunFiles], get: Callable[[Record], Any]) -> tuple[list[int], Values]:
    """A figure at every step that a run has recorded, (runs, steps); NaN where a run has none."""
    steps = sorted({record["step"] for run in runs for record in run.records})
    values = np.full((len(runs), len(steps)), np.nan)
    for line, run in zip(values, runs, strict=True):
        for record in run.records:
            if (value := number(get(record))) is not None:
                line[steps.index(record["step"])] = value
    return steps, values


def common_steps(cells: Sequence[Cell]) -> list[int]:
    """Steps at which all runs have a record."""
    each = [{record["step"] for record in run.records} for cell in cells for run in cell.runs]
    return sorted(set.intersection(*each)) if each else []


def draw_series(
    axes: Axes, runs: Sequence[RunFiles], get: Callable[[Record], Any], colour: str, label: str, *, dashed: bool = False
) -> None:
    """Draw the mean of a figure over seeds, in a band of one standard deviation to each side."""
    steps, values = over_steps(runs, get)
    mean, sd = spread(values)
    if len(runs) > 1:
        axes.fill_between(steps, mean - sd, mean + sd, color=colour, alpha=0.16, linewidth=0)
    marker = "o" if len(steps) <= FEW else None
    axes.plot(steps, mean, color=colour, label=label, linestyle=(0, (3, 1.5)) if dashed else "-", marker=marker)


def labels(cells: Sequence[Cell]) -> list[str]:
    """Names of rows in a legend, with their number of seeds if these differ."""
    counts = {len(cell.runs) for cell in cells}
    return [cell.row.name if len(counts) == 1 else f"{cell.row.name} (n = {len(cell.runs)})" for cell in cells]
