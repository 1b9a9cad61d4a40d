"""Curves of a sheet's finished runs over the steps, thinned for a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from softmatch.experiments.results.collect import Cell, Results
from softmatch.experiments.results.layout import plain
from softmatch.experiments.results.run_files import Record, number
from softmatch.foreign_text import read_text
from softmatch.runs import read_record

MEASURES = {"error": "test_error", "quantity": "quantity", "quality": "quality"}
"""Names on the page, and in a record."""
POINTS, FEWEST = 120, 4
NUMBERS = 180_000
"""Numbers of all curves of a page together, about a megabyte: the more curves, the fewer points of each."""
UNIT = 10_000
"""Shares are whole numbers of this part: finer ones cannot be seen."""

Records = dict[int, Record]
"""By step."""


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


def _curve(cell: Cell, records: Mapping[Path, Records]) -> dict[str, Any]:
    """Steps that a seed of the cell has recorded, and the figures of its seeds there; empty where there are none."""
    found = [own for run in cell.runs if (own := records[run.folder])]
    steps = sorted({step for own in found for step in own})
    figures = {name: [[_whole(own.get(step, {}).get(key)) for step in steps] for own in found] for name, key in MEASURES.items()}
    drawn = {name: lines for name, lines in figures.items() if any(value is not None for line in lines for value in line)}
    return {"x": steps, **drawn} if drawn else {}


def _records(folder: Path, most: int) -> Records:
    """Up to `most` records of a run, evenly spread, with the first and the last; the other lines are not parsed."""
    path = folder / "metrics.jsonl"
    lines = [line for line in read_text(path, errors="replace").split("\n") if line] if path.is_file() else []
    if len(lines) > most:
        lines = [lines[round(place * (len(lines) - 1) / (most - 1))] for place in range(most)]
    return {record["step"]: record for line in lines if (record := read_record(line))}


def _whole(value: Any) -> int | None:
    found = number(value)
    return None if found is None else round(found * UNIT)
