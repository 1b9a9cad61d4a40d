"""Page of a sheet: its table, the curves of its rows, its runs, in one HTML file that needs no other."""

import base64
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from softmatch.errors import InputError
from softmatch.experiments.results.collect import Cell, Results
from softmatch.experiments.results.layout import Layout, link
from softmatch.experiments.results.statistics import probability
from softmatch.files.untrusted import read_text
from softmatch.formatting import duration, plain
from softmatch.report.charts import thin
from softmatch.report.pages import Page
from softmatch.report.run_contents import Record, number
from softmatch.runs.folder import read_record

HERE = Path(__file__).parent
PAGE = Page(HERE / "page.html", [HERE / "page.js"], [HERE / "page.css"])
COLORS, DASHES = 7, ("", "8 4", "2 3", "10 3 2 3")  # SVG's notation; rows beyond the colours get the next line style
SHOWN, FOLD = 4, 10  # charts that are not folded, and charts in a fold
PNG = b"\x89PNG\r\n\x1a\n"
MEASURES = {"error": "test_error", "quantity": "quantity", "quality": "quality"}  # names on the page, and in a record
POINTS, FEWEST = 120, 4  # of a curve
NUMBERS = 180_000  # of all curves together, about a megabyte: the more curves, the fewer points of each
UNIT = 10_000  # shares are whole numbers of this part: finer ones cannot be seen


def page(layout: Layout, figures: Sequence[Path], commands: Sequence[str], folder: Path) -> str:
    """The page as text, for a file in `folder`."""
    drawn, results = curves(layout.results), layout.results
    charts = [{"place": place, "title": column["title"]} for place, column in enumerate(drawn["columns"]) if column["cells"]]
    entries = list(results.entries())
    return PAGE.render(
        {**drawn, "dashes": [[int(length) for length in dash.split()] for dash in DASHES], "colors": COLORS},
        layout=layout,
        counted=((len(layout.lines), "row"), (len(layout.columns), "column"), (len(results.sheet.seeds), "seed")),
        rows=[(line.name, place % COLORS, DASHES[place // COLORS % len(DASHES)]) for place, line in enumerate(layout.lines)],
        charts=charts[:SHOWN],
        folds=[charts[start : start + FOLD] for start in range(SHOWN, len(charts), FOLD)],
        pictures=[{"title": plain(path.stem.replace("-", " ").replace("_", " ")), "data": _picture(path)} for path in figures],
        entries=entries,
        commands=[plain(command) for command in commands],
        example=entries[0][1].run.name if entries else None,
        plain=plain,
        duration=duration,
        probability=probability,
        link=partial(link, folder=folder),
    )


def _picture(path: Path) -> str:
    """A PNG file as an address."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"the figure {path} cannot be read: {error.strerror or error}.") from error
    if not content.startswith(PNG):
        raise InputError(f"the figure {path} is not a PNG file; the page can show no other.")
    return "data:image/png;base64," + base64.b64encode(content).decode()


def curves(results: Results) -> dict[str, Any]:
    """For each column its cells, for each cell the steps, and the figures of each finished seed at them."""
    folders = [run.folder for cell in results.cells.values() for run in cell.runs]
    most = max(FEWEST, min(POINTS, NUMBERS // max(1, len(folders) * len(MEASURES))))
    records = {folder: _records(folder, most) for folder in dict.fromkeys(folders)}
    rows = [row.name for row in results.sheet.rows]
    columns: list[dict[str, Any]] = []
    for column in results.sheet.columns:
        found = [(rows.index(cell.row.name), _curve(cell, records)) for cell in results.column(column.title)]
        columns.append({"title": plain(column.title), "cells": [{"row": place, **curve} for place, curve in found if curve]})
    drawn = {name for column in columns for cell in column["cells"] for name in cell}
    return {
        "unit": UNIT,
        "rows": [plain(name) for name in rows],
        "measures": [name for name in MEASURES if name in drawn],
        "columns": columns,
    }


def _curve(cell: Cell, records: Mapping[Path, dict[int, Record]]) -> dict[str, Any]:
    """Steps that a seed of the cell has recorded, and the figures of its seeds there; empty where there are none."""
    found = [own for run in cell.runs if (own := records[run.folder])]
    steps = sorted({step for own in found for step in own})
    drawn: dict[str, Any] = {}
    for name, key in MEASURES.items():
        lines = [[number(own.get(step, {}).get(key)) for step in steps] for own in found]
        if any(value is not None for line in lines for value in line):
            drawn[name] = [[None if value is None else round(value * UNIT) for value in line] for line in lines]
    return {"x": steps, **drawn} if drawn else {}


def _records(folder: Path, most: int) -> dict[int, Record]:
    """Up to `most` records of a run, evenly spread, with the first and the last; the other lines are not parsed."""
    path = folder / "metrics.jsonl"
    lines = [line for line in read_text(path, errors="replace").split("\n") if line] if path.is_file() else []
    return {record["step"]: record for line in thin(lines, most) if (record := read_record(line))}
