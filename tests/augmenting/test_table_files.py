"""Tables written again with further columns: every cell, row and column stays what it was."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest

from softmatch.augmenting.table_files import choose_out, find_table, open_texts, write_columns
from softmatch.data.readers.table_source import open_table
from softmatch.data.records import Columns
from softmatch.errors import InputError, SoftmatchError

TEXTS = ['He said "no", and left.', "two\nlines, and a return\r.", "", " semi;colon\t|tab "]


def augmented(path: Path, out: Path | None = None, text: str | None = None) -> Path:
    """The new file, in which every text has a version in capitals and one of nothing."""
    target = choose_out(find_table(path), out)
    table = open_texts(path, text)
    new = [[text.upper() for text in table.texts], [""] * len(table.texts)]
    write_columns(table, target, dict(zip(table.next_names(2), new, strict=True)))
    return target


def read(path: Path, delimiter: str = ",") -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter=delimiter))


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ","), ("b.csv", ";"), ("c.tsv", "\t")])
def test_delimited_tables(tmp_path: Path, name: str, delimiter: str) -> None:
    header, body = ["id", "text", "aug_1", "label"], [[f"00{k}", text, "1.10", "NA"] for k, text in enumerate(TEXTS)]
    with (tmp_path / name).open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\r\n").writerows([header, *body])
    out = augmented(tmp_path / name)
    assert out == tmp_path / name.replace(".", "-augmented.")
    expected = [[*header, "aug_2", "aug_3"], *([*row, row[1].upper(), ""] for row in body)]
    assert read(out, delimiter) == expected
    other = tmp_path / ("o.csv" if delimiter == "\t" else "o.tsv")
    augmented(tmp_path / name, other)
    assert read(other, "," if delimiter == "\t" else "\t") == expected
    assert open_table(out, Columns(text="text"), need_label=False).read().inputs == [text for text in TEXTS if text]


def test_a_tsv_whose_quotes_are_characters(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('text\tn\n"quoted" then not\t1\na "\t2\n')
    assert read(augmented(tmp_path / "a.tsv", text="text"), "\t")[1:] == [
        ['"quoted" then not', "1", '"QUOTED" THEN NOT', ""],
        ['a "', "2", 'A "', ""],
    ]


def test_one_column_and_texts_on_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text\nhello, you\n\nbye\n")
    expected = [["text", "aug_0", "aug_1"], ["hello, you", "HELLO, YOU", ""], ["bye", "BYE", ""]]
    assert read(augmented(tmp_path / "a.csv", text="text")) == expected
    (tmp_path / "b.txt").write_text("hello, you\n\nbye\n")
    assert augmented(tmp_path / "b.txt").name == "b-augmented.csv"
    assert read(tmp_path / "b-augmented.csv") == expected
    augmented(tmp_path / "b.txt", tmp_path / "b.jsonl")
    assert json.loads((tmp_path / "b.jsonl").read_text().splitlines()[1]) == {"text": "bye", "aug_0": "BYE", "aug_1": ""}


def test_json_objects_stay_as_they_are_written(tmp_path: Path) -> None:
    lines = [
        '{"text": "a\\u00e9\\n}", "n": 1.10, "deep": {"x": [1, null]}, "label": 7}',
        '  {"label":null,"text":"b"}',
        "",
        '{"other": 1e3 }',
        "{}",
    ]
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    out = augmented(tmp_path / "a.jsonl.gz")
    assert out.name == "a-augmented.jsonl"
    assert out.read_text(encoding="utf-8").splitlines() == [
        lines[0][:-1] + ', "aug_0": "AÉ\\n}", "aug_1": ""}',
        '{"label":null,"text":"b", "aug_0": "B", "aug_1": ""}',
        '{"other": 1e3, "aug_0": "", "aug_1": ""}',
        '{"aug_0": "", "aug_1": ""}',
    ]
    (tmp_path / "b.json").write_text(json.dumps([{"text": "a", "aug_9": None}, {"text": "ü", "label": [1.5]}]))
    assert [json.loads(line) for line in augmented(tmp_path / "b.json").read_text(encoding="utf-8").splitlines()] == [
        {"text": "a", "aug_9": None, "aug_10": "A", "aug_11": ""},
        {"text": "ü", "label": [1.5], "aug_10": "Ü", "aug_11": ""},
    ]


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="of the extra `tables`")
    parquet = pytest.importorskip("pyarrow.parquet", reason="of the extra `tables`")
    given = pa.table(
        {
            "text": ["a b c", None, "d"],
            "n": pa.array([1, None, 3], pa.int8()),
            "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
            "deep": [[1.5], [], None],
        }
    )
    parquet.write_table(given, tmp_path / "a.parquet", row_group_size=2)
    made = parquet.read_table(augmented(tmp_path / "a.parquet", text="text"))
    assert made.select(given.column_names).equals(given)
    assert made["aug_0"].to_pylist() == ["A B C", "", "D"]
    assert made.schema.field("aug_1").type == pa.string()


def test_what_cannot_be_read_or_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\nsome words,x\n")
    (tmp_path / "there.csv").touch()
    for out, message in (
        ("there.csv", "exists already and is never overwritten"),
        ("b.jsonl", r"a \.csv is written as \.csv or"),
    ):
        with pytest.raises(InputError, match=message):
            choose_out(path, tmp_path / out)
    with pytest.raises(InputError, match=r"is a folder: give one table of texts, such as .*a\.csv"):
        find_table(tmp_path)
    (tmp_path / "my-train.csv").touch()
    with pytest.raises(InputError, match=r"such as .*my-train\.csv"):
        find_table(tmp_path)
    with pytest.raises(InputError, match=r"there is no file agnew, and no source of texts .* Did you mean 'agnews'"):
        find_table("agnew")
    (tmp_path / "b.bin").touch()
    with pytest.raises(InputError, match=r"b\.bin is no table of texts"):
        find_table(tmp_path / "b.bin")
    with pytest.raises(InputError, match=r"has no column 'txt'. Did you mean 'text'"):
        open_texts(path, "txt")
    path.write_text("width,height\n1,2\n3,4\n")
    with pytest.raises(InputError, match=r"not obvious which column holds the texts: there are width, height. Give --text"):
        open_texts(path)
    path.write_text("text,label\n,x\n ,y\n")
    with pytest.raises(InputError, match="column 'text' has no texts"):
        open_texts(path, "text")


def test_a_table_that_changes_meanwhile_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\nsome words,x\n")
    table = open_texts(path)
    path.write_text("text,label\nother words,x\nmore,y\n")
    with pytest.raises(SoftmatchError, match="has changed since it was read"):
        write_columns(table, tmp_path / "b.csv", {"aug_0": ["A"]})
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]
