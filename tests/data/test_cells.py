"""Cells as numbers, texts and missing values."""

import math
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from softmatch.data.cells import as_column, as_text, as_text_column, is_missing, join_columns, number_text, parse_number
from softmatch.errors import InputError


@pytest.mark.parametrize("text", ["", " ", "NA", "n/a", "NaN", "null", "None", " ? ", "-", "MISSING"])
def test_words_for_missing(text: str) -> None:
    assert is_missing(text)
    np.testing.assert_array_equal(as_column([text, "2"], "t", "a"), [np.nan, 2.0])


@pytest.mark.parametrize(
    ("text", "number"), [("1", 1.0), (" -2.5e3 ", -2500.0), ("inf", math.inf), ("1_000", None), ("0x1", None)]
)
def test_numbers(text: str, number: float | None) -> None:
    assert parse_number(text) == number


def test_numbers_as_text_are_what_a_file_would_hold() -> None:
    texts = [number_text(value) for value in (1.0, -0.5, 1e300, math.nan, math.inf, 0.1)]
    assert texts == ["1", "-0.5", "1e+300", "", "inf", "0.1"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (math.nan, ""),
        (pd.NA, ""),
        (pd.NaT, ""),
        (True, "True"),
        (np.False_, "False"),
        (3, "3"),
        (3.0, "3"),
        (np.float32(0.1), "0.1"),
        (Decimal("2.50"), "2.5"),
        (date(2024, 2, 29), "2024-02-29"),
        (datetime(2024, 2, 29, 12), "2024-02-29T12:00:00"),
        (" as it is ", " as it is "),
    ],
)
def test_cells_of_any_library_become_text(value: object, text: str) -> None:
    assert as_text(value) == text


@pytest.mark.parametrize(
    "values",
    [
        ["1", "2.5", "nan"],
        [1, 2.5, None],
        [1, "2.5", "?"],
        np.array([1, 2.5, np.nan], np.float32),
        pd.Series([1, 2.5, None]).to_numpy(),
    ],
)
def test_numbers_in_any_form_are_one_column(values: list[object]) -> None:
    column = as_column(values, "t", "a")
    assert isinstance(column, np.ndarray)
    assert column.dtype == np.float64
    np.testing.assert_array_equal(column, [1, 2.5, np.nan])


def test_one_word_makes_texts_of_a_column() -> None:
    assert as_column(["1", "two", "NA"], "t", "a") == ["1", "two", "NA"]
    assert as_column([1, "two", None, 2.0, True], "t", "a") == ["1", "two", "", "2", "True"]
    assert as_column(["1_000", "2"], "t", "a") == ["1_000", "2"]
    assert as_column(np.array([True, False]), "t", "a") == ["True", "False"]
    np.testing.assert_array_equal(as_column([10**400, 1], "t", "a"), [np.inf, 1])


def test_lists_are_refused_with_row_and_column() -> None:
    with pytest.raises(InputError, match=r"rows.jsonl, row 12: column 'a' holds a list"):
        as_text_column(["x", [1]], "rows.jsonl", "a", 11)


def test_parts_of_a_column_are_joined() -> None:
    numbers = join_columns([np.array([1.0]), np.array([np.nan, 2.0])])
    np.testing.assert_array_equal(numbers, [1.0, np.nan, 2.0])
    assert join_columns([np.array([1.0, np.nan]), ["x"], np.array([2.5])]) == ["1", "", "x", "2.5"]
