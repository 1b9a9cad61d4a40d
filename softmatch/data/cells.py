"""Cells of a table, whatever file they come from: numbers, texts, missing values."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import cast

import numpy as np
import numpy.typing as npt

from softmatch.data.records import Column
from softmatch.errors import InputError

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-", "missing"})
"""Words for a missing value in a column to learn from, in any case."""
LARGEST_WHOLE = 2**53


FORMULA = re.compile(r"'*[=+\-@\t\r]")
"""Beginning of a cell that a spreadsheet runs as a formula, or of one that was guarded against that."""


def guarded(text: str) -> str:
    """Put ' before a cell of CSV that a spreadsheet would run as a formula; numbers such as -1.5 stay as they are."""
    return f"'{text}" if FORMULA.match(text) and parse_number(text) is None else text


def unguarded(text: str) -> str:
    """Inverse of `guarded`."""
    return text[1:] if text.startswith("'") and FORMULA.match(text) else text


def is_missing(text: str) -> bool:
    """Tell whether a cell says that there is no value."""
    return text.strip().lower() in MISSING


def is_nothing(value: object) -> bool:
    """Tell whether a value is None, NaN, or what pandas has in place of them."""
    if isinstance(value, (str, int)):
        return False
    if isinstance(value, (float, np.floating)):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")  # without importing pandas


def parse_number(text: str) -> float | None:
    """Read a text as a number, NaN and infinity included; None: it is not one. 1_000, which Python would take, is not."""
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def number_text(value: float) -> str:
    """Write a number as a text: 1.0 is "1", NaN is ""."""
    if math.isnan(value):
        return ""
    return str(int(value)) if value.is_integer() and abs(value) <= LARGEST_WHOLE else repr(value)


def plain(value: object) -> object:
    """Unwrap values of numpy and decimal; a float32 becomes the float that is written the same."""
    if isinstance(value, (np.float16, np.float32)):
        return float(str(value))
    if isinstance(value, np.generic):
        return value.item()
    return float(value) if isinstance(value, Decimal) else value


def as_text(value: object) -> str:
    """Write one cell as a text.

    Raises:
        TypeError: for lists, objects and bytes.
    """
    if isinstance(value, str):
        return value
    if is_nothing(value):
        return ""
    value = plain(value)
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, (bool, int)):
        return str(value)
    if isinstance(value, date):  # and times of a date
        return value.isoformat()
    raise TypeError(f"a {type(value).__name__}")


def as_text_column(values: Sequence[object] | npt.NDArray[np.generic], place: str, name: str, first: int = 1) -> list[str]:
    """Write all cells of a column as texts.

    Args:
        place: name of the table in messages.
        name: of the column.
        first: number of the first row.
    """
    texts: list[str] = []
    try:
        texts.extend(map(as_text, values))
    except TypeError as error:
        row = first + len(texts)
        raise InputError(
            f"{place}, row {row}: column {name!r} holds {error}, not a number or a text. Split it into columns, or choose "
            "others with --features or --text."
        ) from error
    return texts


def as_column(values: Sequence[object] | npt.NDArray[np.generic], place: str, name: str, first: int = 1) -> Column:
    """Read cells as numbers, if all are numbers or missing, else as texts. Arguments as in `as_text_column`."""
    if isinstance(values, np.ndarray):
        if values.dtype.kind in "iuf":
            return values.astype(np.float64)
        values = values.tolist()
    types = set(map(type, values))
    texts: Sequence[str]
    if types == {str}:
        texts = cast(Sequence[str], values)
    elif types <= {int, float, type(None)}:
        try:
            return np.array([math.nan if value is None else value for value in values], np.float64)
        except OverflowError:  # a whole number beyond the largest float
            texts = as_text_column(values, place, name, first)
    else:
        texts = as_text_column(values, place, name, first)
    numbers = numbers_of(texts)
    return texts if numbers is None else numbers


def numbers_of(cells: Sequence[str]) -> npt.NDArray[np.float64] | None:
    """Read texts as numbers, NaN where one is missing; None where a text is neither."""
    if "_" in "".join(cells):
        return None
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        pass
    try:
        return np.array([math.nan if is_missing(cell) else float(cell) for cell in cells], np.float64)
    except ValueError:
        return None


def join_columns(parts: Sequence[Column]) -> Column:
    """Join consecutive parts of one column: as texts, if one of them has texts."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts) if len(parts) != 1 else parts[0]
    joined: list[str] = []
    for part in parts:
        joined.extend(map(number_text, part.tolist()) if isinstance(part, np.ndarray) else part)
    return joined
