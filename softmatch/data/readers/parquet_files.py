"""Tables in Parquet files."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from softmatch.data.records import Finding, Piece, refuse_twice
from softmatch.errors import InputError

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
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        return InputError(f"{self.path} cannot be read as Parquet: {reason}")
