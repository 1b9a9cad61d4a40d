"""Single columns of a table as features: numbers, dates and categories."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from softmatch.data.cells import is_missing, number_text, parse_number
from softmatch.data.records import Column

Floats = npt.NDArray[np.float64]
Features = npt.NDArray[np.float32]

ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TRUTH = {"true": 1.0, "false": 0.0}
MISSING, OTHER = -1, -2
"""Codes in place of the position of a category."""


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers, truth values or dates: one feature, and one that says where the value is missing.

    Attributes:
        form: how cells are read.
        fill: in place of a missing value.
        low, high: a value beyond them is taken as the nearer of them.
        scale: width of the values in the data that it was fitted to; 0: all were the same, and only the second feature is made.
        indicator: whether the second feature is made.
    """

    name: str
    form: Literal["number", "date"]
    fill: float
    low: float
    high: float
    scale: float
    indicator: bool

    @property
    def width(self) -> int:
        return int(self.scale > 0) + int(self.indicator)

    def write(self, column: Column, into: Features) -> None:
        """Fill `into` (n, width)."""
        values = read_numbers(column, self.form)
        missing = ~np.isfinite(values)
        if self.scale > 0:
            values = np.clip(np.where(missing, self.fill, values), self.low, self.high)
            # halves: the difference of two large numbers may not be a number; centred: float32 keeps 7 digits of a difference
            into[:, 0] = (0.5 * values - 0.5 * self.fill) / (0.5 * self.scale)
        if self.indicator:
            into[:, -1] = missing

    def settings(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class CategoryColumn:
    """A column of words: a feature for each category, one for all others, one for missing values.

    Attributes:
        other, indicator: whether the last two are made.
    """

    name: str
    categories: tuple[str, ...]
    other: bool
    indicator: bool

    @property
    def width(self) -> int:
        return len(self.categories) + int(self.other) + int(self.indicator)

    def write(self, column: Column, into: Features) -> None:
        """Fill `into` (n, width)."""
        known = {category: position for position, category in enumerate(self.categories)}
        distinct, codes = read_categories(column)
        places = np.array([MISSING if word is None else known.get(word, OTHER) for word in distinct], np.int64)[codes]
        into[:] = 0
        rows = np.flatnonzero(places >= 0)
        into[rows, places[rows]] = 1
        if self.other:
            into[:, len(self.categories)] = places == OTHER
        if self.indicator:
            into[:, -1] = places == MISSING

    def settings(self) -> dict[str, Any]:
        return {**asdict(self), "form": "category", "categories": list(self.categories)}


def column_from(settings: Mapping[str, Any]) -> NumberColumn | CategoryColumn:
    """Invert `settings`."""
    values = dict(settings)
    if values["form"] != "category":
        return NumberColumn(**values)
    del values["form"]
    return CategoryColumn(**{**values, "categories": tuple(values["categories"])})


def read_distinct(column: Sequence[str]) -> tuple[list[str], npt.NDArray[np.int64]]:
    """List the different texts of a column, and the position of each cell in the list."""
    seen: dict[str, int] = {}
    codes = np.fromiter((seen.setdefault(cell, len(seen)) for cell in column), np.int64, len(column))
    return list(seen), codes


def read_numbers(column: Column, form: Literal["number", "date"]) -> Floats:
    """Read a number from each cell; NaN where it is missing or not a number. Infinity stays."""
    if isinstance(column, np.ndarray):
        return column if form == "number" else np.full(len(column), math.nan)
    distinct, codes = read_distinct(column)
    parse: Callable[[str], float | None] = parse_cell if form == "number" else parse_date
    found = [parse(text) for text in distinct]
    return np.array([math.nan if value is None else value for value in found], np.float64)[codes]


def parse_cell(text: str) -> float | None:
    """Read a number, or 1 and 0 for true and false; NaN: missing; None: something else."""
    if is_missing(text):
        return math.nan
    number = parse_number(text)
    return TRUTH.get(text.strip().lower()) if number is None else number


def parse_date(text: str) -> float | None:
    """Read an ISO date as days since 1970, with or without a time; NaN: missing; None: something else. Default: UTC."""
    if is_missing(text):
        return math.nan
    if not ISO_DATE.fullmatch(text.strip()):
        return None
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return (found - EPOCH).total_seconds() / 86400


def read_categories(column: Column) -> tuple[list[str | None], npt.NDArray[np.int64]]:
    """List the words of a column, None where one is missing, and the position of each cell. 1, 1.0 and " 1" are one word."""
    if isinstance(column, np.ndarray):
        numbers, codes = np.unique(column, return_inverse=True)
        return [_word(value) for value in numbers.tolist()], codes
    distinct, codes = read_distinct(column)
    words: list[str | None] = []
    for text in distinct:
        number = parse_number(text)
        missing = is_missing(text)
        words.append(None if missing else text.strip() if number is None else _word(number))
    return words, codes


def _word(number: float) -> str | None:
    return number_text(number) if math.isfinite(number) else None
