"""JSON and YAML of unknown origin: plain values, finite numbers, characters that can be written, limited depth."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from softmatch.errors import InputError
from softmatch.files.untrusted import DEEPEST, parse_json, parse_yaml, read_text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, -2.5, true, null, "ü"]}', {"a": [1, -2.5, True, None, "ü"]}),
        ("[NaN, Infinity, -Infinity, 1e999]", [None] * 4),
        ("18446744073709551615", 2**64 - 1),
        ("9" * 21, 1e21),
        ("-" + "9" * 5000, None),
        (r'{"\ud800": "\ud83d\ude00\udc00"}', {"?": "😀?"}),
    ],
)
def test_json(text: str, value: Any) -> None:
    found = parse_json(text, "file")
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\nb: [x, 0.5, no]\n", {"a": 1, "b": ["x", 0.5, False]}),
        ("", None),
        ("2001-02-03", date(2001, 2, 3)),
        (r'"\ud800"', "?"),
        ("a: &anchor 1", {"a": 1}),
    ],
)
def test_yaml(text: str, value: Any) -> None:
    assert parse_yaml(text, "file") == value


@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
def test_depth_is_limited(parse: Any) -> None:
    parse("[" * DEEPEST + "]" * DEEPEST, "file")
    with pytest.raises(InputError, match=f"file is damaged: it has more than {DEEPEST} nested lists"):
        parse("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "file")


def test_messages_name_the_file_and_the_place() -> None:
    with pytest.raises(InputError, match=r"x\.json is damaged: Expecting value: line 2 column 1"):
        parse_json("[\n", "x.json")
    with pytest.raises(InputError, match=r"(?s)x\.yaml is not valid YAML: aliases \(\*a\) are not read.*line 2, column 4"):
        parse_yaml("a: &a [1]\nb: *a\n", "x.yaml")


def test_files_that_are_no_texts_are_named(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"a\xff")
    assert read_text(tmp_path / "bytes", errors="replace") == "a\ufffd"
    for name, message in (("bytes", "bytes cannot be read: it is not UTF-8"), ("none", "there is no file"), (".", "not a file")):
        with pytest.raises(InputError, match=message):
            read_text(tmp_path / name)
