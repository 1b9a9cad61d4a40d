"""Tables as sources: the same records from every format, whole and in pieces."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from softmatch.data.readers.table_source import is_table, open_table, read_table
from softmatch.data.records import Columns, Records
from softmatch.errors import InputError

ROWS: list[dict[str, Any]] = [
    {"size": 1, "colour": "red", "label": "1"},
    {"size": 2.5, "colour": None, "label": None},
    {"size": None, "colour": "blue", "label": "1"},
    {"size": -3, "colour": "red", "label": "two"},
]


def written(tmp_path: Path, name: str) -> Path:
    """The same rows in the format that the name says."""
    path, frame = tmp_path / name, pd.DataFrame(ROWS)
    if name.endswith(".parquet"):
        frame.to_parquet(path)
        return path
    if "json" in name:
        lines = [{key: value for key, value in row.items() if value is not None} for row in ROWS]
        text = json.dumps(lines) if name.endswith(".json") else "\n".join(map(json.dumps, lines))
    else:
        text = frame.to_csv(index=False, sep="\t" if "tsv" in name else ",")
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def rows_of(records: Records) -> list[Any]:
    assert isinstance(records.inputs, dict)
    return [*zip(*records.inputs.values(), records.names, records.labels, strict=True)]


@pytest.mark.parametrize(
    "name", ["t.csv", "t.tsv", "t.CSV", "t.csv.gz", "t.tsv.gz", "t.jsonl", "t.ndjson", "t.json", "t.jsonl.gz", "t.parquet"]
)
def test_every_format_gives_the_same_records(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, name)
    assert is_table(path)
    opened = open_table(path, Columns())
    assert (opened.kind, opened.where) == ("table", str(path))
    assert opened.columns == Columns(label="label", features=("size", "colour"))
    records = opened.read()
    assert isinstance(records.inputs, dict)
    assert len(records) == 4
    np.testing.assert_array_equal(records.inputs["size"], [1, 2.5, np.nan, -3])
    assert records.inputs["colour"] == ["red", "", "blue", "red"]
    assert records.labels == ["1", None, "1", "two"]
    assert records.names == ["1", "2", "3", "4"]


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet"])
@pytest.mark.parametrize("rows", [1, 3, 4, 100])
def test_stream_gives_the_same_in_pieces(tmp_path: Path, name: str, rows: int) -> None:
    opened = open_table(written(tmp_path, name), Columns())
    pieces = list(opened.stream(rows))
    assert [len(piece) for piece in pieces] == [min(rows, 4 - start) for start in range(0, 4, rows)]
    assert [name for piece in pieces for name in piece.names] == ["1", "2", "3", "4"]
    assert [label for piece in pieces for label in piece.labels] == ["1", None, "1", "two"]
    sizes = np.concatenate([np.asarray(piece.inputs["size"], float) for piece in pieces])  # type: ignore[call-overload,index]  # a table
    np.testing.assert_array_equal(sizes, [1, 2.5, np.nan, -3])


@pytest.mark.parametrize(
    "content",
    ["y,a\n1,2\n1.0,3\n1 ,4\n,5\n2,5\n", '{"y": 1, "a": 2}\n{"y": 1.0, "a": 3}\n{"y": "1 ", "a": 4}\n{"a": 5}\n{"y": 2, "a": 5}'],
)
def test_one_in_three_spellings_is_one_label(tmp_path: Path, content: str) -> None:
    path = tmp_path / ("t.csv" if content.startswith("y") else "t.jsonl")
    path.write_text(content)
    assert open_table(path, Columns()).read().labels == ["1", "1", "1", None, "2"]


def test_truth_values_agree_between_formats(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("y,a\nTrue,1\nFALSE,2\n")
    (tmp_path / "t.jsonl").write_text('{"y": true, "a": 1}\n{"y": false, "a": 2}\n')
    pd.DataFrame({"y": [True, False], "a": [1, 2]}).to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.jsonl", "t.parquet"):
        assert open_table(tmp_path / name, Columns()).read().labels == ["true", "false"]


def test_texts_with_quotes_emoji_and_newlines(tmp_path: Path) -> None:
    texts = ['He said "no",\nthen 😀', "tab\there ; and | there", "ünï — 'quoted' text", "  spaces kept  "]
    frame = pd.DataFrame({"text": texts, "label": ["cat 😀", "cat 😀", "dog", "?"]})
    frame.to_csv(tmp_path / "t.csv", index=False, encoding="utf-8-sig")
    opened = open_table(tmp_path / "t.csv", Columns(unlabeled="?"))
    records = opened.read()
    assert (opened.kind, records.kind, opened.findings[0].level) == ("text", "text", "note")
    assert records.inputs == texts
    assert records.labels == ["cat 😀", "cat 😀", "dog", None]


def test_rows_without_a_text_are_left_out_of_training_only(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text,label\none text,a\n,b\n   ,a\ntwo texts,b\n")
    opened = open_table(path, Columns())
    records = opened.read()
    assert (records.inputs, records.names, records.labels) == (["one text", "two texts"], ["1", "4"], ["a", "b"])
    finding = opened.findings[-1]
    assert (finding.level, finding.text) == ("warning", f"{path}: 2 rows have no text and are left out: row 2; row 3.")
    assert finding.places == ("row 2", "row 3")
    (streamed,) = opened.stream(10)
    assert streamed.inputs == ["one text", "", "   ", "two texts"]


def test_texts_of_numbers_and_nothing_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "a b", "label": 1}\n{"text": 12, "label": 1}\n{"label": 2}\n{"text": 1.5, "label": 2}\n')
    assert open_table(path, Columns(text="text")).read().inputs == ["a b", "12", "1.5"]


def test_lines_of_a_text_file_are_texts_to_predict(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes('first, line\r\n\r\nsecond "line"\n'.encode("utf-8-sig"))
    opened = open_table(path, Columns(text="whatever", label="label"), need_label=False)
    assert opened.read().inputs == ["first, line", 'second "line"']
    assert [piece.names for piece in opened.stream(1)] == [["1"], ["2"]]
    with pytest.raises(InputError, match=r"t.txt has a text on every line and no labels: .* give a table such as a .csv"):
        open_table(path, Columns())
    assert is_table(path)


def test_labels_are_not_needed_to_predict(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    opened = open_table(path, Columns(label="label", features=("b",)), need_label=False)
    (records,) = opened.stream(5)
    assert records.labels == [None, None]
    assert isinstance(records.inputs, dict)
    assert list(records.inputs) == ["b"]


def test_word_far_below_makes_texts_of_a_column_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,label\n" + "1.0,x\n" * 260_000 + "two,y\n,y\n")
    opened = open_table(path, Columns())
    records = opened.read()
    assert isinstance(records.inputs, dict)
    column = records.inputs["a"]
    assert (column[0], column[-3:]) == ("1", ["1.0", "two", ""])  # parts of numbers alone were numbers before
    assert len({id(cell) for cell in column}) < 10
    kinds = [type(piece.inputs["a"]) for piece in opened.stream(65_000)]  # type: ignore[call-overload,index]  # a table
    assert kinds == [np.ndarray] * 4 + [list]


def test_nested_values_are_refused_only_where_they_are_used(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    rows = [{"a": k % 3, "deep": 1, "label": k % 2} for k in range(1500)] + [{"a": 1, "deep": [1], "label": 0}]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert len(open_table(path, Columns(features=("a",))).read()) == 1501
    with pytest.raises(InputError, match=r"t.jsonl, row 1501: column 'deep' holds a list"):
        open_table(path, Columns()).read()
    with pytest.raises(InputError, match=r"t.jsonl, row 1501: the label is a list"):
        open_table(path, Columns(label="deep", features=("a",))).read()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", "t.csv is empty"),
        ("t.csv", "text,label\n", "t.csv has no rows"),
        ("t.csv", "text,label\na,b,c\n", r"t.csv, row 1 \(line 2\) has 3 cells, the header has 2"),
        ("t.csv", "text,label\na,b\n", "t.csv: column 'x' is"),
        ("t.xlsx", "", "t.xlsx is not a table that can be read: give a .csv, .tsv, .jsonl or .parquet file"),
        ("t.jsonl", "nonsense", r"t.jsonl, row 1 \(line 1\) is not JSON"),
        ("t.parquet", "nonsense", "t.parquet cannot be read as Parquet"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    columns = Columns(label="x", text="x") if "'x'" in message else Columns()
    with pytest.raises(InputError, match=message):
        open_table(path, columns)


def test_ragged_row_far_below_is_found_while_reading(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,label\n" + "1,x\n2,y\n" * 2000 + "3\n")
    opened = open_table(path, Columns())
    with pytest.raises(InputError, match=r"t.csv, row 4001 \(line 4002\) has 1 cell, the header has 2"):
        opened.read()


def test_a_million_rows_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "million.csv"
    with path.open("w") as file:
        file.write("a,b,label\n")
        block = "".join(f"{j}.5,red,{'x' if j else 'y'}\n" for j in range(1000))
        for _ in range(1000):
            file.write(block)
    opened = open_table(path, Columns())
    count, total, labels = 0, 0.0, 0
    for piece in opened.stream(65_536):
        assert len(piece) <= 65_536
        assert isinstance(piece.inputs, dict)
        assert piece.names[0] == str(count + 1)
        count += len(piece)
        total += float(np.floor(piece.inputs["a"]).sum())
        labels += sum(label == "y" for label in piece.labels)
    assert (count, total, labels) == (1_000_000, 499_500_000.0, 1000)


def test_the_reader_is_chosen_by_the_name(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("file,label\na.png,1.0\nb.png,\n")
    (tmp_path / "t.jsonl").write_text('{"a": 1}\n{"b": [2]}\n')
    csv, lines = read_table(tmp_path / "t.csv"), read_table(tmp_path / "t.jsonl")
    assert next(csv.pieces(csv.names, 1)) == {"file": ["a.png"], "label": ["1.0"]}
    assert next(lines.pieces(lines.names, 2)) == {"a": [1, None], "b": [None, [2]]}
    assert not is_table(tmp_path / "t.png")
    assert not is_table(tmp_path / "table")
