"""Tables as sources: CSV, TSV, JSON lines, Parquet, or a text on every line."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from softmatch.data.cells import as_column, as_text_column, join_columns
from softmatch.data.readers.columns import decide
from softmatch.data.readers.csv_files import CELLS, Delimited
from softmatch.data.readers.labels import clean_labels
from softmatch.data.readers.text_lines import TextLines
from softmatch.data.readers.typed_tables import JsonRows, Parquet
from softmatch.data.records import Column, Columns, Finding, InputKind, Opened, Piece, Records, TableReader, about
from softmatch.errors import InputError

READERS: dict[str, Callable[[Path], TableReader]] = {
    **dict.fromkeys((".csv", ".tsv"), Delimited),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), JsonRows),
    **dict.fromkeys((".parquet", ".pq"), Parquet),
    ".txt": TextLines,
}
SAMPLE = 1000
SAMPLE_CELLS = 200_000
"""Rows and cells that are looked at to find out what the columns are."""


class OpenedTable:
    """A table as a source. See `records.Opened`.

    `stream` gives every row. `read`, which is for training, leaves out those whose text is empty.
    """

    def __init__(self, reader: TableReader, where: str, columns: Columns, need_label: bool = True) -> None:
        self.where = where
        self.reader = reader
        most = max(50, min(SAMPLE, SAMPLE_CELLS // len(reader.names)))
        pieces = reader.pieces(reader.names, most)
        sample = next(pieces, None)
        if sample is None:
            raise InputError(f"{where} has no rows.")
        whole = next(pieces, None) is None
        self.columns, found = decide({name: list(cells) for name, cells in sample.items()}, columns, where, need_label, whole)
        self.kind: InputKind = "table" if self.columns.text is None else "text"
        self.findings: list[Finding] = [*reader.findings, *found]
        self.test: Opened | None = None

    def read(self) -> Records:
        """Read everything. Rows without a text are left out and reported."""
        rows = self._rows(1)
        for piece in self.reader.pieces(rows.wanted, CELLS):
            rows.add(piece)
        records = rows.finish()
        if self.kind != "text":
            return records
        texts: Sequence[str] = records.inputs  # type: ignore[assignment]  # as the kind says
        empty = [f"row {name}" for name, text in zip(records.names, texts, strict=True) if not text.strip()]
        if not empty:
            return records
        count = "1 row has no text and is" if len(empty) == 1 else f"{len(empty):,} rows have no text and are"
        self.findings += about("warning", f"{self.where}: {count} left out", empty)
        return records.select([position for position, text in enumerate(texts) if text.strip()])

    def stream(self, rows: int) -> Iterator[Records]:
        """Give all rows in order, `rows` at a time, with the labels that there are."""
        gathered = self._rows(1)
        for piece in self.reader.pieces(gathered.wanted, rows):
            start = 0
            while start < len(next(iter(piece.values()))):
                part = {name: cells[start : start + rows - len(gathered.labels)] for name, cells in piece.items()}
                gathered.add(part)
                start += len(next(iter(part.values())))
                if len(gathered.labels) == rows:
                    yield gathered.finish()
                    gathered = self._rows(gathered.first + rows)
        if gathered.labels:
            yield gathered.finish()

    def _rows(self, first: int) -> "_Rows":
        return _Rows(self.columns, self.kind, self.where, first)


class _Rows:
    """Columns that grow piece by piece, numbers as numbers at once.

    Attributes:
        wanted: the columns that `add` takes.
        first: number of the first row.
    """

    def __init__(self, columns: Columns, kind: InputKind, where: str, first: int) -> None:
        self.columns, self.kind, self.where, self.first = columns, kind, where, first
        self.inputs: tuple[str, ...] = columns.features or ((columns.text,) if columns.text is not None else ())
        self.augmented: tuple[str, ...] = columns.augmented or ()
        read = (*self.inputs, *self.augmented)
        others = (*columns.kept, *(() if columns.label is None else (columns.label,)))
        self.wanted: Sequence[str] = (*read, *(name for name in dict.fromkeys(others) if name not in read))
        self.parts: dict[str, list[Column]] = {name: [] for name in read}
        self.kept: dict[str, list[str]] = {name: [] for name in columns.kept}
        self.labels: list[str | None] = []

    def add(self, piece: Piece) -> None:
        """Take the next rows."""
        first = self.first + len(self.labels)
        make = as_text_column if self.kind == "text" else as_column
        for name, parts in self.parts.items():
            parts.append(self._share(make(piece[name], self.where, name, first)))
        for name, cells in self.kept.items():
            cells += as_text_column(piece[name], self.where, name, first)
        if self.columns.label is None:
            self.labels.extend([None] * len(piece[self.inputs[0]]))
            return
        values: Any = piece[self.columns.label]
        values = values.tolist() if isinstance(values, np.ndarray) else values
        self.labels.extend(clean_labels(values, self.columns.unlabeled, self.where, first))

    def _share(self, column: Column) -> Column:
        """Keep equal texts once in memory: a file gives a new one for every cell."""
        if self.kind == "text" or isinstance(column, np.ndarray):
            return column
        return [sys.intern(str(cell)) for cell in column]

    def finish(self) -> Records:
        """Join all rows so far."""
        names = list(map(str, range(self.first, self.first + len(self.labels))))
        columns = {name: self._share(join_columns(self.parts.pop(name))) for name in self.inputs}
        if self.kind == "table":
            return Records("table", columns, names, self.labels, kept=self.kept)
        texts: list[str] = list(columns[self.inputs[0]])  # `add` has made texts of them
        augmented = [list(join_columns(self.parts.pop(name))) for name in self.augmented]
        return Records("text", texts, names, self.labels, augmented, self.augmented, self.kept)


def open_table(path: Path, columns: Columns, need_label: bool = True, reader: TableReader | None = None) -> OpenedTable:
    """Open a table of texts or of columns to learn from.

    Args:
        columns: the meaning of columns, as far as the user says so; the rest is found and reported.
        need_label: a table without a column of labels is an error.
    """
    reader = reader or read_table(path)
    if isinstance(reader, TextLines):
        if need_label:
            raise InputError(f"{path} has a text on every line and no labels: for training, give a table such as a .csv.")
        columns = Columns(text=TextLines.names[0], kept=columns.kept)
    return OpenedTable(reader, str(path), columns, need_label)


def is_table(path: Path) -> bool:
    """Tell whether a file is called like a table, or like a file with a text on every line."""
    return _suffix(path) in READERS


def is_delimited(path: Path) -> bool:
    """Tell whether a file is called like a table of cells between delimiters."""
    return READERS.get(_suffix(path)) is Delimited


def read_table(path: Path) -> TableReader:
    """Choose the reader by the name of the file."""
    if not is_table(path):
        raise InputError(f"{path} is not a table that can be read: give a .csv, .tsv, .jsonl or .parquet file.")
    return READERS[_suffix(path)](path)


def _suffix(path: Path) -> str:
    """Suffix of the file after decompression."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = suffixes[-1:] == [".gz"] and len(suffixes) > 1 and READERS.get(suffixes[-2]) is not Parquet
    return suffixes[-2] if packed else suffixes[-1] if suffixes else ""
