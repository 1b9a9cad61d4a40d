"""Claims of the paper about two rows of a sheet, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper: `row` has less of the measure than `other` ("lower"), more ("higher"), or as much ("close")."""

    kind: Literal["lower", "higher", "close"]
    row: str
    other: str
    text: str
    measure: str = "error"  # a key of `softmatch.experiments.results.measures.MEASURES`
    against: str | None = None  # measure of `other`, if it is another one
    columns: Sequence[str] = ()  # titles; empty: all columns
    but: Sequence[str] = ()  # titles of columns that the paper excludes

    def is_about(self, column: str) -> bool:
        return (not self.columns or column in self.columns) and column not in self.but


lower, higher, close = partial(Claim, "lower"), partial(Claim, "higher"), partial(Claim, "close")
