"""Tables and documents as Markdown, from the templates *.md.jinja."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.cells import cell_len

from softmatch.experiments.results.layout import Layout, Line, Shown, plain

SPECIAL = re.compile(r"([\\`*_{}\[\]|~$#])")
"""Characters with a meaning in Markdown, or in GitHub's."""


def markdown(layout: Layout, figures: Sequence[Path], commands: Sequence[str], folder: Path) -> str:
    """The table with everything it says, for a file in `folder`."""
    return render("table.md.jinja", layout=layout, figures=figures, commands=commands, folder=folder)


def render(template: str, **values: Any) -> str:
    """A document from a template."""
    return TEMPLATES.get_template(template).render(grid=_grid, link=link, **values)


def escape(text: str) -> str:
    """Text that Markdown shows as it is."""
    safe = plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return SPECIAL.sub(r"\\\1", safe)


def link(path: Path, folder: Path) -> str:
    """Address of a file for a document in a folder; the same on every machine."""
    return quote(Path(os.path.relpath(path, folder)).as_posix())


TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
TEMPLATES.filters |= {"md": escape, "plain": plain}


def _grid(layout: Layout, block: range) -> str:
    """A table that can be read as it is: names to the left, numbers to the right."""
    heads = ["", *(escape(layout.columns[place].title) for place in block)]
    rows = [row for line in layout.lines for row in _rows(line, block)]
    widths = [max(3, *(cell_len(row[place]) for row in [heads, *rows])) for place in range(len(heads))]
    ruler = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = []
    for cells in [heads, ruler, *rows]:
        padding = [" " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)]
        numbers = (space + cell for space, cell in zip(padding[1:], cells[1:], strict=True))
        lines.append(f"| {' | '.join([cells[0] + padding[0], *numbers])} |")
    return "\n".join(lines)


def _rows(line: Line, block: range) -> list[list[str]]:
    """A row, and the paper's numbers below it if there are any."""
    rows = [[escape(line.name), *(_cell(line.cells[place]) for place in block)]]
    published = [line.cells[place].published for place in block]
    if any(cell.published for cell in line.cells):
        rows.append(["↳ *paper*", *(f"*{escape(each)}*" if each else "" for each in published)])
    return rows


def _cell(shown: Shown) -> str:
    return (f"**{shown.value}**" if shown.best else shown.value) + shown.marks(" †")
