"""Single columns of a table as features: numbers, dates and categories, chosen by all cells of the column."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, FiniteFloat

from softmatch.data.cells import is_missing, number_text, parse_number
from softmatch.data.records import Column

STRICT = ConfigDict(extra="forbid", strict=True)
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

    __pydantic_config__ = STRICT
    name: str
    form: Literal["number", "date"]
    fill: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat
    scale: FiniteFloat
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


@dataclass(frozen=True)
class CategoryColumn:
    """A column of words: a feature for each category, one for all others, one for missing values.

    Attributes:
        other, indicator: whether the last two are made.
    """

    __pydantic_config__ = STRICT
    name: str
    categories: tuple[str, ...]
    other: bool
    indicator: bool
    form: Literal["category"] = "category"

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


MOSTLY = 0.95
MOST_CATEGORIES = 50
FEW = 0.05
LEAST = 0.001
"""Share of the rows below which a category or an indicator is not a feature: its rare 1 would be huge once standardised."""
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Fitted:
    """Result for a column.

    Attributes:
        part: the column as features; None: it is left out.
        left_out: the reason.
        missing: number of cells without a value.
        unreadable, infinite: cells that are taken as missing, by their position.
        decimal_commas: the words look like numbers with a decimal comma.
    """

    part: NumberColumn | CategoryColumn | None
    left_out: str = ""
    missing: int = 0
    unreadable: Mapping[int, str] = field(default_factory=dict)
    infinite: Mapping[int, str] = field(default_factory=dict)
    decimal_commas: bool = False


def fit_column(name: str, column: Column) -> Fitted:
    """Choose numbers or dates if nearly all values are, or categories if there are few of them."""
    if isinstance(column, np.ndarray):
        return _numbers(name, "number", column, {})
    distinct, codes = read_distinct(column)
    counts = np.bincount(codes, minlength=len(distinct))
    for form, parse in _FORMS.items():
        values = [parse(text) for text in distinct]
        there = np.array([value is None or not math.isnan(value) for value in values])
        read = np.array([value is not None and not math.isnan(value) for value in values])
        if counts[read].sum() >= MOSTLY * counts[there].sum():  # a column of missing values is one of numbers
            wrong = np.flatnonzero([value is None for value in values])
            positions = np.flatnonzero(np.isin(codes, wrong)) if len(wrong) else wrong
            numbers = np.array([math.nan if value is None else value for value in values], np.float64)[codes]
            return _numbers(name, form, numbers, {int(at): column[int(at)] for at in positions})
    return _categories(name, column, distinct)


_FORMS: Mapping[Literal["number", "date"], Callable[[str], float | None]] = {"number": parse_cell, "date": parse_date}


def _numbers(
    name: str, form: Literal["number", "date"], values: npt.NDArray[np.float64], unreadable: Mapping[int, str]
) -> Fitted:
    finite = np.isfinite(values)
    known = values[finite]
    infinite = {int(at): str(values[at]) for at in np.flatnonzero(np.isinf(values))}
    empty = len(values) - len(known)
    missing = empty - len(infinite) - len(unreadable)
    if not len(known):
        return Fitted(None, "no values", missing, unreadable, infinite)
    low, high = float(known.min()), float(known.max())
    half = 0.5 * high - 0.5 * low  # the difference itself may be too large to be a number
    indicator = empty > 0 and empty >= LEAST * len(values)
    if half == 0 and not indicator:
        return Fitted(None, "always the same", missing, unreadable, infinite)
    part = NumberColumn(
        name=name,
        form=form,
        fill=float(np.median(0.5 * known)) * 2,
        low=max(0.5 * low - half, -0.5 * LARGEST) * 2,
        high=min(0.5 * high + half, 0.5 * LARGEST) * 2,
        scale=min(half, 0.5 * LARGEST) * 2,
        indicator=indicator,
    )
    return Fitted(part, "", missing, unreadable, infinite)


def _categories(name: str, column: Sequence[str], distinct: Sequence[str]) -> Fitted:
    words, codes = read_categories(column)
    counts: Counter[str] = Counter()
    missing = 0
    for word, count in zip(words, np.bincount(codes, minlength=len(words)).tolist(), strict=True):
        if word is None:
            missing += count
        else:
            counts[word] += count
    commas = sum(bool(DECIMAL_COMMA.fullmatch(text.strip())) for text in distinct) >= MOSTLY * len(distinct)
    rows = len(column)
    if len(counts) > max(MOST_CATEGORIES, FEW * rows):
        return Fitted(None, f"{len(counts):,} different words or texts", missing, decimal_commas=commas)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_CATEGORIES]
    categories = tuple(word for word, count in ranked if count >= max(2, LEAST * rows))
    rest = counts.total() - sum(counts[word] for word in categories)
    indicator = missing > 0 and missing >= LEAST * rows
    if not categories:
        return Fitted(None, "no word occurs twice", missing, decimal_commas=commas)
    other = rest > 0 and rest >= LEAST * rows
    if len(categories) == 1 and not other and not indicator:
        return Fitted(None, "always the same", missing, decimal_commas=commas)
    return Fitted(CategoryColumn(name, categories, other, indicator), "", missing, decimal_commas=commas)
