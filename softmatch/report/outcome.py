"""The table of the final figures of each class, the worst first."""

from __future__ import annotations

from statistics import median
from typing import Any

from softmatch.report.charts import compact
from softmatch.report.numbers import count, percent
from softmatch.report.run_contents import Contents, number

SHARES = ("error", "supervised_error", "precision", "recall")
COLUMNS = {
    "labels": "Labels",
    "test_samples": "Tested",
    "error": "Error",
    "supervised_error": "Error, labels alone",
    "precision": "Precision",
    "recall": "Recall",
}
SEARCH_FROM = 20
"""Classes from which on a field to search them is worth its place."""

Row = dict[str, Any]


def results_section(contents: Contents) -> dict[str, Any] | None:
    """Heads, rows and sentences of the table, or None where the run has no figures of its classes."""
    found = contents.result.get("classes")
    rows = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    columns = [key for key in COLUMNS if any(_known(row, key) for row in rows)]
    if not columns:
        return None
    rows.sort(key=_worst_first)
    return {
        "heads": [COLUMNS[key] for key in columns],
        "measured": "error" in columns,
        "compared": "supervised_error" in columns,
        "rows": [_row(row, columns) for row in rows],
        "sentences": _sentences(rows),
        "search": len(rows) > SEARCH_FROM,
    }


def _known(row: Row, column: str) -> bool:
    """Where nothing was tested, a column of zeros says nothing."""
    value = number(row.get(column))
    return bool(value) if column == "test_samples" else value is not None


def _worst_first(row: Row) -> tuple[float, float, str]:
    """Highest error, of equal ones the one that is best known; those without an error last, those with fewest labels first."""
    error, samples, labels = (number(row.get(key)) for key in ("error", "test_samples", "labels"))
    if error is None:
        return 1.0, labels or 0.0, str(row.get("name"))
    return -error, -(samples or 0.0), str(row.get("name"))


def _row(row: Row, columns: list[str]) -> dict[str, Any]:
    error = number(row.get("error"))
    cells = [_cell(number(row.get(key)), key in SHARES) for key in columns]
    bar = None if error is None else compact(round(100 * error, 1))
    return {
        "name": str(row.get("name")),
        "cells": cells,
        "bar": bar,
        "place": columns.index("error") if error is not None else None,
    }


def _cell(value: float | None, share: bool) -> str:
    return "–" if value is None else percent(value) if share else count(value)


def _sentences(rows: list[Row]) -> list[str]:
    """What a reader of many rows would otherwise have to count."""
    errors = [error for row in rows if (error := number(row.get("error"))) is not None]
    both = [
        (error, alone)
        for row in rows
        if (error := number(row.get("error"))) is not None and (alone := number(row.get("supervised_error"))) is not None
    ]
    sentences = []
    if len(errors) > 2:
        sentences.append(f"Half of the classes have an error of {percent(median(errors))} or less.")
    if both:
        lower, higher = sum(e < a for e, a in both), sum(e > a for e, a in both)
        sentences.append(
            f"Compared with the labels alone, the error is lower in {count(lower, 'class', 'classes')}, "
            f"higher in {higher:,} and the same in {len(both) - lower - higher:,}."
        )
    if errors and len(errors) < len(rows):
        sentences.append(f"Of {count(len(rows) - len(errors), 'class', 'classes')} no sample was tested.")
    return sentences
