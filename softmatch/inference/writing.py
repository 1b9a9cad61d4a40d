"""Tables written row by row as CSV or Parquet: whole or not at all, and never over another file."""

from __future__ import annotations

import csv
import os
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import torch
from torch import Tensor

from softmatch.errors import InputError, SoftmatchError

Cell = Literal["text", "number", "count"]
"""What a column holds: texts, float32 numbers, or whole numbers; None in any of them is an empty cell."""
Values = Sequence[str | float | None] | Tensor
SUFFIXES = (".csv", ".tsv", ".parquet")
DIGITS = 6


def free_path(folder: Path, name: str) -> Path:
    """folder/name, or name-2, -3, … before the suffix where that exists. The folder is made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made: {error.strerror or error}. Give another place with --out.") from error
    wanted = Path(name)
    path, number = folder / name, 1
    while os.path.lexists(path):
        number += 1
        path = folder / f"{wanted.stem}-{number}{wanted.suffix}"
    return path


def refuse_existing(path: Path) -> None:
    """Raise InputError for something that is there, or that lies in no folder."""
    if os.path.lexists(path):
        raise InputError(f"{path} exists already and is never overwritten: choose another --out.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {path.absolute().parent}.")


def refuse_unfit(out: Path | None) -> None:
    """Raise InputError for a table that cannot be written under this name; None is any name."""
    if out is None:
        return
    if out.suffix.lower() not in SUFFIXES:
        raise InputError(f"--out {out}: its name must end with {' or '.join(SUFFIXES)}.")
    refuse_existing(out)


def choose_path(out: Path | None, folder: Path, name: str) -> Path:
    """Where to write a table: `out` if it is given and fit, else a free name in the folder."""
    refuse_unfit(out)
    return free_path(folder, name) if out is None else out


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """A temporary name beside the path, which gets the path's name when the block ends well and is removed when it does not."""
    temporary = path.with_name(f".{path.stem[:40]}.{secrets.token_hex(4)}{path.suffix}")
    try:
        with explained(path):
            temporary.touch(exist_ok=False)
        yield temporary
        with explained(path):
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            refuse_existing(path)  # once more: it may have come meanwhile
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """What a full disk or a folder without permission is, in words."""
    try:
        yield
    except OSError as error:
        raise SoftmatchError(f"{path} cannot be written: {error.strerror or error}. Nothing was left there.") from error


class TableWriter:
    """Writes a table piece by piece; only a piece is in memory.

    Cells of CSV that hold delimiters, quotes or line breaks stand in quotes. Cells that begin with = + - or @ are written as
    they are: a spreadsheet may take them for formulas. Letters that UTF-8 does not have, as in names of files that are none,
    are written as \\udc80.

    Args:
        columns: names, and what each holds.
    """

    def __init__(self, path: Path, columns: Mapping[str, Cell]) -> None:
        self.columns = dict(columns)
        self._parquet: Any = None
        self._file: IO[str] | None = None
        if path.suffix.lower() == ".parquet":
            self._parquet, self._schema = _open_parquet(path, self.columns)
        else:
            self._file = path.open("w", encoding="utf-8", newline="")
            # The csv module of Python 3.11 quotes a carriage return only where it belongs to the ends of lines.
            dialect: dict[str, Any] = {"delimiter": "\t" if path.suffix.lower() == ".tsv" else ",", "lineterminator": "\r\n"}
            self._rows = csv.writer(_Lines(self._file), **dialect)
            self._rows.writerow(list(self.columns))

    def write(self, piece: Mapping[str, Values]) -> None:
        """Some rows, given by column."""
        cells = {name: _cells(piece[name], kind) for name, kind in self.columns.items()}
        if self._parquet is not None:
            import pyarrow as pa

            self._parquet.write_table(pa.table(cells, schema=self._schema))
            return
        shown = [_shown(cells[name], kind) for name, kind in self.columns.items()]
        self._rows.writerows(zip(*shown, strict=True))

    def close(self) -> None:
        """Write what is still in memory."""
        for each in (self._parquet, self._file):
            if each is not None:
                each.close()


@contextmanager
def write_table(path: Path, columns: Mapping[str, Cell]) -> Iterator[Callable[[Mapping[str, Values]], None]]:
    """A table that appears under its name when the block ends well; an interruption leaves nothing that looks like one.

    Yields what writes some rows, given by column.
    """
    with appearing(path) as temporary:
        writer = TableWriter(temporary, columns)

        def write(piece: Mapping[str, Values]) -> None:
            with explained(path):
                writer.write(piece)

        try:
            yield write
        finally:
            with explained(path):
                writer.close()


def write_samples(path: Path, table: Mapping[str, Values], numbers: Collection[str], texts: Sequence[str] | None = None) -> None:
    """A whole table of samples.

    Args:
        numbers: names of the columns that hold numbers; all others hold texts.
        texts: of the samples, which become the last column, where they are texts.
    """
    if texts is not None:
        table = {**table, "text": texts}
    with write_table(path, {name: "number" if name in numbers else "text" for name in table}) as write:
        write(table)


class _Lines:
    """Rows with a mere line feed at their end, as other tools of a shell expect."""

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


def _shown(cells: list[Any], kind: Cell) -> list[str]:
    if kind == "number":
        return ["" if cell is None else f"{cell:.{DIGITS}g}" for cell in cells]
    return ["" if cell is None else str(cell) for cell in cells]


def _open_parquet(path: Path, columns: Mapping[str, Cell]) -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError as error:
        raise InputError("Parquet needs pyarrow: pip install 'softmatch[tables]', or give --out a name in .csv.") from error
    types = {"text": pa.string(), "number": pa.float32(), "count": pa.int64()}
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    return pa.parquet.ParquetWriter(path, schema), schema
