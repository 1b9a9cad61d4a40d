"""Tables and datasets written again with further columns: every cell, row and column stays as it was."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from softmatch.augmenting import augment_file, augment_source
from softmatch.augmenting.augmented_files import TextTable, _named, choose_out, find_table
from softmatch.data.readers.table_source import open_table
from softmatch.data.records import Columns
from softmatch.data.sources.open_texts import draw, read_texts
from softmatch.errors import InputError, SoftmatchError
from tests.data.sources.text_copies import news, write_jsonl, write_news

TEXTS = ['He said "no", and left.', "two\nlines, and a return\r.", "", " semi;colon\t|tab "]


def augmented(path: Path, out: Path | None = None, text: str | None = None) -> Path:
    """The new file, in which every text has a version in capitals and one of nothing."""
    target = choose_out(find_table(path), out)
    table = TextTable(path, text)
    table.write(target, _named([[text.upper() for text in table.texts], [""] * len(table.texts)], table.names))
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
    (tmp_path / "c.tsv").write_text("text\nhello, you\nbye\n")
    assert read(augmented(tmp_path / "c.tsv", text="text"), "\t") == expected


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
        ("b.jsonl", r"a \.csv table can be written as \.csv only"),
    ):
        with pytest.raises(InputError, match=message):
            choose_out(path, tmp_path / out)
    with pytest.raises(InputError, match=r"is a folder: give one table of texts, such as .*a\.csv"):
        find_table(tmp_path)
    (tmp_path / "my-train.csv").touch()
    with pytest.raises(InputError, match=r"such as .*my-train\.csv"):
        find_table(tmp_path)
    with pytest.raises(InputError, match=r"there is no file agnew, and no dataset of texts .* Did you mean 'agnews'"):
        find_table("agnew")
    (tmp_path / "b.bin").touch()
    with pytest.raises(InputError, match=r"b\.bin is not a table of texts"):
        find_table(tmp_path / "b.bin")
    with pytest.raises(InputError, match=r"has no column 'txt'. Did you mean 'text'"):
        TextTable(path, "txt")
    path.write_text("width,height\n1,2\n3,4\n")
    with pytest.raises(InputError, match=r"cannot tell which column .* \(width, height\)\. Choose one with --text-column"):
        TextTable(path)
    path.write_text("text,label\n,x\n ,y\n")
    with pytest.raises(InputError, match="column 'text' has no texts"):
        TextTable(path, "text")


def test_a_table_that_changes_meanwhile_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\nsome words,x\n")
    table = TextTable(path)
    path.write_text("text,label\nother words,x\nmore,y\n")
    with pytest.raises(SoftmatchError, match="has changed since it was read"):
        table.write(tmp_path / "b.csv", {"aug_0": ["A"]})
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]


# Named files and datasets

MINE = """
from pathlib import Path

def loud(texts): return [text.upper() for text in texts]

def rude(texts):
    Path({new!r}).mkdir()
    Path({new!r}, "precious").touch()
    return texts
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE.format(new=str(tmp_path / "new")))
    return str(tmp_path / "mine.py")


def test_what_is_there_is_refused_before_anything_is_made(tmp_path: Path, mine: str, cache: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\nthe cat,x\n")
    (tmp_path / "a-augmented.csv").write_text("precious")
    with pytest.raises(InputError, match="exists already"):
        augment_file(tmp_path / "a.csv", f"{mine}:loud")
    assert (tmp_path / "a-augmented.csv").read_text() == "precious"
    assert not cache.exists()
    found = augment_file(tmp_path / "a.csv", f"{mine}:loud", tmp_path / "b.csv")
    again = augment_file(tmp_path / "b.csv", f"{mine}:loud")  # a second time, on its own result
    assert again.out.read_text() == "text,label,aug_0,aug_1\nthe cat,x,THE CAT,THE CAT\n"
    assert found.columns[0].changed == 1


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_all_texts_and_the_test_set(tmp_path: Path, mine: str) -> None:
    given = [*news(3), {"text": "the café, unlabelled", "label": None}]
    write_jsonl(tmp_path / "copy" / "train.jsonl", given)
    write_jsonl(tmp_path / "copy" / "test.jsonl", news(2, start=9))
    notes: list[str] = []
    found = augment_source("agnews", f"{mine}:loud,words", data=tmp_path / "copy", note=notes.append)
    assert notes[-1] == "agnews: 13 training texts are augmented 2 times; the 8 of test.jsonl stay as they are."
    assert found.out == Path("agnews-augmented")
    assert sorted(path.name for path in found.out.iterdir()) == ["test.jsonl", "train.jsonl"]
    train = rows(found.out / "train.jsonl")
    assert [{key: row[key] for key in ("text", "label")} for row in train] == given
    assert [row["aug_0"] for row in train] == [row["text"].upper() for row in given]
    assert list(train[0]) == ["text", "label", "aug_0", "aug_1"]
    assert rows(found.out / "test.jsonl") == news(2, start=9)
    assert (found.columns[0].name, found.columns[0].changed) == ("aug_0", 13)
    assert found.train == "softmatch train agnews --data agnews-augmented --recipe paper"


def test_what_is_drawn_is_what_training_would_draw(tmp_path: Path, mine: str) -> None:
    copy = write_news(tmp_path / "copy")
    (tmp_path / "new").mkdir()  # an empty one is taken
    options = {"train_per_class": 4, "validation_per_class": 2, "seed": 7}
    found = augment_source("agnews", f"{mine}:loud", tmp_path / "new", copy, **options)
    assert [column.name for column in found.columns] == ["aug_2"], "those that are there stay"
    assert found.train.endswith("new --train-per-class 4 --validation-per-class 2 --recipe paper")
    wanted = draw(read_texts("agnews", copy, validating=True), 4, 2, seed=7)
    again = draw(read_texts("agnews", tmp_path / "new", validating=True), 4, 2, seed=0)  # all that there is, by any seed
    assert (again.train.inputs, again.train.labels) == (wanted.train.inputs, wanted.train.labels)
    assert list(again.train.augmented) == [*wanted.train.augmented, [str(text).upper() for text in wanted.train.inputs]]
    assert again.test is not None
    assert wanted.test is not None
    assert (again.test.inputs, again.test.labels) == (wanted.test.inputs, wanted.test.labels)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["dev.jsonl", "train.jsonl"]
    smaller = augment_source("agnews", "words", tmp_path / "smaller", copy, train_per_class=4)
    assert smaller.train.endswith("smaller --train-per-class 4"), "the recipe would take its validation texts out of them"


def test_what_cannot_work_is_refused_before_anything_is_made(tmp_path: Path, mine: str, cache: Path) -> None:
    copy = write_news(tmp_path / "copy")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "precious").touch()
    for source, changed, message in (
        ("agnews", {"out": tmp_path / "used"}, "exists already and is never overwritten"),
        ("agnews", {"out": tmp_path / "no" / "new"}, "there is no folder"),
        ("agnews", {"out": Path()}, "is the current folder"),
        ("agnews", {"train_per_class": 13}, "class 'World' has 12 texts to train on, 13 per class are asked for"),
        ("agnews", {"validation_per_class": 0}, "--validation-per-class 0: it must be at least 1"),
        ("agnews", {"via": "german"}, "--via german: it must be a language"),
        ("digits", {}, "digits has no texts to augment: give one of agnews,"),
        ("agnew", {}, "Did you mean 'agnews'"),
    ):
        with pytest.raises(InputError, match=message):
            augment_source(source, **{"via": f"{mine}:loud", "data": copy, **changed})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "mine.py", "used"]
    assert not cache.exists()


def test_a_folder_that_comes_meanwhile_stays(tmp_path: Path, mine: str) -> None:
    copy = write_news(tmp_path / "copy", versions=False)
    with pytest.raises(SoftmatchError, match=r"new cannot be written: .* Nothing was left there"):
        augment_source("agnews", f"{mine}:rude", tmp_path / "new", copy, batch=1000)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["precious"]
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
