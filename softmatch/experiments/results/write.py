"""Files of a sheet's results: tables as Markdown, LaTeX and CSV, and a page; and its table in the terminal."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Group
from rich.table import Table
from rich.text import Text

from softmatch.errors import SoftmatchError
from softmatch.experiments.results.collect import Results
from softmatch.experiments.results.latex import latex
from softmatch.experiments.results.layout import Layout, Shown, plain
from softmatch.experiments.results.markdown import markdown
from softmatch.experiments.results.page import page
from softmatch.experiments.results.statistics import Difference
from softmatch.experiments.store import Store
from softmatch.files.atomic import write_atomically

ACROSS = 8  # columns of a terminal's table; a sheet with more columns than this and than rows is transposed
CELL_HEADS = (
    *("row", "group", "column", "measure", "unit", "published", "n", "seeds", "mean", "sd", "min", "max", "values"),
    *("missing_seeds", "best", "not_distinguishable"),
    *("difference_to_best", "difference_low", "difference_high", "p", "p_holm", "common_seeds"),
)
RUN_HEADS = ("row", "group", "column", "seed", "error", "f", "g", "seconds", "folder", "state", "message")


def write_results(layout: Layout, store: Store, *, figures: Sequence[Path] = (), commands: Sequence[str] = ()) -> list[Path]:
    """Write table.md, table.tex, table.csv (a line for each cell), runs.csv (a line for each run) and report.html.

    They go into the folder of the sheet, with PNG files of `figures` and the commands that make all of this again. Each file is
    complete or absent, and the same, byte by byte, for the same runs.
    """
    folder = store.results(layout.results.sheet.name)
    contents = {
        "table.md": markdown(layout, figures, commands, folder),
        "table.tex": latex(layout),
        "table.csv": cells_csv(layout),
        "runs.csv": runs_csv(layout.results, folder),
        "report.html": page(layout, figures, commands, folder),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            write_atomically(folder / name, text.encode("utf-8", "replace"))
    except OSError as error:
        raise SoftmatchError(f"the results in {folder} cannot be written: {error.strerror or error}.") from error
    return [folder / name for name in contents]


def summary_table(layout: Layout) -> Group:
    """The table for the terminal, with its legend."""
    names, titles = [line.name for line in layout.lines], [column.title for column in layout.columns]
    cells = [[Text(c.value, style="bold" if c.best else "").append(c.marks(" †")) for c in line.cells] for line in layout.lines]
    if len(titles) > ACROSS and len(titles) > len(names):
        names, titles, cells = titles, names, [list(turned) for turned in zip(*cells, strict=True)]
    table = Table(padding=(0, 1))
    table.add_column("")
    for title in titles:
        table.add_column(Text(title), justify="right")
    for name, row in zip(names, cells, strict=True):
        table.add_row(Text(name), *row)
    return Group(Text(layout.title, style="bold"), table, *(Text(each, style="dim") for each in (layout.caption, *layout.legend)))


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
