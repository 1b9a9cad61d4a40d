"""Tables written row by row as CSV, JSON lines or Parquet: complete or not at all, and never over another file."""

from __future__ import annotations

import csv
import json
import os
import secrets
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import torch
from torch import Tensor

from softmatch.data.cells import guarded
from softmatch.errors import InputError, SoftmatchError

Cell = Literal["text", "number", "count"]
"""Contents of a column: texts, float32 numbers, or whole numbers; None in any of them is an empty cell."""
Values = Sequence[str | float | None] | Tensor
SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")
STDOUT = Path("-")
"""Instead of a file: CSV on standard output."""
DIGITS = 6


def free_path(folder: Path, name: str) -> Path:
    """Choose folder/name, or name-2, -3, … if that exists. The folder is created."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be created: {error.strerror or error}. Choose another place with --out.") from error
    wanted = Path(name)
    path, number = folder / name, 1
    while os.path.lexists(path):
        number += 1
        path = folder / f"{wanted.stem}-{number}{wanted.suffix}"
    return path


def refuse_existing(path: Path) -> None:
    """Raise InputError for a path that exists, or whose folder does not."""
    if os.path.lexists(path):
        raise InputError(f"{path} exists already and is never overwritten. Choose another --out.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {path.absolute().parent}.")


def refuse_unfit(out: Path | None) -> None:
    """Raise InputError for a name under which no table can be written; None stands for any name."""
    if out is None:
        return
    if out.suffix.lower() not in SUFFIXES:
        raise InputError(f"--out {out}: the name must end with {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}.")
    refuse_existing(out)


def choose_path(out: Path | None, folder: Path, name: str) -> Path:
    """Choose the file of a table: `out` if it is given and possible, else a free name in the folder."""
    refuse_unfit(out)
    return free_path(folder, name) if out is None else out


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Give a temporary file beside the path; it is renamed to the path when the block succeeds, else removed."""
    temporary = path.with_name(f".{path.stem[:40]}.{secrets.token_hex(4)}{path.suffix}")
    try:
        with explained(path):
            temporary.touch(exist_ok=False)
        yield temporary
        with explained(path):
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            refuse_existing(path)  # again: it may have been created meanwhile
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Explain a full disk or a folder without permission."""
    try:
        yield
    except OSError as error:
        raise SoftmatchError(f"{path} cannot be written: {error.strerror or error}. Nothing was left there.") from error


class TableWriter:
    """Writes a table piece by piece; only a piece is in memory.

    Cells of CSV that hold delimiters, quotes or line breaks are quoted; cells that a spreadsheet would run as formulas get a
    leading ' (see `softmatch.data.cells.guarded`). Characters that UTF-8 does not have, as in some file names, are written as
    \\udc80.

    Args:
        columns: names, and what each holds.
        file: to write to instead of the path.
        raw: write cells of CSV as they are, without a leading '.
    """

    def __init__(self, path: Path, columns: Mapping[str, Cell], file: IO[str] | None = None, raw: bool = False) -> None:
        self.columns, self._raw, self._suffix = dict(columns), raw, path.suffix.lower()
        self._parquet: Any = None
        self._file: IO[str] | None = None
        if self._suffix == ".parquet":
            self._parquet, self._schema = _open_parquet(path, self.columns)
            return
        self._file = file or path.open("w", encoding="utf-8", newline="")
        # The csv module of Python 3.11 quotes a carriage return only where it belongs to the ends of lines.
        dialect: dict[str, Any] = {"delimiter": "\t" if self._suffix == ".tsv" else ",", "lineterminator": "\r\n"}
        self._rows = csv.writer(_Lines(self._file), **dialect)
        if self._suffix != ".jsonl":
            self._rows.writerow(list(self.columns))

    def write(self, piece: Mapping[str, Values]) -> None:
        """Write some rows, given by column."""
        cells = {name: _cells(piece[name], kind) for name, kind in self.columns.items()}
        if self._parquet is not None:
            import pyarrow as pa

            self._parquet.write_table(pa.table(cells, schema=self._schema))
        elif self._suffix == ".jsonl":
            assert self._file is not None
            rounded = [_rounded(cells[name], kind) for name, kind in self.columns.items()]
            for row in zip(*rounded, strict=True):
                self._file.write(json.dumps(dict(zip(self.columns, row, strict=True)), ensure_ascii=False) + "\n")
        else:
            shown = [_shown(cells[name], kind, self._raw) for name, kind in self.columns.items()]
            self._rows.writerows(zip(*shown, strict=True))

    def close(self) -> None:
        """Write what is still in memory."""
        if self._file is sys.stdout:
            self._file.flush()
            return
        for each in (self._parquet, self._file):
            if each is not None:
                each.close()


@contextmanager
def write_table(path: Path, columns: Mapping[str, Cell], raw: bool = False) -> Iterator[Callable[[Mapping[str, Values]], None]]:
    """Write a table that appears under its name when the block succeeds; an interruption leaves no part of it.

    Yields a function that writes some rows, given by column.
    """
    if path == STDOUT:
        out = TableWriter(path, columns, sys.stdout, raw)
        yield out.write
        out.close()
        return
    with appearing(path) as temporary:
        writer = TableWriter(temporary, columns, raw=raw)

        def write(piece: Mapping[str, Values]) -> None:
            with explained(path):
                writer.write(piece)

        try:
            yield write
        finally:
            with explained(path):
                writer.close()


def write_samples(
    path: Path,
    table: Mapping[str, Values],
    numbers: Collection[str],
    texts: Sequence[str] | None = None,
    raw: bool = False,
) -> None:
    """Write a whole table of samples.

    Args:
        numbers: names of the columns that hold numbers; all others hold texts.
        texts: the samples, which become the last column, where they are texts.
        raw: see `TableWriter`.
    """
    if texts is not None:
        table = {**table, "text": texts}
    with write_table(path, {name: "number" if name in numbers else "text" for name in table}, raw) as write:
        write(table)


class _Lines:
    """Ends rows with a line feed, as other tools of a shell expect."""

    def __init__(self, file: IO[str]) -> None:
        self.file = file

    def write(self, row: str) -> int:
        return self.file.write(row.removesuffix("\r\n") + "\n")


def _cells(values: Values, kind: Cell) -> list[Any]:
    if isinstance(values, Tensor):
        return [None if value != value else value for value in values.to(torch.float32).tolist()]
    return [None if cell is None else _clean(str(cell)) for cell in values] if kind == "text" else list(values)


def _clean(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _shown(cells: list[Any], kind: Cell, raw: bool) -> list[str]:
    """Cells of CSV."""
    if kind == "number":
        return ["" if cell is None else f"{cell:.{DIGITS}g}" for cell in cells]
    return ["" if cell is None else str(cell) if raw or kind == "count" else guarded(cell) for cell in cells]


def _rounded(cells: list[Any], kind: Cell) -> list[Any]:
    """Cells of JSON lines."""
    return [None if cell is None else float(f"{cell:.{DIGITS}g}") for cell in cells] if kind == "number" else cells


def _open_parquet(path: Path, columns: Mapping[str, Cell]) -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(
            "Parquet needs pyarrow: pip install 'softmatch[tables]', or give --out a name that ends with .csv."
        ) from error
    types = {"text": pa.string(), "number": pa.float32(), "count": pa.int64()}
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    return pa.parquet.ParquetWriter(path, schema), schema
