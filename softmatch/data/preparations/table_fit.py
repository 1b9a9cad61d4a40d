"""Choice of the form of a column of a table, by all its cells."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from softmatch.data.preparations.table_columns import (
    CategoryColumn,
    NumberColumn,
    parse_cell,
    parse_date,
    read_categories,
    read_distinct,
)
from softmatch.data.records import Column

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
