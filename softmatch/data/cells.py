"""Cells of a table, whatever file they come from: numbers, texts, missing values."""

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import cast

import numpy as np
import numpy.typing as npt

from softmatch.data.records import Column
from softmatch.errors import InputError

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-", "missing"})
"""Words for a missing value in a column to learn from, in any case."""
LARGEST_WHOLE = 2**53
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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


def number_text(value: float) -> str:
    """Write a number as a text: 1.0 is "1", NaN is ""."""
    if math.isnan(value):
        return ""
    return str(int(value)) if value.is_integer() and abs(value) <= LARGEST_WHOLE else repr(value)


def as_text(value: object) -> str:
    """Write one cell as a text."""
    if isinstance(value, str):
        return value
    if is_nothing(value):
        return ""
    if isinstance(value, np.generic):  # a float32 becomes the float that is written the same
        value = float(str(value)) if isinstance(value, (np.float16, np.float32)) else value.item()
    if isinstance(value, float | Decimal):
        return number_text(float(value))
    if isinstance(value, (bool, int)):
        return str(value)
    if isinstance(value, date):  # and times of a date
        return value.isoformat()
    raise TypeError(f"a {type(value).__name__}")


def as_text_column(values: Sequence[object] | npt.NDArray[np.generic], place: str, name: str, first: int = 1) -> list[str]:
    """Write all cells of a column as texts."""
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
    if types <= {int, float, type(None)}:
        with suppress(OverflowError):  # of a whole number beyond the largest float
            return np.array([math.nan if value is None else value for value in values], np.float64)
    texts = cast(Sequence[str], values) if types == {str} else as_text_column(values, place, name, first)
    if "_" in "".join(texts):  # 1_000, which Python would take for a number
        return texts
    with suppress(ValueError):
        return np.fromiter(map(float, texts), np.float64, len(texts))
    with suppress(ValueError):
        return np.array([math.nan if is_missing(text) else float(text) for text in texts], np.float64)
    return texts


def join_columns(parts: Sequence[Column]) -> Column:
    """Join consecutive parts of one column: as texts, if one of them has texts."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts) if len(parts) != 1 else parts[0]
    joined: list[str] = []
    for part in parts:
        joined.extend(map(number_text, part.tolist()) if isinstance(part, np.ndarray) else part)
    return joined
