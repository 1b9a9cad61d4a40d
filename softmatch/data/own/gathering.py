"""Pieces of a table put together to records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from softmatch.data.cells import as_column, as_text_column, join_columns
from softmatch.data.own.labels import clean_labels
from softmatch.data.own.piece import Piece
from softmatch.data.records import Column, Columns, InputKind, Records

SHARED = 10_000
"""Different texts of a column that are kept once, however often they occur."""


class Gathering:
    """Columns of a table that grow piece by piece, numbers as numbers at once.

    Attributes:
        wanted: the columns that `add` takes.
        first: number of the first row.
    """

    def __init__(self, columns: Columns, kind: InputKind, where: str, first: int) -> None:
        self.columns, self.kind, self.where, self.first = columns, kind, where, first
        self.inputs: tuple[str, ...] = columns.features or ((columns.text,) if columns.text is not None else ())
        self.augmented: tuple[str, ...] = columns.augmented or ()
        self.read: tuple[str, ...] = (*self.inputs, *self.augmented)
        self.wanted: Sequence[str] = self.read if columns.label is None else (*self.read, columns.label)
        self.parts: dict[str, list[Column]] = {name: [] for name in self.read}
        self.shared: dict[str, dict[str, str]] = {name: {} for name in self.read}
        self.labels: list[str | None] = []

    def __len__(self) -> int:
        return len(self.labels)

    def add(self, piece: Piece) -> None:
        """The next rows."""
        first = self.first + len(self)
        for name in self.read:
            make = as_text_column if self.kind == "text" else as_column
            self.parts[name].append(self._share(name, make(piece[name], self.where, name, first)))
        count = len(piece[self.inputs[0]])
        if self.columns.label is None:
            self.labels.extend([None] * count)
            return
        values: Any = piece[self.columns.label]
        values = values.tolist() if isinstance(values, np.ndarray) else values
        self.labels.extend(clean_labels(values, self.columns.unlabeled, self.where, first))

    def _share(self, name: str, column: Column) -> Column:
        """The same text once in memory: a file gives a new one for every cell."""
        shared = self.shared[name]
        if self.kind == "text" or isinstance(column, np.ndarray) or len(shared) > SHARED:
            return column
        return [shared.setdefault(cell, cell) for cell in column]

    def finish(self) -> Records:
        """All rows so far."""
        names = list(map(str, range(self.first, self.first + len(self))))
        columns = {name: self._share(name, join_columns(self.parts.pop(name))) for name in self.inputs}
        if self.kind == "table":
            return Records("table", columns, names, self.labels)
        texts: list[str] = list(columns[self.inputs[0]])  # `add` has made texts of them
        augmented = [list(join_columns(self.parts.pop(name))) for name in self.augmented]
        return Records("text", texts, names, self.labels, augmented, self.augmented)

    def finish_without_empty(self) -> tuple[Records, Sequence[str]]:
        """The same without rows whose text is empty, and their names."""
        records = self.finish()
        if self.kind == "table":
            return records, ()
        texts: Sequence[str] = records.inputs  # type: ignore[assignment]  # as the kind says
        kept = [position for position, text in enumerate(texts) if text.strip()]
        if len(kept) == len(texts):
            return records, ()
        gone = set(range(len(texts))).difference(kept)
        return records.select(kept), [records.names[position] for position in sorted(gone)]
