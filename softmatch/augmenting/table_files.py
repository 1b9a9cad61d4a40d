"""Tables of texts, read as they are and written again with further columns: every cell, row and column stays what it was."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from softmatch.augmenting.probing import refuse_unwritable
from softmatch.data.cells import as_text_column
from softmatch.data.readers.columns import AUGMENTED
from softmatch.data.readers.csv_files import CELLS, NOTHING, Delimited
from softmatch.data.readers.json_files import JsonRows
from softmatch.data.readers.parquet_files import Parquet
from softmatch.data.readers.table_source import is_table, open_table
from softmatch.data.readers.text_lines import TextLines, read_lines
from softmatch.data.records import Columns, Finding
from softmatch.data.sources import SOURCES
from softmatch.errors import InputError, SoftmatchError, nearest
from softmatch.files.cache import identity
from softmatch.files.paths import expand_home
from softmatch.inference.writing import appearing, explained, refuse_existing

__all__ = ["TextTable", "choose_out", "find_table", "open_texts", "write_columns"]

SUFFIXES: dict[type, tuple[str, ...]] = {
    Delimited: (".csv", ".tsv"),
    TextLines: (".csv", ".tsv", ".jsonl"),
    JsonRows: (".jsonl", ".ndjson"),
    Parquet: (".parquet", ".pq"),
}
"""What each kind of table can be written as; the first where its own suffix is none of them."""


@dataclass(frozen=True)
class TextTable:
    """A table of which the texts have been read.

    Attributes:
        text, label: columns; there may be no labels.
        texts: of every row; "" where there is none.
        identity: tells whether the file is still the same.
    """

    path: Path
    reader: Any
    text: str
    label: str | None
    texts: list[str]
    findings: tuple[Finding, ...]
    identity: object

    def next_names(self, number: int) -> list[str]:
        """aug_N for so many new columns, after those that there are."""
        taken = [int(name.partition("_")[2]) for name in self.reader.names if AUGMENTED.fullmatch(name)]
        first = max(taken, default=-1) + 1
        return [f"aug_{first + place}" for place in range(number)]


def find_table(where: str | Path) -> Path:
    """The file of a table.

    Raises:
        InputError: it is none.
    """
    path = expand_home(where)
    if path.is_dir():
        tables = sorted(each.name for each in path.iterdir() if each.is_file() and is_table(each))
        tables.sort(key=lambda name: "train" not in name.lower())  # what is tested on needs no versions
        named = f", such as {path / tables[0]}" if tables else ""
        raise InputError(f"{where} is a folder: give one table of texts{named}.")
    if not path.is_file():
        if path.suffix:
            raise InputError(f"there is no file {where}.")
        known = [source.name for source in SOURCES.values() if source.texts]
        raise InputError(f"there is no file {where}, and no source of texts of that name. {nearest(str(where), known)}")
    if not is_table(path):
        raise InputError(f"{path} is no table of texts: give a .csv, .tsv, .jsonl, .parquet or .txt file.")
    return path


def open_texts(path: Path, text: str | None = None) -> TextTable:
    """Read the texts of a table.

    Args:
        text: their column, where it is not obvious.

    Raises:
        InputError: it cannot be read, or has no texts.
    """
    status = identity([path])
    opened = open_table(path, Columns(text=text), need_label=False)
    column = opened.columns.text
    if column is None:
        names = ", ".join(opened.reader.names)
        raise InputError(f"{path}: it is not obvious which column holds the texts: there are {names}. Give --text COLUMN.")
    texts = list[str]()
    for piece in opened.reader.pieces([column], CELLS):
        texts += as_text_column(piece[column], str(path), column, len(texts) + 1)
    if not any(map(str.strip, texts)):
        raise InputError(f"{path}: column {column!r} has no texts. Name another with --text COLUMN.")
    return TextTable(path, opened.reader, column, opened.columns.label, texts, tuple(opened.findings), status)


def choose_out(path: Path, out: Path | None) -> Path:
    """Where the table is to be written: `out`, or beside it with "-augmented" in its name.

    Raises:
        InputError: something is there, nothing can be written there, or the name is one of another format.
    """
    name = path.name[:-3] if path.suffix.lower() == ".gz" else path.name
    own = Path(name).suffix.lower()
    allowed = next(
        (each for each in SUFFIXES.values() if own in each), {".txt": SUFFIXES[TextLines]}.get(own, SUFFIXES[JsonRows])
    )
    if out is None:
        out = path.with_name(f"{Path(name).stem}-augmented{own if own in allowed else allowed[0]}")
    out = expand_home(out)
    if out.suffix.lower() not in allowed:
        raise InputError(f"--out {out}: a {own} is written as {' or '.join(allowed)}: give it such a name.")
    refuse_existing(out)
    refuse_unwritable(out)
    return out


def write_columns(table: TextTable, out: Path, columns: Mapping[str, Sequence[str]]) -> None:
    """The table with further columns at its end: whole or not at all, and never over another file."""
    if identity([table.path]) != table.identity:
        raise SoftmatchError(f"{table.path} has changed since it was read. What was made is kept: start the same command again.")
    with appearing(out) as temporary, explained(out):
        if isinstance(table.reader, Parquet):
            _write_parquet(temporary, table.reader, columns)
        elif out.suffix.lower() in SUFFIXES[JsonRows]:
            _write_json(temporary, table, columns)
        else:
            _write_delimited(temporary, table, columns)


def _write_delimited(path: Path, table: TextTable, columns: Mapping[str, Sequence[str]]) -> None:
    reader, new = table.reader, list(columns.values())
    own = reader.delimiter if isinstance(reader, Delimited) and path.suffix in table.path.suffixes else NOTHING
    delimiter = own if own != NOTHING else "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open("w", encoding="utf-8", newline="") as file:
        # The csv module of Python 3.11 quotes a carriage return only where it belongs to the ends of lines.
        lines = SimpleNamespace(write=lambda row: file.write(row.removesuffix("\r\n") + "\n"))
        rows = csv.writer(lines, delimiter=delimiter, lineterminator="\r\n")
        rows.writerow([*reader.names, *columns])
        pieces = reader.pieces(reader.names, CELLS)
        given = chain.from_iterable(zip(*(piece[name] for name in reader.names), strict=True) for piece in pieces)
        for old, made in zip(given, zip(*new, strict=True), strict=True):
            rows.writerow([*old, *made])


def _write_json(path: Path, table: TextTable, columns: Mapping[str, Sequence[str]]) -> None:
    """Objects stay as they are written, to the last digit: the new keys are put before their closing brace."""
    with path.open("w", encoding="utf-8", newline="") as file:
        for row, made in zip(_json_rows(table), zip(*columns.values(), strict=True), strict=True):
            rest = row.strip()[:-1].rstrip()
            added = json.dumps(dict(zip(columns, made, strict=True)), ensure_ascii=False)[1:]
            file.write(f"{rest}{'' if rest == '{' else ', '}{added}\n")


def _json_rows(table: TextTable) -> Iterator[str]:
    reader = table.reader
    if isinstance(reader, JsonRows) and reader.listed is None:
        yield from (line for line in read_lines(table.path) if line.strip())
        return
    rows: Iterable[object] = ({table.text: text} for text in table.texts)
    if isinstance(reader, JsonRows):
        rows = reader.listed or ()
    for row in rows:
        yield json.dumps(row, ensure_ascii=False)


def _write_parquet(path: Path, reader: Parquet, columns: Mapping[str, Sequence[str]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    schema, start = reader.file.schema_arrow, 0
    for name in columns:
        schema = schema.append(pa.field(name, pa.string()))
    with pa.parquet.ParquetWriter(path, schema) as writer:
        for batch in reader.file.iter_batches():
            stop = start + batch.num_rows
            new = [pa.array(column[start:stop], pa.string()) for column in columns.values()]
            writer.write_batch(pa.record_batch([*batch.columns, *new], schema=schema))
            start = stop
