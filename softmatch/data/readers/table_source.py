"""Tables as sources: CSV, TSV, JSON lines, Parquet, or a text on every line; cells of JSON lines and Parquet have types."""

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from softmatch.data.cells import as_column, as_text_column, join_columns
from softmatch.data.readers.columns import decide
from softmatch.data.readers.csv_files import CELLS, Delimited, TextLines, read_lines
from softmatch.data.readers.labels import clean_labels
from softmatch.data.records import Column, Columns, Finding, InputKind, Opened, Piece, Records, TableReader, about, refuse_twice
from softmatch.errors import InputError, first_line

MOST_ROWS = 10_000
"""Objects in memory at a time."""
KEPT = 2**28
"""Characters of a file of lines whose values are kept, so that it is parsed once; a larger one is parsed again."""


class JsonRows:
    """A file of JSON objects, searched for its keys: an object may lack any of them, and a key may occur late."""

    def __init__(self, path: Path, rows: Sequence[dict[str, Any]] | None = None) -> None:
        self.path = path
        self.findings: list[Finding] = []
        keys: dict[str, None] = {}
        self._kept: list[tuple[Any, ...]] | None = []
        size = 0
        for row, length in self._rows() if rows is None else ((row, 0) for row in rows):
            keys.update(dict.fromkeys(row))
            size += length
            if size > KEPT:
                self._kept = None
            if self._kept is not None:
                self._kept.append(tuple(map(row.get, keys)))  # a key that comes later is missing here
        if not keys:
            raise InputError(f"{path} is empty: it must hold JSON objects, one on each line or in a list.")
        self.names = tuple(keys)

    def pieces(self, wanted: Sequence[str], rows: int) -> Iterator[Piece]:
        """Give the values of these keys, None where an object lacks one."""
        places = {name: self.names.index(name) for name in wanted}
        again = (tuple(map(row.get, self.names)) for row, _ in self._rows())
        body = again if self._kept is None else iter(self._kept)
        while chunk := list(islice(body, min(rows, MOST_ROWS))):
            yield {name: [row[at] if at < len(row) else None for row in chunk] for name, at in places.items()}

    def _rows(self) -> Iterator[tuple[dict[str, Any], int]]:
        """Give each object and the length of its line, 0 for those of a list: it is read as a whole."""
        lines, number = enumerate(read_lines(self.path), 1), 0
        for at, line in lines:
            if not number and line.lstrip().startswith("["):
                text = "".join(chain([line], (each for _, each in lines)))
                found = _parse(text, str(self.path))
                yield from ((self._object(row, f"row {position}"), 0) for position, row in enumerate(found, 1))
            elif line.strip():
                number += 1
                yield self._object(_parse(line, f"{self.path}, row {number} (line {at})"), f"row {number} (line {at})"), len(line)

    def _object(self, row: Any, place: str) -> dict[str, Any]:
        if not isinstance(row, dict):
            kind = {list: "list", str: "text", type(None): "null"}.get(type(row), "number")
            raise InputError(f'{self.path}, {place} is a {kind}, not an object such as {{"text": "…", "label": "…"}}.')
        return row


def _parse(text: str, place: str) -> Any:
    try:
        found = json.loads(text)
        if "\\ud" in text or "\\uD" in text:  # half of a pair that is one character cannot be written anywhere: it becomes "?"
            found = json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}" if "\n" in text.strip() else f"column {error.colno}"
        raise InputError(f"{place} is not JSON: {error.msg} at {at}.") from error
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, thousands of lists within each other
        raise InputError(f"{place} cannot be read as JSON: {error}.") from error
    return found


MOST_CELLS = 1_000_000
"""Cells in memory at a time."""


class Parquet:
    """A Parquet file whose schema has been read; it stays open. See `records.TableReader`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.findings: list[Finding] = []
        try:
            self.types = importlib.import_module("pyarrow.types")
            library = importlib.import_module("pyarrow.parquet")
        except ImportError as error:
            raise InputError(f"{path}: reading Parquet needs pyarrow: pip install 'softmatch[tables]'.") from error
        try:
            self.file: Any = library.ParquetFile(path)
        except Exception as error:  # pyarrow's errors have no common class, and a damaged file leads to any of them
            raise self._damaged(error) from error
        self.names: tuple[str, ...] = tuple(self.file.schema_arrow.names)
        refuse_twice(self.names, str(path))

    def pieces(self, wanted: Sequence[str], rows: int) -> Iterator[Piece]:
        """Give numbers as arrays, NaN where one is missing; everything else as Python objects."""
        most = max(1, min(rows, MOST_CELLS // max(len(wanted), 1)))
        try:
            for batch in self.file.iter_batches(batch_size=most, columns=list(wanted)):
                if batch.num_rows:
                    yield {name: self._cells(batch.column(name)) for name in wanted}
        except Exception as error:  # as above
            raise self._damaged(error) from error

    def _cells(self, column: Any) -> Any:
        exact = self.types.is_integer(column.type) and not column.null_count
        if exact or self.types.is_floating(column.type):
            return column.to_numpy(zero_copy_only=False)
        return column.to_pylist()

    def _damaged(self, error: Exception) -> InputError:
        reason = first_line(error)
        return InputError(f"{self.path} cannot be read as Parquet: {reason}")


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
    """Open a table of texts or of columns to learn from."""
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
