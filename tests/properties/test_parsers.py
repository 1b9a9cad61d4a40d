"""Readers of settings and tables: what was written is read back the same, whatever it holds."""

import csv
import itertools
import json
import math
import tempfile
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from softmatch.config import Config, make_config, merge, read_file, split_names, write_config
from softmatch.data.cells import as_column, is_missing, join_columns, number_text, parse_number
from softmatch.data.readers.csv_files import Delimited
from softmatch.data.readers.labels import clean_label, clean_labels
from softmatch.data.readers.table_source import JsonRows, open_table
from softmatch.data.records import Column, Columns
from softmatch.data.understanding import natural
from softmatch.errors import InputError

PROPERTY = settings(max_examples=40, deadline=None, derandomize=True)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NASTY = st.sampled_from(
    ["", " ", "3", "0.5", "1e3", "1_000", "on", "none", "~", "null", "'3'", '"3"', "a: b", "- x", "#x", "[1", "!!int x", "&a x",
     "*a", "2020-13-45", "1:60", "0x1F", "._", ".inf", "nan", "-nan", "=", "<<", "%x", "@x", "a\nb", "\r", "\ufeff", "\u2028",
     "\x85", "\x00", "\x1b"]
)  # fmt: skip
WORDS = TEXT | NASTY
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=4,
)
SETTINGS = {
    "labels": st.integers(1, 10**9),
    "imbalance": st.floats(1, 1e6),
    "unlabeled_imbalance": st.floats(-1e6, 1e6),
    **dict.fromkeys(("data", "out"), WORDS.map(Path)),
    **dict.fromkeys(("label_column", "text_column", "feature_columns", "unlabeled", "method"), WORDS),
    "evaluation": st.sampled_from(["auto", "holdout", "crossfit", "none"]),
    "tune": st.sampled_from(["head", "last-2", "lora", "all"]),
    **dict.fromkeys(("method_options", "views"), st.dictionaries(WORDS, VALUES, max_size=3)),
    "seed": st.integers(0, 2**63),
    "lr": st.floats(0, 1e300, exclude_min=True),
    "test_fraction": st.floats(0, 1, exclude_min=True, exclude_max=True),
    "model_momentum": st.floats(0, 1, exclude_max=True),
    "clip": st.floats(0, math.inf, exclude_min=True),
}
CONFIGS = st.fixed_dictionaries({}, optional=SETTINGS).map(lambda found: Config(**found))


@pytest.fixture(scope="module")
def folder() -> Any:
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@PROPERTY
@given(config=CONFIGS, source=WORDS)
def test_written_settings_are_read_back_the_same(folder: Path, config: Config, source: str) -> None:
    write_config(folder / "config.yaml", source, config)
    layer = read_file(folder / "config.yaml")
    assert layer.pop("source") == source
    assert make_config(layer) == config


def test_an_option_that_cannot_be_read_is_named() -> None:
    with pytest.raises(InputError, match=r"command line: views\.names = '\[rotate' is not valid YAML"):
        merge({"views": {"names": "[rotate"}}, where="command line")
    assert make_config({"views": 3}, {"views": {"pad": "1"}}).views == {"pad": 1}


@PROPERTY
@given(
    st.lists(st.fixed_dictionaries({}, optional={"views": st.dictionaries(TEXT, NASTY | st.integers(), max_size=3)}), max_size=3)
)
def test_options_as_text_become_values_or_are_refused(layers: list[dict[str, Any]]) -> None:
    try:
        merged = merge(*layers, where="command line")
    except InputError:
        return
    assert merge(merge(*layers), merged).keys() == merged.keys()
    given_names = set(itertools.chain.from_iterable(layer.get("views", {}) for layer in layers))
    assert set(merged.get("views", {})) == given_names


@PROPERTY
@given(st.lists(TEXT.filter(lambda name: "," not in name and name.strip() == name and name), min_size=1, max_size=5))
def test_names_of_columns_separated_by_commas(names: list[str]) -> None:
    assert split_names(" , ".join(names) + ",") == tuple(names)


HEADER = ["label", "what it is", "größe"]


@PROPERTY
@given(
    rows=st.lists(st.lists(WORDS, min_size=len(HEADER), max_size=len(HEADER)), min_size=1, max_size=6),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    at_once=st.integers(1, 4),
)
def test_a_table_that_csv_has_written_is_read_back_the_same(
    folder: Path, rows: list[list[str]], delimiter: str, quoting: Any, encoding: str, at_once: int
) -> None:
    path = folder / "t.csv"
    with path.open("w", encoding=encoding, newline="") as text:
        csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator="\r\n").writerows([HEADER, *rows])
    if encoding != "utf-16" and any("\x00" in cell for row in rows for cell in row):
        with pytest.raises(InputError, match="NUL"):
            list(Delimited(path).pieces(HEADER, at_once))
        return
    file = Delimited(path)
    assert list(file.names) == HEADER
    found: list[list[object]] = []
    for piece in file.pieces(HEADER, at_once):
        columns = [list(piece[name]) for name in HEADER]
        assert len(columns[0]) <= at_once
        found += [list(row) for row in zip(*columns, strict=True)]
    assert found == rows


JSON_VALUES = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | WORDS


@PROPERTY
@given(
    rows=st.lists(st.dictionaries(WORDS, JSON_VALUES | st.lists(JSON_VALUES, max_size=2), max_size=4), min_size=1, max_size=5),
    listed=st.booleans(),
    ascii_only=st.booleans(),
    at_once=st.integers(1, 3),
)
def test_objects_are_read_back_the_same(
    folder: Path, rows: list[dict[str, Any]], listed: bool, ascii_only: bool, at_once: int
) -> None:
    assume(any(rows))
    path = folder / "t.jsonl"
    lines = [json.dumps(row, ensure_ascii=ascii_only) for row in rows]
    path.write_text("[" + ",\n".join(lines) + "]" if listed else "\n".join(lines), encoding="utf-8")
    file = JsonRows(path)
    assert set(file.names) == set(itertools.chain.from_iterable(rows))
    found: list[list[object]] = []
    for piece in file.pieces(file.names, at_once):
        found += [list(row) for row in zip(*piece.values(), strict=True)]
    assert found == [[row.get(name) for name in file.names] for row in rows]


@PROPERTY
@given(st.lists(WORDS | st.floats().map(repr) | st.integers().map(str), max_size=5), st.integers(0, 5))
def test_cells_are_numbers_exactly_where_each_of_them_is_one(cells: list[str], cut: int) -> None:
    found = as_column(cells, "t.csv", "x")
    single = [math.nan if is_missing(cell) else parse_number(cell) for cell in cells]
    if None in single:
        assert found == cells
    else:
        assert list(map(repr, np.asarray(found).tolist())) == list(map(repr, map(float, single)))  # type: ignore[arg-type]  # none of them is None
    parts: list[Column] = [as_column(part, "t.csv", "x") for part in (cells[:cut], cells[cut:])]
    joined = join_columns(parts)
    assert len(joined) == len(found) == len(cells)
    if not isinstance(joined, list):
        assert not isinstance(found, list)


@PROPERTY
@given(st.floats(allow_nan=False))
def test_a_number_as_text_is_that_number(value: float) -> None:
    assert parse_number(number_text(value)) == value


@PROPERTY
@given(st.lists(WORDS | st.integers() | st.floats() | st.booleans() | st.none(), max_size=8), st.none() | WORDS)
def test_labels_are_cleaned_one_by_one(values: list[object], word: str | None) -> None:
    none = clean_label(word)
    expected = [None if clean_label(value) == none else clean_label(value) for value in values]
    assert clean_labels(values, word) == expected
    for label in expected:
        assert label is None or (label.strip() == label != "" and unicodedata.is_normalized("NFC", label))


@PROPERTY
@given(
    st.lists(WORDS | st.floats().map(repr), unique=True, max_size=6).flatmap(
        lambda names: st.tuples(st.just(names), st.permutations(names))
    )
)
def test_classes_have_one_order_however_they_are_found(orders: tuple[list[str], list[str]]) -> None:
    first, second = orders
    assert sorted(first, key=natural) == sorted(second, key=natural)


@PROPERTY
@given(
    rows=st.lists(
        st.tuples(st.sampled_from(["a", "b", "", " c "]), WORDS.filter(lambda text: "\x00" not in text)), min_size=1, max_size=9
    ),
    at_once=st.integers(1, 10),
)
def test_a_table_in_pieces_is_the_table(folder: Path, rows: list[tuple[str, str]], at_once: int) -> None:
    path = folder / "texts.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("label", "text"), *rows])
    opened = open_table(path, Columns(label="label", text="text"))
    pieces = list(opened.stream(at_once))
    texts = [text for piece in pieces for text in piece.inputs]
    assert texts == [text for _, text in rows]
    assert [label for piece in pieces for label in piece.labels] == [label.strip() or None for label, _ in rows]
    assert [name for piece in pieces for name in piece.names] == [str(number) for number in range(1, len(rows) + 1)]
    kept = opened.read()
    assert list(kept.inputs) == [text for text in texts if text.strip()]
