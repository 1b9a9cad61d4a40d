"""Tables with one row per reading as a source of series: rows are grouped by an id, sorted by time and put on an even grid."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from softmatch.data.cells import as_column, as_text_column, is_missing, join_columns, parse_date, parse_number
from softmatch.data.readers.columns import decide_readings
from softmatch.data.readers.csv_files import CELLS
from softmatch.data.readers.labels import clean_labels
from softmatch.data.records import Column, Columns, Finding, Found, Grid, Records, TableReader, about, ragged
from softmatch.errors import InputError

SAMPLE = 1000
"""Rows that are looked at to find out what the columns are."""
DAY = 86400
UNEVEN = 0.01
"""Share of a step by which times may be off before the series counts as irregular."""
MOST_STEPS = 100
"""Steps of the grid for each reading of a series; more are a mistake in the times, or a pause."""

Floats = npt.NDArray[np.float64]


def open_readings(reader: TableReader, where: str, columns: Columns, need_label: bool = True) -> Found:
    """Open a table as series, named by their id, in the order in which they first occur.

    Args:
        columns: with `series`, and as far as the user says so `time`, `label` and the values (`features`).
        need_label: a table without a column of labels is an error.
    """
    pieces = reader.pieces(reader.names, SAMPLE)
    sample = next(pieces, None)
    if sample is None:
        raise InputError(f"{where} has no rows.")
    cells = {name: list(column) for name, column in sample.items()}
    used, findings = decide_readings(cells, columns, where, need_label, whole=next(pieces, None) is None)
    rows = _Rows(reader, where, used)
    series, labels, step = rows.series(), rows.series_labels(), rows.step
    grid = Grid(rows.column, used.time, rows.channels, step)
    records = Records("array", ragged(series), rows.ids, labels, grid=grid)
    return Found(where, records, replace(used, step=step), [*reader.findings, *findings, *rows.findings])


class _Rows:
    """All readings, sorted by series and time.

    Attributes:
        column: column of the series.
        channels: columns of the values.
        ids: of the series.
        step: time between two values.
        findings: what was noticed.
    """

    def __init__(self, reader: TableReader, where: str, used: Columns) -> None:
        self.where, self.used, self.findings = where, used, list[Finding]()
        self.unit = ""
        self.column, self.channels = str(used.series), used.features or ()
        read = (*self.channels, *(() if used.time is None else (used.time,)))
        wanted = dict.fromkeys((self.column, *read, *(() if used.label is None else (used.label,))))
        ids, labels, parts = list[str](), list[str | None](), dict[str, list[Column]]({name: [] for name in read})
        for piece in reader.pieces(list(wanted), CELLS):
            first = len(ids) + 1
            for name in read:
                parts[name].append(as_column(piece[name], where, name, first))
            if used.label is not None:
                values: Any = piece[used.label]
                values = values.tolist() if isinstance(values, np.ndarray) else values
                labels += clean_labels(values, used.unlabeled, where, first)
            ids += [text.strip() for text in as_text_column(piece[self.column], where, self.column, first)]
        if "" in ids:
            raise InputError(f"{where}, row {ids.index('') + 1}: column {self.column!r} is empty. Fill in the id of the series.")
        number = {name: position for position, name in enumerate(dict.fromkeys(ids))}
        owner = np.fromiter((number[name] for name in ids), np.int64, len(ids))
        times = np.arange(len(ids), dtype=np.float64) if used.time is None else self._times(join_columns(parts.pop(used.time)))
        self.order = np.lexsort((times, owner))
        self.ids, self.labels = list(number), labels
        self.values: Floats = np.stack([self._numbers(join_columns(parts[name]), name) for name in self.channels])[:, self.order]
        self.times, owner = times[self.order], owner[self.order]
        self.starts = np.searchsorted(owner, np.arange(1, len(number)))
        gaps = np.diff(self.times)[owner[1:] == owner[:-1]]
        timed = used.time is not None and bool((gaps > 0).any())
        self.step = used.step or (float(np.median(gaps[gaps > 0])) if timed else 1.0)

    def _numbers(self, column: Column, name: str) -> Floats:
        if isinstance(column, np.ndarray):
            return column
        for row, cell in enumerate(column, 1):
            if not is_missing(cell) and parse_number(cell) is None:
                advice = "Correct it, or choose other columns with --features."
                raise InputError(f"{self.where}, row {row}: column {name!r} holds {cell!r}, not a number. {advice}")
        return np.array([math.nan if is_missing(cell) else float(cell) for cell in column])

    def _times(self, column: Column) -> Floats:
        """Read numbers as they are, and ISO dates as seconds."""
        dates = not isinstance(column, np.ndarray)
        days = [parse_date(str(cell)) for cell in column] if dates else column
        times = np.array([math.nan if day is None else day for day in days]) * (DAY if dates else 1)
        self.unit = " s" if dates else ""
        wrong = np.flatnonzero(~np.isfinite(times))
        if len(wrong):
            cell = str(column[wrong[0]])
            what = "is empty" if is_missing(cell) else f"is {cell!r}"
            advice = "Write numbers, or dates such as 2024-05-31 or 2024-05-31T08:15:00."
            raise InputError(f"{self.where}, row {wrong[0] + 1}: the time in column {self.used.time!r} {what}. {advice}")
        return times

    def series(self) -> list[npt.NDArray[np.float32]]:
        """Make an array (channels, T) of each series."""
        parts = list(zip(np.split(self.values, self.starts, axis=1), np.split(self.times, self.starts), strict=True))
        single = [name for name, (values, _) in zip(self.ids, parts, strict=True) if values.shape[1] == 1]
        self.findings += about("warning", f"{self.where}: {_count(single)} a single reading, which is repeated", single)
        if self.used.time is None:
            return [values.astype(np.float32) for values, _ in parts]
        twice = [name for name, (_, times) in zip(self.ids, parts, strict=True) if (times[1:] == times[:-1]).any()]
        advice = f"Their mean is used. If they come from different series, {self.column!r} is not the column of the series."
        self.findings += about("warning", f"{self.where}: {_count(twice)} several readings at one time", twice, advice)
        uneven = [name for name, (_, times) in zip(self.ids, parts, strict=True) if self._is_uneven(times)]
        if uneven:
            text = f"irregular times: brought to one value every {self.step:g}{self.unit} by straight lines between readings"
            self.findings.append(Finding("note", f"{self.where}: {_count(uneven)} {text}."))
        return [self._even(name, *part) for name, part in zip(self.ids, parts, strict=True)]

    def _is_uneven(self, times: Floats) -> bool:
        gaps = np.diff(times)
        return bool((np.abs(gaps[gaps > 0] - self.step) > UNEVEN * self.step).any())

    def _even(self, name: str, values: Floats, times: Floats) -> npt.NDArray[np.float32]:
        """Interpolate the readings of a series at even times; an empty cell is a gap like any other."""
        length = round((times[-1] - times[0]) / self.step) + 1
        if length > MOST_STEPS * len(times):
            steps = f"{len(times):,} readings over {length:,} steps of {self.step:g}{self.unit}"
            raise InputError(f"{self.where}: series {name!r} has {steps}. Split it where it pauses, or correct its times.")
        at, place = np.unique(times, return_inverse=True)
        grid, made = times[0] + self.step * np.arange(length), np.full((len(values), length), np.nan, np.float32)
        for channel, cells in enumerate(values):
            known = ~np.isnan(cells)
            if known.any():
                number = np.bincount(place[known], minlength=len(at))
                mean = np.bincount(place[known], cells[known], len(at))[number > 0] / number[number > 0]
                made[channel] = np.interp(grid, at[number > 0], mean)
        return made

    def series_labels(self) -> list[str | None]:
        """Give the label of each series: that of its rows, of which some may be empty."""
        if self.used.label is None:
            return [None] * len(self.ids)
        found: list[str | None] = []
        for name, rows in zip(self.ids, np.split(self.order, self.starts), strict=True):
            first: dict[str, int] = {}
            for row in sorted(rows.tolist()):
                if (label := self.labels[row]) is not None:
                    first.setdefault(label, row + 1)
            if len(first) > 1:
                shown = " and ".join(f"{label!r} (row {row})" for label, row in list(first.items())[:2])
                advice = "Give each part with a label of its own an id of its own."
                raise InputError(f"{self.where}: series {name!r} has the labels {shown}, but a series has one. {advice}")
            found.append(next(iter(first), None))
        return found


def _count(names: Sequence[str]) -> str:
    return "1 series has" if len(names) == 1 else f"{len(names):,} series have"
