"""Turns of phrase."""

from __future__ import annotations

from softmatch.formatting import quoted, some


def test_the_first_few_as_they_are() -> None:
    assert some(["row 1", "row 2", "row 3"]) == "row 1; row 2; row 3"
    assert some([f"row {number}" for number in range(1, 2006)], 2) == "row 1; row 2; and 2,003 more"
    assert some([]) == ""


def test_the_first_few_in_quotes() -> None:
    assert quoted(["it's", "b"]) == "\"it's\", 'b'"
    assert quoted(list("abcdefg")) == "'a', 'b', 'c', 'd', 'e' and 2 more"
    assert quoted(list("abc"), 2, "classes") == "'a', 'b' and 1 more classes"
    assert quoted(("a", "b"), 2, "classes") == "'a', 'b'"
