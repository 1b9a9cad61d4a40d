"""Tables as features: numbers filled and bounded, dates as days, words as categories, chosen by all cells of a column."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import ConfigDict, FiniteFloat
from torch import Tensor

from softmatch.data.cells import is_missing, number_text, parse_date, parse_number
from softmatch.data.records import Column, Finding, InputKind, Inputs
from softmatch.errors import InputError
from softmatch.formatting import quoted, some

STRICT = ConfigDict(extra="forbid", strict=True)
Floats = npt.NDArray[np.float64]
Features = npt.NDArray[np.float32]

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

    def unseen(self, column: Column) -> Counter[str]:
        """Count cells that hold something else than a number or a date, and are taken as missing."""
        if isinstance(column, np.ndarray):
            return Counter()
        return Counter({text: count for text, count in Counter(column).items() if _FORMS[self.form](text) is None})


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

    def unseen(self, column: Column) -> Counter[str]:
        """Count words that are not a category: never or too rarely seen in training."""
        words, codes = read_categories(column)
        counts = zip(words, np.bincount(codes, minlength=len(words)).tolist(), strict=True)
        return Counter({word: count for word, count in counts if word is not None and word not in self.categories})


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
    found = [_FORMS[form](text) for text in distinct]
    return np.array([math.nan if value is None else value for value in found], np.float64)[codes]


def parse_cell(text: str) -> float | None:
    """Read a number, or 1 and 0 for true and false; NaN: missing; None: something else."""
    if is_missing(text):
        return math.nan
    number = parse_number(text)
    return TRUTH.get(text.strip().lower()) if number is None else number


def read_categories(column: Column) -> tuple[list[str | None], npt.NDArray[np.int64]]:
    """List the words of a column, None where one is missing, and the position of each cell. 1, 1.0 and " 1" are one word."""
    if isinstance(column, np.ndarray):
        values, codes = np.unique(column, return_inverse=True)
        return [_word(value) for value in values.tolist()], codes
    distinct, codes = read_distinct(column)
    numbers = [parse_number(text) for text in distinct]
    words = [text.strip() if number is None else _word(number) for text, number in zip(distinct, numbers, strict=True)]
    return [None if is_missing(text) else word for text, word in zip(distinct, words, strict=True)], codes


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
    known = values[np.isfinite(values)]
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
    bounds = max(0.5 * low - half, -0.5 * LARGEST) * 2, min(0.5 * high + half, 0.5 * LARGEST) * 2
    fill, scale = float(np.median(0.5 * known)) * 2, min(half, 0.5 * LARGEST) * 2
    return Fitted(NumberColumn(name, form, fill, *bounds, scale, indicator), "", missing, unreadable, infinite)


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


SHOWN = 10


class TablePreparation:
    """See `Preparation`. Columns become float32 (n, D)."""

    takes: InputKind = "table"

    def __init__(self, parts: Sequence[NumberColumn | CategoryColumn]) -> None:
        self.parts = tuple(parts)
        self.columns: tuple[str, ...] = tuple(part.name for part in self.parts)

    def __call__(self, inputs: Inputs) -> Tensor:
        table = _columns(inputs)
        for name in self.columns:
            if name not in table:
                there = quoted(list(table), SHOWN, "columns") or "none"
                raise InputError(f"there is no column {name!r}, which the model learned from. There are: {there}.")
        count = len(table[self.columns[0]])
        made = np.empty((count, sum(part.width for part in self.parts)), np.float32)
        start = 0
        for part in self.parts:
            part.write(table[part.name], made[:, start : start + part.width])
            start += part.width
        return torch.from_numpy(made)

    def unseen(self, inputs: Inputs) -> dict[str, Counter[str]]:
        """Count the values of each column that the model cannot know; columns without any are left out."""
        table = _columns(inputs)
        found = {part.name: part.unseen(table[part.name]) for part in self.parts if part.name in table}
        return {name: counts for name, counts in found.items() if counts}

    def settings(self) -> dict[str, Any]:
        return {"kind": "table", "columns": [asdict(part) for part in self.parts]}

    def tensors(self) -> dict[str, Tensor]:
        return {}

    @classmethod
    def from_saved(cls, saved: Any, tensors: Mapping[str, Tensor]) -> "TablePreparation":
        """Invert `settings`."""
        return cls(saved.columns)

    def describe(self) -> str:
        width = sum(part.width for part in self.parts)
        return f"{width:,} features of {len(self.parts):,} columns"


def fit_table(inputs: Inputs, names: Sequence[str]) -> tuple[TablePreparation, list[Finding]]:
    """Choose a form for each column, and a value where one is missing."""
    fitted = {name: fit_column(name, column) for name, column in _columns(inputs).items()}
    parts = [found.part for found in fitted.values() if found.part is not None]
    if not parts:
        reasons = "; ".join(f"{name!r} ({found.left_out})" for name, found in fitted.items())
        raise InputError(f"no column can be learned from: {reasons}.")
    return TablePreparation(parts), _findings(fitted, names)


def _columns(inputs: Inputs) -> Mapping[str, Column]:
    if not isinstance(inputs, Mapping):
        raise InputError("this model learned from a table: give a table with the same columns.")
    return inputs


def _findings(fitted: Mapping[str, Fitted], names: Sequence[str]) -> list[Finding]:
    findings: list[Finding] = []
    for name, found in fitted.items():
        for what, cells in (("not a number", found.unreadable), ("infinite", found.infinite)):
            if cells:
                findings.append(_cells_finding(name, what, cells, names))
    if len(findings) > SHOWN:
        places = tuple(finding.text for finding in findings[SHOWN:])
        text = f"{len(places):,} further columns have cells that are not numbers or infinite."
        findings[SHOWN:] = [Finding("warning", text, places)]
    commas = [name for name, found in fitted.items() if found.decimal_commas]
    if commas:
        text = f"{quoted(commas, SHOWN, 'columns')}: numbers with a decimal comma are taken as words. Write them with a point."
        findings.append(Finding("warning", f"Columns {text}" if len(commas) > 1 else f"Column {text}"))
    notes = {
        "Missing values are filled with the median of the column, or are a category of their own": [
            f"{name!r} ({found.missing:,})" for name, found in fitted.items() if found.missing and found.part is not None
        ],
        "Dates are taken as a number of days": [
            repr(name) for name, found in fitted.items() if isinstance(found.part, NumberColumn) and found.part.form == "date"
        ],
        "Left out": [f"{name!r} ({found.left_out})" for name, found in fitted.items() if found.part is None],
    }
    for text, shown in notes.items():
        if shown:
            findings.append(Finding("note", f"{text}: {some(shown, SHOWN)}.", tuple(shown[SHOWN:])))
    return findings


def _cells_finding(column: str, what: str, cells: Mapping[int, str], names: Sequence[str]) -> Finding:
    shown = some([f"row {names[position]} {text!r}" for position, text in cells.items()])
    subject, taken = ("1 cell is", "is taken") if len(cells) == 1 else (f"{len(cells):,} cells are", "are taken")
    what = "not numbers" if what == "not a number" and len(cells) > 1 else what
    rows = tuple(f"row {names[position]}" for position in cells)
    return Finding("warning", f"Column {column!r}: {subject} {what} and {taken} as missing: {shown}.", rows)
