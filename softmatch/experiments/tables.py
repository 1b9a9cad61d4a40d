"""Tables as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from rich.cells import cell_len

from softmatch.experiments.collecting import Entry, Results
from softmatch.experiments.layout import Failure, Layout, Line, Set, plain

SPECIAL = re.compile(r"([\\`*_{}\[\]|~$#])")
"""What Markdown, or GitHub's, takes for something else than itself."""
LONGEST_MESSAGE = 300
Text = str | int


def markdown(layout: Layout, figures: Sequence[Path], commands: Sequence[str], folder: Path) -> str:
    """The table with what it says, for a file in `folder`."""
    parts = [f"# {escape(layout.title)}", *([escape(layout.headline)] if layout.headline else []), escape(layout.caption)]
    parts += [_table(layout, block) for block in layout.blocks()]
    parts += _listed("", [_legend(sentence) for sentence in layout.legend])
    parts += _listed("Notes", [escape(note) for note in layout.notes])
    parts += _listed("Runs that failed", [_failure(failure, folder) for failure in layout.failures])
    parts += [f"![{escape(path.stem)}]({link(path, folder)})" for path in figures]
    if commands:
        parts.append("## Again\n\n" + "\n".join(f"    {plain(command)}" for command in commands))
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Text that Markdown shows as it is."""
    safe = plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return SPECIAL.sub(r"\\\1", safe)


def link(path: Path, folder: Path) -> str:
    """The address of a file for a document in a folder; the same on every machine."""
    return quote(Path(os.path.relpath(path, folder)).as_posix())


def last_words(message: str, most: int) -> str:
    """The end of a message, where its reason stands."""
    return message if len(message) <= most else "…" + message[-most:]


def _table(layout: Layout, block: range) -> str:
    heads = ["", *(escape(layout.columns[place].title) for place in block)]
    rows = [row for line in layout.lines for row in _rows(line, block)]
    widths = [max(3, *(cell_len(row[place]) for row in [heads, *rows])) for place in range(len(heads))]
    ruler = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(_row(cells, widths) for cells in [heads, ruler, *rows])


def _rows(line: Line, block: range) -> list[list[str]]:
    """A row, and the paper's below it where it has one."""
    rows = [[escape(line.name), *(_cell(line.cells[place]) for place in block)]]
    if line.published:
        published = (line.cells[place].published for place in block)
        rows.append(["↳ *paper*", *(f"*{escape(each)}*" if each else "" for each in published)])
    return rows


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Names to the left, numbers to the right, so that the file can be read as it is."""
    padding = [" " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)]
    return "| " + " | ".join([cells[0] + padding[0], *(p + c for p, c in zip(padding[1:], cells[1:], strict=True))]) + " |"


def _cell(cell: Set) -> str:
    text = f"**{cell.value}**" if cell.best else cell.value
    return text + (" †" if cell.close else "") + (f" ({cell.partial})" if cell.partial else "")


def _legend(sentence: str) -> str:
    return re.sub("^Bold:", "**Bold**:", escape(sentence))


def _listed(title: str, items: Sequence[str]) -> list[str]:
    if not items:
        return []
    return [*([f"## {title}"] if title else []), "\n".join(f"- {item}" for item in items)]


def _failure(failure: Failure, folder: Path) -> str:
    entry = failure.entry
    tries = f" ({entry.attempts} attempts)" if entry.attempts > 1 else ""
    words = escape(last_words(plain(entry.message), LONGEST_MESSAGE)) or "it did not finish"
    read = f" ([log]({link(entry.log, folder)}))" if entry.log.is_file() else ""
    return f"{escape(failure.row)}, {escape(failure.column)}, seed {entry.seed}{tries}: {words}{read}"


CELL_HEADS = (
    *("row", "group", "column", "measure", "unit", "published", "n", "seeds", "mean", "sd", "min", "max", "values"),
    *("missing_seeds", "best", "not_distinguishable"),
    *("difference_to_best", "difference_low", "difference_high", "p", "p_holm", "common_seeds"),
)
RUN_HEADS = ("row", "group", "column", "seed", "error", "f", "g", "seconds", "folder", "state", "message")


def cells_csv(layout: Layout) -> str:
    """One line for each cell. Figures are in the unit that the line names; differences are to the first of the best rows."""
    results, measure = layout.results, layout.results.measure
    rows: list[list[Text]] = []
    for line, row in zip(layout.lines, results.sheet.rows, strict=True):
        for shown, column, place in zip(line.cells, layout.columns, results.sheet.columns, strict=True):
            cell, test = results.cell(row.name, place.title), layout.rankings[place.title].tests.get(row.name)
            if cell is None:
                figures: list[Text] = []
            else:
                spread = [_number(value, measure.factor) for value in (cell.mean, cell.sd, cell.low, cell.high)]
                values = " ".join(_number(value, measure.factor) for value in cell.values.values())
                marks = ["yes" if mark else "no" for mark in (shown.best, shown.close)]
                figures = [cell.n, shown.wanted, *spread, values, " ".join(map(str, cell.missing)), *marks]
            if cell is not None and test is not None:
                difference = (test.difference.mean, *(test.difference.interval or (None, None)))
                figures += [_number(value, measure.factor) for value in difference]
                figures += [_number(test.difference.p), _number(test.p), test.difference.n]
            if figures or shown.published:
                named: list[Text] = [line.name, column.group, column.name, measure.title, measure.unit, shown.published]
                rows.append(named + figures + [""] * (len(CELL_HEADS) - len(named) - len(figures)))
    return _csv(CELL_HEADS, rows)


def runs_csv(results: Results, folder: Path) -> str:
    """One line for each seed of each cell. Shares are fractions; a run's folder is relative to this file's."""
    rows: list[list[Text]] = [
        [
            *(plain(text) for text in (cell.row.name, cell.column.group, cell.column.name)),
            *(str(entry.seed), *_figures(entry)),
            *(Path(os.path.relpath(entry.folder, folder)).as_posix(), entry.state, plain(entry.message)),
        ]
        for cell, entry in results.entries()
    ]
    return _csv(RUN_HEADS, rows)


def _figures(entry: Entry) -> list[str]:
    names = ("test_error", "quantity", "quality", "seconds")
    return [_number(entry.figure(name)) for name in names]


def _number(value: float | None, factor: float = 1.0) -> str:
    return "" if value is None else f"{value * factor:.6g}"


def _csv(heads: Sequence[str], rows: Iterable[Sequence[Text]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return text.getvalue()
