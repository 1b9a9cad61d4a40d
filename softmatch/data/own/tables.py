"""A table in a file as a source: CSV, TSV, JSON lines, Parquet, or a text on every line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from softmatch.data.own.columns import decide
from softmatch.data.own.delimited import CELLS, Delimited
from softmatch.data.own.gathering import Gathering
from softmatch.data.own.jsons import JsonRows
from softmatch.data.own.lines import read_lines
from softmatch.data.own.parquet import Parquet
from softmatch.data.own.piece import Piece, TableReader
from softmatch.data.records import Columns, Finding, InputKind, Opened, Records
from softmatch.errors import InputError
from softmatch.formatting import some

DELIMITED = (".csv", ".tsv")
JSON = (".jsonl", ".ndjson", ".json")
PARQUET = (".parquet", ".pq")
TEXT = ".txt"
SAMPLE = 1000
SAMPLE_CELLS = 200_000
"""How many rows and cells are looked at to find out what the columns are."""


class OpenedTable:
    """A table as a source. See `records.Opened`.

    Every row of it is in what `stream` gives. `read`, which is for training, leaves out those whose text is empty.

    Attributes:
        test: None, unless whoever has opened it knows of a table for testing that belongs to it.
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
        decided = decide({name: list(cells) for name, cells in sample.items()}, columns, where, need_label, whole)
        self.columns = decided.columns
        self.kind: InputKind = decided.kind
        self.findings: list[Finding] = [*reader.findings, *decided.findings]
        self.test: Opened | None = None

    def read(self) -> Records:
        """Everything. Rows without a text are left out, and a finding."""
        gathering = self._gathering(1)
        for piece in self.reader.pieces(gathering.wanted, CELLS):
            gathering.add(piece)
        records, empty = gathering.finish_without_empty()
        if empty:
            count = "1 row has no text and is" if len(empty) == 1 else f"{len(empty):,} rows have no text and are"
            text = f"{self.where}: {count} left out: {some([f'row {name}' for name in empty])}."
            self.findings.append(Finding("warning", text, tuple(empty)))
        return records

    def stream(self, rows: int) -> Iterator[Records]:
        """All rows in order, `rows` at a time, with the labels that there are."""
        gathering = self._gathering(1)
        for piece in self.reader.pieces(gathering.wanted, rows):
            start = 0
            while start < len(next(iter(piece.values()))):
                part = {name: cells[start : start + rows - len(gathering)] for name, cells in piece.items()}
                gathering.add(part)
                start += len(next(iter(part.values())))
                if len(gathering) == rows:
                    records = gathering.finish()
                    yield records
                    gathering = self._gathering(gathering.first + len(records))
        if len(gathering):
            yield gathering.finish()

    def _gathering(self, first: int) -> Gathering:
        return Gathering(self.columns, self.kind, self.where, first)


def open_table(path: Path, columns: Columns, need_label: bool = True) -> OpenedTable:
    """A table of texts or of columns to learn from.

    Args:
        columns: which columns are what, as far as the user says so; the rest is found, and told in the findings.
        need_label: whether a table without a column of labels is an error.

    Raises:
        InputError: for what cannot be read, and where it is not obvious what the columns are.
    """
    if _suffix(path) == TEXT:
        if need_label:
            raise InputError(f"{path} has a text on every line and no labels: for training, give a table such as a .csv.")
        return OpenedTable(TextLines(path), str(path), Columns(text=TextLines.names[0]), need_label=False)
    return OpenedTable(_reader(path), str(path), columns, need_label)


def is_table(path: Path) -> bool:
    """Whether the name is one of a table that can be read, or of a file with a text on every line."""
    return _suffix(path) in (*DELIMITED, *JSON, *PARQUET, TEXT)


def read_head(path: Path, rows: int) -> Piece:
    """The first cells of every column, as they stand there; nothing of a file with a text on every line."""
    if _suffix(path) == TEXT:
        return {}
    reader = JsonRows(path, rows) if _suffix(path) in JSON else _reader(path)
    return next(reader.pieces(reader.names, rows), {})


def read_columns(path: Path) -> dict[str, list[str]]:
    """All cells of a CSV or TSV as text, by the name of their column.

    Raises:
        InputError: for what is no such table, naming file, row and line.
    """
    file = Delimited(path)
    found: dict[str, list[str]] = {name: [] for name in file.names}
    for piece in file.pieces(file.names, CELLS):
        for name, cells in piece.items():
            found[name].extend(map(str, cells))
    return found


class TextLines:
    """A text on every line; blank lines are none."""

    names: tuple[str, ...] = ("text",)

    def __init__(self, path: Path) -> None:
        self.path = path
        self.findings: list[Finding] = []

    def pieces(self, wanted: Sequence[str], rows: int) -> Iterator[Piece]:
        """The texts, at most so many at a time."""
        body = (line.rstrip("\r\n") for line in read_lines(self.path) if line.strip())
        while chunk := list(islice(body, min(rows, CELLS))):
            yield dict.fromkeys(wanted, chunk)


def _suffix(path: Path) -> str:
    """Of the file once unpacked."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"] and suffixes[-2:-1] and suffixes[-2] not in PARQUET:
        return suffixes[-2]
    return suffixes[-1] if suffixes else ""


def _reader(path: Path) -> TableReader:
    suffix = _suffix(path)
    if suffix in PARQUET:
        return Parquet(path)
    if suffix in JSON:
        return JsonRows(path)
    if suffix in DELIMITED:
        return Delimited(path)
    raise InputError(f"{path} is no table that can be read: give a .csv, .tsv, .jsonl or .parquet file.")
