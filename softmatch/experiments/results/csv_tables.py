"""Tables as CSV: a line for each cell, a line for each run."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from softmatch.experiments.results.collect import Results
from softmatch.experiments.results.layout import Layout, Shown, plain
from softmatch.experiments.results.statistics import Difference

CELL_HEADS = (
    *("row", "group", "column", "measure", "unit", "published", "n", "seeds", "mean", "sd", "min", "max", "values"),
    *("missing_seeds", "best", "not_distinguishable"),
    *("difference_to_best", "difference_low", "difference_high", "p", "p_holm", "common_seeds"),
)
RUN_HEADS = ("row", "group", "column", "seed", "error", "f", "g", "seconds", "folder", "state", "message")


def cells_csv(layout: Layout) -> str:
    """One line for each cell, in the unit that the line names; differences are to the first of the best rows."""
    measure, rows = layout.results.measure, []
    for line, row in zip(layout.lines, layout.results.sheet.rows, strict=True):
        for shown, column, own in zip(line.cells, layout.columns, layout.results.sheet.columns, strict=True):
            if shown.cell is not None or shown.published:
                named = [line.name, column.group, column.name, measure.title, measure.unit, shown.published]
                test = layout.rankings[own.title].tests.get(row.name)
                rows.append([*named, *_figures(shown, measure.factor), *(_test(test, measure.factor) if test else ())])
    return _csv(CELL_HEADS, rows)


def _figures(shown: Shown, factor: float) -> list[str]:
    if (cell := shown.cell) is None:
        return []
    values = list(cell.values.values())
    spread = (cell.mean, cell.sd, min(values, default=None), max(values, default=None))
    figures = [str(cell.n), str(len(cell.entries)), *(_number(value, factor) for value in spread)]
    figures += [" ".join(_number(value, factor) for value in values), " ".join(map(str, cell.missing))]
    return [*figures, *("yes" if mark else "no" for mark in (shown.best, shown.close))]


def _test(test: Difference, factor: float) -> list[str]:
    bounds = test.interval or (None, None)
    return [*(_number(value, factor) for value in (test.mean, *bounds)), _number(test.p), _number(test.corrected), str(test.n)]


def runs_csv(results: Results, folder: Path) -> str:
    """One line for each seed of each cell. Shares are fractions; a run's folder is relative to this file's."""
    rows = [
        [
            *(plain(text) for text in (cell.row.name, cell.column.group, cell.column.name)),
            *(str(entry.seed), *(_number(entry.figure(name)) for name in ("test_error", "quantity", "quality", "seconds"))),
            *(Path(os.path.relpath(entry.folder, folder)).as_posix(), entry.state, plain(entry.message)),
        ]
        for cell, entry in results.entries()
    ]
    return _csv(RUN_HEADS, rows)


def _number(value: float | None, factor: float = 1.0) -> str:
    return "" if value is None else f"{value * factor:.6g}"


def _csv(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([heads, *([*row, *[""] * (len(heads) - len(row))] for row in rows)])
    return text.getvalue()
