"""What every reader of tables gives: names of columns, and rows a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy.typing as npt

from softmatch.data.records import Finding
from softmatch.errors import InputError

Piece = Mapping[str, Sequence[object] | npt.NDArray[Any]]
"""Consecutive rows by column: cells as the file has them, all columns of the same length."""


class TableReader(Protocol):
    """A table of which the outside is known.

    Attributes:
        names: of all its columns.
        findings: what was noticed.
    """

    names: tuple[str, ...]
    findings: list[Finding]

    def pieces(self, wanted: Sequence[str], rows: int) -> Iterator[Piece]:
        """These columns, at most so many rows at a time; none of a table without rows."""


def refuse_twice(names: Sequence[str], where: str) -> None:
    """Raise InputError for a name that two columns have."""
    seen: dict[str, int] = {}
    for position, name in enumerate(names, 1):
        if name in seen:
            raise InputError(f"{where}: columns {seen[name]} and {position} are both called {name!r}. Rename one of them.")
        seen[name] = position
