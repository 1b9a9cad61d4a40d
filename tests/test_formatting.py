"""Turns of phrase."""

import sys

import pytest

from softmatch.formatting import duration, percent, printable, quoted, signed, some, visible


def test_the_first_few_as_they_are_and_in_quotes() -> None:
    assert some(["row 1", "row 2", "row 3"]) == "row 1; row 2; row 3"
    assert some([f"row {number}" for number in range(1, 2006)], 2) == "row 1; row 2; and 2,003 more"
    assert some([]) == ""
    assert quoted(["it's", "b"]) == "\"it's\", 'b'"
    assert quoted(list("abcdefg")) == "'a', 'b', 'c', 'd', 'e' and 2 more"
    assert quoted(list("abc"), 2, "classes") == "'a', 'b' and 1 more classes"
    assert quoted(("a", "b"), 2, "classes") == "'a', 'b'"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("\x7f\x9b31m", r"\x7f\x9b31m"),
        ("\u202egpj.exe", r"\u202egpj.exe"),
        ("café 😀 C:\\temp", "café 😀 C:\\temp"),
    ],
)
def test_control_characters_are_shown_as_text(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(shown) == shown


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="file names are text there")
def test_bytes_of_a_path_that_are_not_text_are_shown() -> None:
    assert printable("caf\udce9") == r"caf\xe9"


def test_numbers() -> None:
    assert [percent(x) for x in (0, 0.0264, 1, -0.00001, None)] == ["0.0 %", "2.6 %", "100.0 %", "0.0 %", "–"]
    assert [signed(x) for x in (0.0, 0.0123, -0.0123, -0.0004, 0.0004)] == ["0.0", "+1.2", "−1.2", "−0.04", "+0.04"]
    assert [duration(s) for s in (9.44, 75.4, 3725, 5 * 3600, 4e5)] == ["9.44 s", "75.4 s", "62.1 min", "5.0 h", "4.6 days"]
