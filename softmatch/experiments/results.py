"""From finished runs to tables and a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group
from rich.table import Table
from rich.text import Text

from softmatch.errors import SoftmatchError
from softmatch.experiments.collecting import Attempt, Cell, Entry, Results, collect
from softmatch.experiments.layout import Published, Set, arrange
from softmatch.experiments.sheet import Sheet
from softmatch.experiments.store import Store
from softmatch.files.atomic import write_atomically

__all__ = ["Cell", "Entry", "Results", "collect", "summary_table", "write_results"]

ACROSS = 8
"""Columns of a terminal's table; where a sheet has more of them than rows, it is turned."""


def write_results(
    sheet: Sheet,
    store: Store,
    outcomes: Sequence[Attempt] = (),
    *,
    published: Published | None = None,
    notes: Sequence[str] = (),
    figures: Sequence[Path] = (),
    commands: Sequence[str] = (),
    measure: str = "error",
) -> list[Path]:
    """Write table.md, table.tex, table.csv (a line for each cell), runs.csv (a line for each run) and report.html.

    They go into `store.results(sheet.name)`. Each is whole or not there, and the same, byte by byte, where the runs are.

    Args:
        outcomes: of the sweep: why runs are not there.
        published: the paper's own number of a cell, by the name of the row and the title of the column.
        notes: sentences under the table: what scale was run, what differs.
        figures: PNG files, shown on the page and linked in table.md.
        commands: that make all this again.
        measure: what the table is of, a key of `softmatch.experiments.measures.MEASURES`.
    """
    from softmatch.experiments.page import page
    from softmatch.experiments.tables import cells_csv, markdown, runs_csv
    from softmatch.experiments.tables_latex import latex

    results, folder = collect(sheet, store, measure, outcomes=outcomes), store.results(sheet.name)
    layout = arrange(results, published, notes)
    contents = {
        "table.md": markdown(layout, figures, commands, folder),
        "table.tex": latex(layout),
        "table.csv": cells_csv(layout),
        "runs.csv": runs_csv(results, folder),
        "report.html": page(layout, figures, commands, folder),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            write_atomically(folder / name, text.encode("utf-8", "replace"))
    except OSError as error:
        raise SoftmatchError(f"the results in {folder} cannot be written: {error.strerror or error}.") from error
    return [folder / name for name in contents]


def summary_table(sheet: Sheet, store: Store, measure: str = "error") -> Group:
    """The table for the terminal, with what its marks mean below it."""
    layout = arrange(collect(sheet, store, measure))
    names, titles = [line.name for line in layout.lines], [column.title for column in layout.columns]
    cells = [[_text(cell) for cell in line.cells] for line in layout.lines]
    if len(titles) > ACROSS and len(titles) > len(names):
        names, titles, cells = titles, names, [list(turned) for turned in zip(*cells, strict=True)]
    table = Table(padding=(0, 1))
    table.add_column("")
    for title in titles:
        table.add_column(Text(title), justify="right")
    for name, row in zip(names, cells, strict=True):
        table.add_row(Text(name), *row)
    return Group(Text(layout.title, style="bold"), table, *(Text(each, style="dim") for each in (layout.caption, *layout.legend)))


def _text(cell: Set) -> Text:
    text = Text(cell.value, style="bold" if cell.best else "")
    return text.append(" †" if cell.close else "").append(f" ({cell.partial})" if cell.partial else "")
