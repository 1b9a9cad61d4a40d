"""The numeric preparation of a table: numbers filled and bounded, words as categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softmatch.data.preparations.table_columns import CategoryColumn, Fitted, NumberColumn, fit_column
from softmatch.data.records import Column, Finding, InputKind, Inputs
from softmatch.errors import InputError
from softmatch.formatting import quoted, some

SHOWN = 10


class TablePreparation:
    """See `Preparation`. Columns become float32 (n, D)."""

    takes: InputKind = "table"

    def __init__(self, parts: Sequence[NumberColumn | CategoryColumn]) -> None:
        self.parts = tuple(parts)
        self.columns: tuple[str, ...] = tuple(part.name for part in self.parts)

    def __call__(self, inputs: Inputs) -> Tensor:
        table = _columns(inputs)
        for name in self.columns:
            if name not in table:
                there = quoted(list(table), SHOWN, "columns") or "none"
                raise InputError(f"there is no column {name!r}, which the model learned from. There are: {there}.")
        count = len(table[self.columns[0]])
        made = np.empty((count, sum(part.width for part in self.parts)), np.float32)
        start = 0
        for part in self.parts:
            part.write(table[part.name], made[:, start : start + part.width])
            start += part.width
        return torch.from_numpy(made)

    def settings(self) -> dict[str, Any]:
        return {"kind": "table", "columns": [asdict(part) for part in self.parts]}

    def tensors(self) -> dict[str, Tensor]:
        return {}

    @classmethod
    def from_saved(cls, saved: Any, tensors: Mapping[str, Tensor]) -> TablePreparation:
        """Invert `settings`."""
        return cls(saved.columns)

    def describe(self) -> str:
        width = sum(part.width for part in self.parts)
        return f"{width:,} features of {len(self.parts):,} columns"


def fit_table(inputs: Inputs, names: Sequence[str]) -> tuple[TablePreparation, list[Finding]]:
    """Choose a form for each column, and a value where one is missing.

    Args:
        inputs: all rows of the training data.
        names: of the rows in findings.
    """
    fitted = {name: fit_column(name, column) for name, column in _columns(inputs).items()}
    parts = [found.part for found in fitted.values() if found.part is not None]
    if not parts:
        reasons = "; ".join(f"{name!r} ({found.left_out})" for name, found in fitted.items())
        raise InputError(f"no column can be learned from: {reasons}.")
    return TablePreparation(parts), _findings(fitted, names)


def _columns(inputs: Inputs) -> Mapping[str, Column]:
    if not isinstance(inputs, Mapping):
        raise InputError("this model learned from a table: give a table with the same columns.")
    return inputs


def _findings(fitted: Mapping[str, Fitted], names: Sequence[str]) -> list[Finding]:
    findings: list[Finding] = []
    for name, found in fitted.items():
        for what, cells in (("not a number", found.unreadable), ("infinite", found.infinite)):
            if cells:
                findings.append(_cells_finding(name, what, cells, names))
    if len(findings) > SHOWN:
        places = tuple(finding.text for finding in findings[SHOWN:])
        text = f"{len(places):,} further columns have cells that are not numbers or infinite."
        findings[SHOWN:] = [Finding("warning", text, places)]
    commas = [name for name, found in fitted.items() if found.decimal_commas]
    if commas:
        text = f"{quoted(commas, SHOWN, 'columns')}: numbers with a decimal comma are taken as words. Write them with a point."
        findings.append(Finding("warning", f"Columns {text}" if len(commas) > 1 else f"Column {text}"))
    notes = {
        "Missing values are filled with the median of the column, or are a category of their own": [
            f"{name!r} ({found.missing:,})" for name, found in fitted.items() if found.missing and found.part is not None
        ],
        "Dates are taken as a number of days": [
            repr(name) for name, found in fitted.items() if isinstance(found.part, NumberColumn) and found.part.form == "date"
        ],
        "Left out": [f"{name!r} ({found.left_out})" for name, found in fitted.items() if found.part is None],
    }
    for text, shown in notes.items():
        if shown:
            findings.append(Finding("note", f"{text}: {some(shown, SHOWN)}.", tuple(shown[SHOWN:])))
    return findings


def _cells_finding(column: str, what: str, cells: Mapping[int, str], names: Sequence[str]) -> Finding:
    shown = some([f"row {names[position]} {text!r}" for position, text in cells.items()])
    subject = "1 cell is" if len(cells) == 1 else f"{len(cells):,} cells are"
    taken = "is taken" if len(cells) == 1 else "are taken"
    what = "not numbers" if what == "not a number" and len(cells) > 1 else what
    rows = tuple(f"row {names[position]}" for position in cells)
    return Finding("warning", f"Column {column!r}: {subject} {what} and {taken} as missing: {shown}.", rows)
