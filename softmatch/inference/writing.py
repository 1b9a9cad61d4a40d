"""Tables written row by row as CSV, JSON lines or Parquet: complete or not at all, and never over another file."""

import csv
import json
import os
import secrets
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Literal
from urllib.parse import quote

import torch
from torch import Tensor

from softmatch.data.cells import guarded
from softmatch.errors import InputError, SoftmatchError

Cell = Literal["text", "number"]
"""Contents of a column: texts or float32 numbers; None in any of them is an empty cell."""
Values = Sequence[str | float | None] | Tensor
SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")
TASKS = ".json"
"""Suffix of a file of tasks for Label Studio."""
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
    others = (f"{wanted.stem}-{number}{wanted.suffix}" for number in count(2))
    return next(folder / each for each in chain([name], others) if not os.path.lexists(folder / each))


def refuse_existing(path: Path) -> None:
    """Raise InputError for a path that exists, or whose folder does not."""
    if os.path.lexists(path):
        raise InputError(f"{path} exists already and is never overwritten. Choose another --out.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {path.absolute().parent}.")


def refuse_unfit(out: Path | None, suffixes: Sequence[str] = SUFFIXES) -> None:
    """Raise InputError for a name under which no table can be written; None stands for any name."""
    if out is None:
        return
    if out.suffix.lower() not in suffixes:
        raise InputError(f"--out {out}: the name must end with {', '.join(suffixes[:-1])} or {suffixes[-1]}.")
    refuse_existing(out)


def choose_path(out: Path | None, folder: Path, name: str, suffixes: Sequence[str] = SUFFIXES) -> Path:
    """Choose the file of a table: `out` if it is given and possible, else a free name in the folder."""
    refuse_unfit(out, suffixes)
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


@contextmanager
def write_table(path: Path, columns: Mapping[str, Cell], raw: bool = False) -> Iterator[Callable[[Mapping[str, Values]], None]]:
    """Write a table piece by piece; it appears under its name when the block succeeds, and an interruption leaves no part of it.

    Yields a function that writes some rows, given by column. Cells of CSV that hold delimiters, quotes or line breaks are quoted;
    cells that a spreadsheet would run as formulas get a leading ' (see `softmatch.data.cells.guarded`). Characters that UTF-8
    does not have, as in some file names, are written as \\udc80.

    Args:
        columns: names, and what each holds.
        raw: write cells of CSV as they are, without a leading '.
    """
    if path == STDOUT:
        yield _text_rows(sys.stdout, ".csv", columns, raw)
        sys.stdout.flush()
        return
    suffix = path.suffix.lower()
    with appearing(path) as temporary:
        if suffix == ".parquet":
            file, write_rows = _parquet_rows(temporary, columns)
        else:
            file = temporary.open("w", encoding="utf-8", newline="")
            write_rows = _text_rows(file, suffix, columns, raw)

        def write(piece: Mapping[str, Values]) -> None:
            with explained(path):
                write_rows(piece)

        try:
            yield write
        finally:
            with explained(path):
                file.close()


def write_samples(
    path: Path, table: Mapping[str, Values], numbers: Collection[str], texts: Sequence[str] | None = None, raw: bool = False
) -> None:
    """Write a whole table of samples.

    Args:
        numbers: names of the columns that hold numbers; all others hold texts.
        texts: the samples, which become the last column, where they are texts.
        raw: see `write_table`.
    """
    if texts is not None:
        table = {**table, "text": texts}
    with write_table(path, {name: "number" if name in numbers else "text" for name in table}, raw) as write:
        write(table)


def write_tasks(path: Path, table: Mapping[str, Sequence[str | None]], images: bool, texts: Sequence[str] | None) -> None:
    """Write samples as tasks of Label Studio: `data` has the columns of the table, and the text or the address of the image.

    Images are in the folder that Label Studio serves as local files, under the names of the samples.
    """
    shown = {"text": texts} if texts is not None else {}
    if images:
        shown["image"] = [f"/data/local-files/?d={quote(str(name))}" for name in table["name"]]
    cells = {name: [str(cell or "") for cell in column] for name, column in {**shown, **table}.items()}
    tasks = [{"data": dict(zip(cells, row, strict=True))} for row in zip(*cells.values(), strict=True)]
    with appearing(path) as temporary, explained(path):
        temporary.write_text(json.dumps(tasks, indent=1), encoding="utf-8")


def _text_rows(file: IO[str], suffix: str, columns: Mapping[str, Cell], raw: bool) -> Callable[[Mapping[str, Values]], None]:
    """A function that writes rows of CSV or JSON lines; numbers have six significant digits."""
    # The csv module of Python 3.11 quotes a carriage return only where it belongs to the ends of lines.
    lines = SimpleNamespace(write=lambda row: file.write(row.removesuffix("\r\n") + "\n"))
    rows = csv.writer(lines, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\r\n")
    if suffix != ".jsonl":
        rows.writerow(columns)

    def write(piece: Mapping[str, Values]) -> None:
        shown: list[list[Any]] = []
        for name, kind in columns.items():
            cells = _cells(piece[name], kind)
            if kind == "number":
                cells = [None if cell is None else f"{cell:.{DIGITS}g}" for cell in cells]
            if suffix == ".jsonl" and kind == "number":
                cells = [None if cell is None else float(cell) for cell in cells]
            elif suffix != ".jsonl" and kind == "text" and not raw:
                cells = [None if cell is None else guarded(cell) for cell in cells]
            shown.append(cells)
        if suffix == ".jsonl":
            for row in zip(*shown, strict=True):
                file.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n")
        else:
            rows.writerows(zip(*shown, strict=True))

    return write


def _parquet_rows(path: Path, columns: Mapping[str, Cell]) -> tuple[Any, Callable[[Mapping[str, Values]], None]]:
    """An open file of Parquet, and a function that writes rows to it."""
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError as error:
        raise InputError("Parquet needs pyarrow: pip install 'softmatch[tables]', or let --out end with .csv.") from error
    schema = pa.schema([(name, pa.string() if kind == "text" else pa.float32()) for name, kind in columns.items()])
    file = pa.parquet.ParquetWriter(path, schema)

    def write(piece: Mapping[str, Values]) -> None:
        file.write_table(pa.table({name: _cells(piece[name], kind) for name, kind in columns.items()}, schema=schema))

    return file, write


def _cells(values: Values, kind: Cell) -> list[Any]:
    """Cells of a column; None for an empty one."""
    if isinstance(values, Tensor):
        return [None if value != value else value for value in values.to(torch.float32).tolist()]
    if kind == "number":
        return list(values)
    return [None if cell is None else str(cell).encode("utf-8", "backslashreplace").decode() for cell in values]
