"""Write the tables and the page of a sheet; show its table in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group
from rich.table import Table
from rich.text import Text

from softmatch.errors import SoftmatchError
from softmatch.experiments.results.csv_tables import cells_csv, runs_csv
from softmatch.experiments.results.latex import latex
from softmatch.experiments.results.layout import Layout, Shown
from softmatch.experiments.results.markdown import markdown
from softmatch.experiments.results.page import page
from softmatch.experiments.store import Store
from softmatch.training.checked_files import write_atomically

ACROSS = 8
"""Columns of a terminal's table; a sheet that has more columns than this and than rows is transposed."""


def write_results(layout: Layout, store: Store, *, figures: Sequence[Path] = (), commands: Sequence[str] = ()) -> list[Path]:
    """Write table.md, table.tex, table.csv (a line for each cell), runs.csv (a line for each run) and report.html.

    They go into the folder of the sheet. Each is complete or absent, and the same, byte by byte, for the same runs.

    Args:
        figures: PNG files, shown on the page and linked in table.md.
        commands: that make all of this again.
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


def _text(shown: Shown) -> Text:
    return Text(shown.value, style="bold" if shown.best else "").append(shown.marks(" †"))
