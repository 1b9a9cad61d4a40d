"""Numbers as they are shown."""

from __future__ import annotations

import pytest

from softmatch.planning.devices import Range
from softmatch.planning.shown import between, flops, number, size, span


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (512, "512 bytes"),
        (999.6, "1 kB"),
        (1500, "1.5 kB"),
        (123_456_789, "123 MB"),
        (4e12, "4 TB"),
        (2e21, "2e+03 EB"),
    ],
)
def test_sizes_are_by_thousands(count: float, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(("value", "text"), [(0.02314, "0.0231"), (9.4, "9.4"), (99.96, "100"), (12_345.6, "12,346")])
def test_numbers_have_three_digits_or_more(value: float, text: str) -> None:
    assert number(value) == text


def test_arithmetic_has_its_unit() -> None:
    assert flops(1.234e12) == "1.23 TFLOP"
    assert flops(1.76e21) == "1,760 EFLOP"
    assert flops(5e5) == "0.5 MFLOP"


def test_a_range_of_one_number_is_a_number() -> None:
    assert between(Range(5.1, 8.7)) == "5.1 – 8.7"
    assert between(Range(5.1, 5.1)) == "5.1"
    assert span(Range(60.0, 7200.0)) == "60 s – 2.0 h"
