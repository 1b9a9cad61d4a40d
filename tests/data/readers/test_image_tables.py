"""Tables beside images, and tables that name images: what they add, what they contradict, and what is said about it."""

import csv
import sys
from pathlib import Path

import pytest

from softmatch.data.readers.image_folder import open_file_table
from softmatch.data.records import Columns
from softmatch.data.understanding import Reading, read_own
from softmatch.errors import InputError
from softmatch.inference.suggest import cold_start
from tests.data.readers.folders import STRANGE, labels, levels, only, origin, others, paths, read, write, write_table
from tests.own.sources import pictures, write_csv


@pytest.mark.parametrize(
    ("header", "column"),
    [
        ("file,label", "label"),
        ("Filename,Class", "Class"),
        ("image,breed", "breed"),
        ("label,path", "label"),
        ("what,which", "which"),
        ("number,id,target", "target"),
    ],
)
def test_images_beside_a_table(tmp_path: Path, header: str, column: str) -> None:
    cells = {"label": 1, "Class": 1, "breed": 1, "which": 1, "target": 1, "number": 2}
    rows = [("1.png", "cat", "7"), ("2.png", " dog ", "7"), ("sub/4.png", "", "7")]
    lines = [",".join(row[cells.get(name, 0)] for name in header.split(",")) for row in rows]
    opened = read(tmp_path, "1.png 2.png 3.png sub/4.png", "\n".join([header, *lines]))
    assert labels(opened) == {"1.png": "cat", "2.png": "dog", "3.png": None, "sub/4.png": None}
    assert (opened.columns, others(opened), origin(opened)) == (Columns(label=column), [], "2 from labels.csv.")


def test_a_table_with_a_mark_and_tabs_and_names_without_suffix(tmp_path: Path) -> None:
    (tmp_path / "labels.tsv").write_bytes(b"\xef\xbb\xbfid\tspecies\none\tcat\ntwo\tdog\nthree\tcow\n")
    opened = read(tmp_path, "one.png two.JPG three.png three.jpg")
    assert labels(opened) == {"one.png": "cat", "three.jpg": None, "three.png": None, "two.JPG": "dog"}
    assert only(opened).level == "warning"
    assert "rows that match several files are left out: row 3: 'three'. Write the whole path." in only(opened).text


@pytest.mark.parametrize(
    ("names", "table", "found"),
    [
        # numbers in a column of labels are not taken for files
        ("1.png 2.png 3.png 4.png", "y,key\n2,1\n1,2\n2,3\n1,4\n", ["2", "1", "2", "1"]),
        # images in a folder of their own beside the table
        ("images/1.png images/2.png images/3.png", "file,label\n1.png,a\nimages/2.png,b\n./images\\3.png,a\n", ["a", "b", "a"]),
        # labels are cleaned
        ("0.png 1.png 2.png 3.png 4.png", "file,label\n0.png,1\n1.png,1.0\n2.png,1 \n3.png,?\n4.png,\n", ["1"] * 3 + [None] * 2),
    ],
)
def test_a_table_labels_the_images(tmp_path: Path, names: str, table: str, found: list[str | None]) -> None:
    opened = read(tmp_path, names, table, Columns(unlabeled="?"))
    assert list(labels(opened).values()) == found
    assert others(opened) == []
    assert opened.columns == Columns(label=table.split(",")[0] if table.startswith("y") else "label", unlabeled="?")


@pytest.mark.skipif(sys.platform == "win32", reason="such names are not allowed there")
def test_a_table_names_files_of_any_characters(tmp_path: Path) -> None:
    write(tmp_path, *(f"{name}.png" for name in STRANGE))
    quoted = [name.replace('"', '""') for name in STRANGE]
    opened = read(tmp_path, "", "file,label\n" + "\n".join(f'"{name}.png","{name}"' for name in quoted))
    assert labels(opened) == {f"{name}.png": name for name in STRANGE}
    assert others(opened) == []


def test_the_user_says_which_column_holds_the_labels(tmp_path: Path) -> None:
    opened = read(tmp_path, "1.png 2.png", "file,breed,colour\n1.png,a,x\n2.png,b,y\n", Columns(label="colour"))
    assert list(labels(opened).values()) == ["x", "y"]


SECRET = "file,label\n1.png,a\n{},b\n"


@pytest.mark.parametrize(
    ("label", "table", "message"),
    [
        (None, "file,breed,colour\n1.png,a,x\n", "holds the labels ('breed' or 'colour'). Choose one with --label."),
        ("color", "file,breed,colour\n1.png,a,x\n", "no column 'color', which --label names. Did you mean 'colour'?"),
        (
            None,
            "file,label\nx.png,a\ny.png,b\n",
            ": none of its 2 files is in the folder {}: row 1: 'x.png'; row 2: 'y.png'.",
        ),
        (None, "file,label\n1.png,a\n2.png,b\n2.png,b\n1,c\n2.png,\n", ": '1' has the label 'a' in row 1 and 'c' in row 4."),
        (None, "file,label\n1.png,a\n2.png,b,c\n", ", row 2 (line 3) has 3 cells, the header has 2."),
        (None, SECRET.format("../secret.png"), ", row 2: '../secret.png' is outside the folder {}. Use paths relative to it."),
        (None, SECRET.format("sub/../../secret.png"), ", row 2: 'sub/../../secret.png' is outside the folder {}."),
        (None, SECRET.format("/etc/secret.png"), ", row 2: '/etc/secret.png' is outside the folder {}."),
        (None, SECRET.format("C:\\secret.png"), ", row 2: 'C:\\\\secret.png' is outside the folder {}."),
        (None, SECRET.format("..\\secret.png"), ", row 2: '..\\\\secret.png' is outside the folder {}."),
    ],
)
def test_a_table_that_cannot_be_used_stops_and_says_why(tmp_path: Path, label: str | None, table: str, message: str) -> None:
    write(tmp_path, "secret.png")
    stop = only(read(folder := tmp_path / "data", "1.png 2.png", table, Columns(label=label)))
    assert stop.level == "stop"
    assert f"{folder}/labels.csv" in stop.text
    assert message.format(folder) in stop.text
    if "secret" in message:
        with pytest.raises(InputError, match=r"row 2: .* is outside the folder"):
            open_file_table(folder / "labels.csv", Columns(), "file", "image")


def test_files_that_are_not_there_are_named_with_their_rows(tmp_path: Path) -> None:
    opened = read(tmp_path, "1.png 2.png", "file,label\n1.png,a\ngone.png,b\n2.png,b\nlost.png,a\n")
    assert labels(opened) == {"1.png": "a", "2.png": "b"}
    assert only(opened).level == "warning"
    assert f"labels.csv: rows whose file is not in the folder {tmp_path} are left out: row 2" in only(opened).text
    assert only(opened).places == ("row 2: 'gone.png'", "row 4: 'lost.png'")


def test_two_tables_that_disagree(tmp_path: Path) -> None:
    tables = {"new": "file,label\n1.png,a\n2.png,b\n", "old": "file,label\n1.png,c\n2.png,b\n"}
    stop = only(read(tmp_path, "1.png 2.png", **tables))
    assert (stop.level, len(stop.places)) == ("stop", 1)
    assert stop.text == (
        f"{tmp_path}/old.csv: labels contradict each other: row 1: '1.png' is 'c' here and 'a' in {tmp_path}/new.csv, row 1. "
        "Keep one label for each file."
    )


@pytest.mark.parametrize(
    ("names", "tables", "found", "test", "said"),
    [
        (  # two tables complement each other
            "1.png 2.png 3.png 4.png",
            {
                "first": "file,label\n1.png,a\n2.png,b\n3.png,\n",
                "to_label": "name,label,reason\n2.png,b,x\n1.png,,x\n3.png,a,x\n4.png,b,x\n",
            },
            ["a", "b", "a", "b"],
            None,
            "2 from first.csv, 2 from to_label.csv.",
        ),
        (  # tables for training and test
            "train/1.png train/2.png train/3.png test/4.png test/5.png",
            {"train": "file,label\n1.png,a\n2.png,b\n", "test": "file,label\ntest/4.png,a\n5.png,b\n"},
            ["a", "b", None],
            ["a", "b"],
            "2 from test.csv, 2 from train.csv.",
        ),
        (  # a table of training images leaves a test set in folders alone
            "train/1.png train/2.png test/a/3.png test/b/4.png",
            {"train__labels": "file,label\n1.png,a\n2.png,b\n"},
            ["a", "b"],
            ["a", "b"],
            "2 from the names of folders, 2 from train/labels.csv.",
        ),
        (  # a table of training images in parts
            "train/a/1.png train/b/2.png train/3.png unlabeled/4.png test/a/5.png test/b/6.png",
            {"to_label": "name,label\ntrain/3.png,a\nunlabeled/4.png,b\n"},
            ["a", "a", "b", "b"],
            ["a", "b"],
            "4 from the names of folders, 2 from to_label.csv.",
        ),
        (  # one folder of a class beside unlabeled/, and the other class in a table
            "dark/1.png dark/2.png unlabeled/3.png unlabeled/4.png unlabeled/5.png",
            {"to_label": "name,label\nunlabeled/3.png,light\nunlabeled/4.png,dark\n"},
            ["dark", "dark", "light", "dark", None],
            None,
            "2 from the names of folders, 2 from to_label.csv.",
        ),
        (  # a table without any label yet changes nothing
            "a/1.png b/2.png unlabeled/3.png",
            {"to_label": "name,label,reason\nunlabeled/3.png,,typical\na/1.png,,typical\n"},
            ["a", "b", None],
            None,
            "2 from the names of folders. to_label.csv has no labels yet and is not used.",
        ),
    ],
)
def test_folders_and_tables_together(
    tmp_path: Path, names: str, tables: dict[str, str], found: list[str | None], test: list[str] | None, said: str
) -> None:
    opened = read(tmp_path, names, **tables)
    assert list(labels(opened).values()) == found
    assert (None if opened.test is None else list(labels(opened.test).values())) == test
    assert others(opened) == []
    assert origin(opened) == said


@pytest.mark.parametrize(
    "content",
    [
        "id,count\n1,7\n2,8\n",  # numbers that happen to be names of files
        "file,width\n1.png,640\n2.png,480\n",  # about the images, but no labels
        "file,width,height\n1.png,640,480\n2.png,640,480\n",
        "ragged\n1,2\n",
        "class,examples\na,many\nb,few\n",
    ],
)
def test_folders_of_classes_win_over_a_table_that_has_no_labels(tmp_path: Path, content: str) -> None:
    opened = read(tmp_path, "a/1.png b/2.png", content)
    assert labels(opened) == {"a/1.png": "a", "b/2.png": "b"}
    assert (only(opened).level, "not used" in only(opened).text) == ("note", True)


def test_a_table_adds_labels_to_images_that_no_folder_labels(tmp_path: Path) -> None:
    names = "cat/1.png dog/2.png dog/3.png unlabeled/4.png unlabeled/5.png 6.png 7.png bird/"
    opened = read(tmp_path, names, "file,label\ncat/1.png,\n2.png,dog\nunlabeled/4.png,cow\n5.png,\n6.png,cat\n")
    assert list(labels(opened).values()) == ["cat", None, "cat", "dog", "dog", "cow", None]
    assert origin(opened) == "3 from the names of folders, 2 from labels.csv."
    assert levels(opened) == ["warning", "note"]  # as ever: a folder without an image, and images in no folder
    assert "images outside of the class folders are taken as unlabelled: '7.png'." in others(opened)[1].text
    assert opened.columns == Columns()


def test_a_table_that_contradicts_the_folders_stops(tmp_path: Path) -> None:
    stop = only(read(tmp_path, "day/1.png night/2.png night/3.png", "file,label\nday/1.png,x\nnight/2.png,night\n"))
    assert stop.level == "stop"
    expected = f"{tmp_path}/labels.csv: labels contradict each other: row 1: 'day/1.png' is 'x' here and 'day' in its folder."
    assert stop.text.startswith(expected)
    assert "give the table itself as the source" in stop.text
    assert labels(open_file_table(tmp_path / "labels.csv", Columns(), "file", "image")) == {
        "day/1.png": "x",
        "night/2.png": "night",
    }


@pytest.mark.parametrize("label", ["b", "more"])
def test_one_folder_alone_is_no_class_where_a_table_labels_the_images(tmp_path: Path, label: str) -> None:
    opened = read(tmp_path, "1.png 2.png more/3.png more/4.png", f"file,label\n1.png,a\n2.png,{label}\n")
    assert labels(opened) == {"1.png": "a", "2.png": label, "more/3.png": None, "more/4.png": None}
    assert only(opened).level == "warning"
    assert "'more' is not taken as a class" in only(opened).text
    assert only(opened).text.endswith("Files in it that no table names have no label (2).")


@pytest.mark.parametrize("flat", [False, True])
def test_suggest_then_label_then_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flat: bool) -> None:
    """`suggest .` inside the folder, its table filled in there, and the same folder read for training."""
    folder = pictures(tmp_path / "photos", per_class=3, unlabeled=10)
    truth = {f"{number:03d}.png": ("dark", "light")[number % 2] for number in range(16)}
    if flat:
        known = [(path.name, truth[path.name]) for name in ("dark", "light") for path in sorted((folder / name).iterdir())]
        for path in list(folder.rglob("*.png")):
            path.rename(folder / path.name)
        write_csv(folder / "labels.csv", known, ("file", "label"))
    monkeypatch.chdir(folder)
    suggested = cold_start(".", 4)
    assert suggested.file == Path("to_label.csv")
    before = read_own(".", Reading()).examples
    assert (before.classes, int((before.labels >= 0).sum())) == (("dark", "light"), 6)
    with suggested.file.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == [""] * 4
    filled = [(row["name"], truth[Path(row["name"]).name], row["reason"]) for row in rows]
    write_csv(suggested.file, filled, ("name", "label", "reason"))
    understood = read_own(".", Reading())
    assert (len(understood.examples), int((understood.examples.labels >= 0).sum())) == (16, 10)
    found = dict(zip(understood.examples.names, understood.examples.labels.tolist(), strict=True))
    assert [found[name] for name, _, _ in filled] == [("dark", "light").index(label) for _, label, _ in filled]
    notes = [finding.text for finding in understood.findings if finding.text.startswith("labels of ")]
    assert notes == [f"labels of .: 6 from {'labels.csv' if flat else 'the names of folders'}, 4 from to_label.csv."]
    assert not {*suggested.names} & {*cold_start(".", 4).names}  # what is labelled now is not suggested again


def test_a_table_of_something_else_in_a_flat_folder_is_a_warning(tmp_path: Path) -> None:
    opened = read(tmp_path, "1.png", columns=Columns(label="wind"), weather="temperature,wind\n3.5,7\n")
    assert labels(opened) == {"1.png": None}
    assert levels(opened) == ["warning", "note"]
    assert "'weather.csv'" in opened.findings[0].text
    assert "--label wind is not used" in opened.findings[1].text


def test_a_table_whose_rows_name_images(tmp_path: Path) -> None:
    write(tmp_path, "b.png", "sub/a.png", "sub/deep/c.jpg", "not named.png")
    write_table(tmp_path, "file,label\nsub/a.png,x\nb,y\nsub/deep/c.jpg,\ngone.png,x\nb.png,y\n")
    opened = open_file_table(tmp_path / "labels.csv", Columns(), "file", "image")
    assert list(labels(opened).items()) == [("sub/a.png", "x"), ("b.png", "y"), ("sub/deep/c.jpg", None)]
    assert paths(opened)[0] == tmp_path / "sub" / "a.png"
    assert opened.columns.label == "label"
    assert [finding.places for finding in opened.findings if finding.level == "warning"] == [("row 4: 'gone.png'",)]
    assert opened.where == str(tmp_path / "labels.csv")


@pytest.mark.parametrize(
    ("name", "content", "column", "found"),
    [
        ("t.jsonl", '{"f": "1.png", "label": 3}\n{"f": "2.png", "label": null}\n', "f", {"1.png": "3", "2.png": None}),
        ("t.csv", "file\n2.png\n1.png\n", "file", {"2.png": None, "1.png": None}),
    ],
)
def test_a_table_of_images_in_any_format_with_or_without_labels(
    tmp_path: Path, name: str, content: str, column: str, found: dict[str, str | None]
) -> None:
    write(tmp_path, "1.png", "2.png", "3.png")
    write_table(tmp_path, content, name)
    assert list(labels(open_file_table(tmp_path / name, Columns(), column, "image")).items()) == list(found.items())
