"""Tables whose cells have types: JSON objects, one on each line or in a list, and Parquet files."""

import importlib
import json
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from softmatch.data.readers.text_lines import read_lines
from softmatch.data.records import Finding, Piece, refuse_twice
from softmatch.errors import InputError, first_line

MOST_ROWS = 10_000
"""Objects in memory at a time."""
KEPT = 2**28
"""Characters of a file of lines whose values are kept, so that it is parsed once; a larger one is parsed again."""


class JsonRows:
    """A file of JSON objects, searched for its keys: an object may lack any of them, and a key may occur late.

    Args:
        rows: the objects, where they have been read already.

    Attributes:
        names: all keys, in the order in which they first occur.
        findings: none; what is wrong is an error.
    """

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


CELLS = 1_000_000
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
        most = max(1, min(rows, CELLS // max(len(wanted), 1)))
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
