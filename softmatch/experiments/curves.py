"""How the figures of a sheet's runs went on over the steps, few enough for a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from softmatch.experiments.collecting import Cell, Results
from softmatch.experiments.layout import plain
from softmatch.files.untrusted import read_text
from softmatch.report.charts import thin
from softmatch.report.run_contents import Record, number

MEASURES = {"error": "test_error", "quantity": "quantity", "quality": "quality"}
"""By their names on the page; what a record calls them."""
POINTS, FEWEST = 120, 4
NUMBERS = 180_000
"""Of all curves of a page together: about a megabyte. The more curves, the fewer points of each."""
UNIT = 10_000
"""Shares are whole numbers of this part: a finer one cannot be seen."""

Curve = dict[str, Any]
Records = dict[int, Record]
"""By step."""


def curves(results: Results) -> dict[str, Any]:
    """For each column its cells, for each cell the steps, and the figures of each seed at them.

    Only finished runs: a mean over seeds is not to change where one of them has not come further.
    """
    folders = [entry.files.folder for _, entry in results.entries() if entry.files]
    most = max(FEWEST, min(POINTS, NUMBERS // max(1, len(folders) * len(MEASURES))))
    records = {folder: _records(folder, most) for folder in dict.fromkeys(folders)}
    columns: list[dict[str, Any]] = []
    for column in results.sheet.columns:
        cells = [curve for place, cell in _placed(results, column.title) if (curve := _curve(cell, place, records))]
        columns.append({"title": plain(column.title), "cells": cells})
    found = {name for column in columns for cell in column["cells"] for name in MEASURES if cell.get(name)}
    return {
        "unit": UNIT,
        "rows": [plain(row.name) for row in results.sheet.rows],
        "measures": [name for name in MEASURES if name in found],
        "columns": columns,
    }


def _placed(results: Results, column: str) -> list[tuple[int, Cell]]:
    rows = [row.name for row in results.sheet.rows]
    return [(rows.index(cell.row.name), cell) for cell in results.column(column)]


def _curve(cell: Cell, place: int, records: Mapping[Path, Records]) -> Curve | None:
    """Steps that a seed of the cell has recorded, and its seeds' figures there; None where there are none."""
    found = [own for entry in cell.entries if entry.files and (own := records[entry.files.folder])]
    steps = sorted({step for own in found for step in own})
    if not steps:
        return None
    figures = {name: [[_whole(own.get(step, {}).get(key)) for step in steps] for own in found] for name, key in MEASURES.items()}
    known = {name: lines for name, lines in figures.items() if any(value is not None for line in lines for value in line)}
    return {"row": place, "x": steps, **known} if known else None


def _records(folder: Path, most: int) -> Records:
    """At most so many records of a run, by step. The other lines are not parsed: there may be hundreds."""
    path = folder / "metrics.jsonl"
    lines = [line for line in read_text(path, errors="replace").split("\n") if line] if path.is_file() else []
    return {record["step"]: record for line in thin(lines, most) if (record := _record(line))}


def _record(line: str) -> Record | None:
    """What is drawn of a line of metrics.jsonl; None for a line that holds no record.

    Not by `RunFolder.records`: of kilobytes in each of thousands of lines four numbers are wanted, and nothing else is walked
    through to be checked.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or type(found.get("step")) is not int:
        return None
    return {key: found.get(key) for key in ("step", *MEASURES.values())}


def _whole(value: Any) -> int | None:
    found = number(value)
    return None if found is None else round(found * UNIT)
