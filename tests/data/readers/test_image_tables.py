"""Tables beside images, and tables that name images: what they add, what they contradict, and what is said about it."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from softmatch.data.readers.image_folder import open_folder, open_image_table
from softmatch.data.records import Columns
from softmatch.data.understanding import Reading, read_own
from softmatch.errors import InputError
from softmatch.inference.suggest import cold_start
from tests.data.readers.folders import STRANGE, labels, levels, only, origin, others, write, write_table
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
    write(tmp_path, "1.png", "2.png", "3.png", "sub/4.png")
    rows = [("1.png", "cat"), ("2.png", " dog "), ("sub/4.png", "")]
    cells = {"label": 1, "Class": 1, "breed": 1, "which": 1, "target": 1, "number": 2}
    lines = [",".join((*row, "7")[cells.get(name, 0)] for name in header.split(",")) for row in rows]
    write_table(tmp_path, "\n".join([header, *lines]))
    opened = open_folder(tmp_path, Columns())
    assert labels(opened) == {"1.png": "cat", "2.png": "dog", "3.png": None, "sub/4.png": None}
    assert opened.columns == Columns(label=column)
    assert others(opened) == []
    assert origin(opened) == "2 from labels.csv."


def test_a_table_with_a_mark_and_tabs_and_names_without_suffix(tmp_path: Path) -> None:
    write(tmp_path, "one.png", "two.JPG", "three.png", "three.jpg")
    (tmp_path / "labels.tsv").write_bytes(b"\xef\xbb\xbfid\tspecies\none\tcat\ntwo\tdog\nthree\tcow\n")
    opened = open_folder(tmp_path, Columns())
    assert labels(opened) == {"one.png": "cat", "three.jpg": None, "three.png": None, "two.JPG": "dog"}
    assert only(opened).level == "warning"
    assert "rows that match several images are left out: row 3: 'three'. Write the whole path." in only(opened).text


def test_numbers_in_a_column_of_labels_are_not_taken_for_files(tmp_path: Path) -> None:
    write(tmp_path, *(f"{number}.png" for number in range(1, 7)))
    write_table(tmp_path, "y,key\n" + "\n".join(f"{number % 2 + 1},{number}" for number in range(1, 7)))
    opened = open_folder(tmp_path, Columns())
    assert labels(opened) == {f"{number}.png": str(number % 2 + 1) for number in range(1, 7)}


def test_images_in_a_folder_of_their_own_beside_the_table(tmp_path: Path) -> None:
    write(tmp_path, "images/1.png", "images/2.png", "images/3.png")
    write_table(tmp_path, "file,label\n1.png,a\nimages/2.png,b\n./images\\3.png,a\n")
    opened = open_folder(tmp_path, Columns())
    assert labels(opened) == {"images/1.png": "a", "images/2.png": "b", "images/3.png": "a"}
    assert others(opened) == []


@pytest.mark.skipif(sys.platform == "win32", reason="such names are not allowed there")
def test_a_table_names_files_of_any_characters(tmp_path: Path) -> None:
    write(tmp_path, *(f"{name}.png" for name in STRANGE))
    quoted = [name.replace('"', '""') for name in STRANGE]
    write_table(tmp_path, "file,label\n" + "\n".join(f'"{name}.png","{name}"' for name in quoted))
    opened = open_folder(tmp_path, Columns())
    assert labels(opened) == {f"{name}.png": name for name in STRANGE}
    assert others(opened) == []


def test_labels_in_a_table_are_cleaned(tmp_path: Path) -> None:
    write(tmp_path, *(f"{number}.png" for number in range(5)))
    write_table(tmp_path, "file,label\n0.png,1\n1.png,1.0\n2.png,1 \n3.png,?\n4.png,\n")
    opened = open_folder(tmp_path, Columns(unlabeled="?"))
    assert list(labels(opened).values()) == ["1", "1", "1", None, None]
    assert opened.columns == Columns(label="label", unlabeled="?")


def test_the_user_says_which_column_holds_the_labels(tmp_path: Path) -> None:
    write(tmp_path, "1.png", "2.png")
    write_table(tmp_path, "file,breed,colour\n1.png,a,x\n2.png,b,y\n")
    assert list(labels(open_folder(tmp_path, Columns(label="colour"))).values()) == ["x", "y"]
    unclear = only(open_folder(tmp_path, Columns()))
    assert unclear.level == "stop"
    assert unclear.text.endswith("which column holds the labels ('breed' or 'colour'). Choose one with --label.")
    wrong = only(open_folder(tmp_path, Columns(label="color")))
    assert wrong.level == "stop"
    assert "no column 'color', which --label names. Did you mean 'colour'?" in wrong.text


def test_files_that_are_not_there_are_named_with_their_rows(tmp_path: Path) -> None:
    write(tmp_path, "1.png", "2.png")
    write_table(tmp_path, "file,label\n1.png,a\ngone.png,b\n2.png,b\nlost.png,a\n")
    opened = open_folder(tmp_path, Columns())
    assert labels(opened) == {"1.png": "a", "2.png": "b"}
    assert only(opened).level == "warning"
    assert f"labels.csv: rows whose image is not in the folder {tmp_path} are left out: row 2" in only(opened).text
    assert only(opened).places == ("row 2: 'gone.png'", "row 4: 'lost.png'")


def test_it_stops_where_no_file_is_there(tmp_path: Path) -> None:
    write(tmp_path, "1.png")
    write_table(tmp_path, "file,label\nx.png,a\ny.png,b\n")
    stop = only(open_folder(tmp_path, Columns()))
    assert stop.level == "stop"
    assert f"labels.csv: none of its 2 files is an image in the folder {tmp_path}: row 1: 'x.png'; row 2: 'y.png'." in stop.text


def test_a_file_with_two_labels_stops_and_both_rows_are_named(tmp_path: Path) -> None:
    write(tmp_path, "1.png", "2.png")
    write_table(tmp_path, "file,label\n1.png,a\n2.png,b\n2.png,b\n1,c\n2.png,\n")
    stop = only(open_folder(tmp_path, Columns()))
    assert stop.level == "stop"
    assert "'1' has the label 'a' in row 1 and 'c' in row 4" in stop.text


@pytest.mark.parametrize("cell", ["../secret.png", "sub/../../secret.png", "/etc/secret.png", "C:\\secret.png", "..\\secret.png"])
def test_files_outside_are_refused(tmp_path: Path, cell: str) -> None:
    write(tmp_path, "data/1.png", "secret.png")
    write_table(tmp_path / "data", f"file,label\n1.png,a\n{cell},b\n")
    opened = open_folder(tmp_path / "data", Columns())
    assert only(opened).level == "stop"
    assert "labels.csv, row 2: " in only(opened).text
    assert "is outside the folder" in only(opened).text
    assert labels(opened) == {"1.png": None}
    with pytest.raises(InputError, match=r"row 2: .* is outside the folder"):
        open_image_table(tmp_path / "data" / "labels.csv", Columns(), "file")


def test_a_ragged_table_stops_with_its_row(tmp_path: Path) -> None:
    write(tmp_path, "1.png", "2.png")
    write_table(tmp_path, "file,label\n1.png,a\n2.png,b,c\n")
    assert (only(open_folder(tmp_path, Columns())).level, "labels.csv, row 2" in only(open_folder(tmp_path, Columns())).text) == (
        "stop",
        True,
    )


def test_two_tables_complement_each_other(tmp_path: Path) -> None:
    write(tmp_path, "1.png", "2.png", "3.png", "4.png")
    write_table(tmp_path, "file,label\n1.png,a\n2.png,b\n3.png,\n", "first.csv")
    write_table(tmp_path, "name,label,reason\n2.png,b,x\n1.png,,x\n3.png,a,x\n4.png,b,x\n", "to_label.csv")
    opened = open_folder(tmp_path, Columns())
    assert labels(opened) == {"1.png": "a", "2.png": "b", "3.png": "a", "4.png": "b"}
    assert others(opened) == []
    assert origin(opened) == "2 from first.csv, 2 from to_label.csv."


def test_two_tables_that_disagree(tmp_path: Path) -> None:
    write(tmp_path, "1.png", "2.png")
    write_table(tmp_path, "file,label\n1.png,a\n2.png,b\n", "new.csv")
    write_table(tmp_path, "file,label\n1.png,c\n2.png,b\n", "old.csv")
    stop = only(open_folder(tmp_path, Columns()))
    assert stop.level == "stop"
    assert stop.text == (
        f"{tmp_path}/old.csv: labels contradict each other: row 1: '1.png' is 'c' here and 'a' in {tmp_path}/new.csv, row 1. "
        "Keep one label for each image."
    )
    assert len(stop.places) == 1


def test_tables_for_training_and_test(tmp_path: Path) -> None:
    write(tmp_path, "train/1.png", "train/2.png", "train/3.png", "test/4.png", "test/5.png")
    write_table(tmp_path, "file,label\n1.png,a\n2.png,b\n", "train.csv")
    write_table(tmp_path, "file,label\ntest/4.png,a\n5.png,b\n", "test.csv")
    opened = open_folder(tmp_path, Columns())
    assert labels(opened) == {"train/1.png": "a", "train/2.png": "b", "train/3.png": None}
    assert labels(opened.test) == {"test/4.png": "a", "test/5.png": "b"}
    assert others(opened) == []
    assert origin(opened) == "2 from test.csv, 2 from train.csv."


def test_a_table_of_training_images_leaves_a_test_set_in_folders_alone(tmp_path: Path) -> None:
    write(tmp_path, "train/1.png", "train/2.png", "test/a/3.png", "test/b/4.png")
    write_table(tmp_path / "train", "file,label\n1.png,a\n2.png,b\n")
    opened = open_folder(tmp_path, Columns())
    assert labels(opened) == {"train/1.png": "a", "train/2.png": "b"}
    assert labels(opened.test) == {"test/a/3.png": "a", "test/b/4.png": "b"}
    assert origin(opened) == "2 from the names of folders, 2 from train/labels.csv."


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
    write(tmp_path, "a/1.png", "b/2.png")
    write_table(tmp_path, content)
    opened = open_folder(tmp_path, Columns())
    assert labels(opened) == {"a/1.png": "a", "b/2.png": "b"}
    assert (only(opened).level, "not used" in only(opened).text) == ("note", True)


def test_a_table_adds_labels_to_images_that_no_folder_labels(tmp_path: Path) -> None:
    write(tmp_path, "cat/1.png", "dog/2.png", "dog/3.png", "unlabeled/4.png", "unlabeled/5.png", "6.png", "7.png", "bird/")
    write_table(tmp_path, "file,label\ncat/1.png,\n2.png,dog\nunlabeled/4.png,cow\n5.png,\n6.png,cat\n")
    opened = open_folder(tmp_path, Columns())
    assert labels(opened) == {
        "6.png": "cat",
        "7.png": None,
        "cat/1.png": "cat",
        "dog/2.png": "dog",
        "dog/3.png": "dog",
        "unlabeled/4.png": "cow",
        "unlabeled/5.png": None,
    }
    assert origin(opened) == "3 from the names of folders, 2 from labels.csv."
    assert levels(opened) == ["warning", "note"]  # as ever: a folder without an image, and images in no folder
    assert "images outside of the class folders are taken as unlabelled: '7.png'." in others(opened)[1].text
    assert opened.columns == Columns()


def test_a_table_of_training_images_in_parts(tmp_path: Path) -> None:
    write(tmp_path, "train/a/1.png", "train/b/2.png", "train/3.png", "unlabeled/4.png", "test/a/5.png", "test/b/6.png")
    write_table(tmp_path, "name,label\ntrain/3.png,a\nunlabeled/4.png,b\n", "to_label.csv")
    opened = open_folder(tmp_path, Columns())
    assert labels(opened) == {"train/3.png": "a", "train/a/1.png": "a", "train/b/2.png": "b", "unlabeled/4.png": "b"}
    assert labels(opened.test) == {"test/a/5.png": "a", "test/b/6.png": "b"}
    assert origin(opened) == "4 from the names of folders, 2 from to_label.csv."


def test_a_table_that_contradicts_the_folders_stops(tmp_path: Path) -> None:
    write(tmp_path, "day/1.png", "night/2.png", "night/3.png")
    write_table(tmp_path, "file,label\nday/1.png,x\nnight/2.png,night\n")
    stop = only(open_folder(tmp_path, Columns()))
    assert stop.level == "stop"
    expected = f"{tmp_path}/labels.csv: labels contradict each other: row 1: 'day/1.png' is 'x' here and 'day' in its folder."
    assert stop.text.startswith(expected)
    assert "give the table itself as the source" in stop.text
    assert labels(open_image_table(tmp_path / "labels.csv", Columns(), "file")) == {"day/1.png": "x", "night/2.png": "night"}


def test_one_folder_beside_unlabeled_is_a_class_and_the_others_are_in_a_table(tmp_path: Path) -> None:
    write(tmp_path, "dark/1.png", "dark/2.png", "unlabeled/3.png", "unlabeled/4.png", "unlabeled/5.png")
    write_table(tmp_path, "name,label\nunlabeled/3.png,light\nunlabeled/4.png,dark\n", "to_label.csv")
    opened = open_folder(tmp_path, Columns())
    assert list(labels(opened).values()) == ["dark", "dark", "light", "dark", None]
    assert origin(opened) == "2 from the names of folders, 2 from to_label.csv."


@pytest.mark.parametrize("label", ["b", "more"])
def test_one_folder_alone_is_no_class_where_a_table_labels_the_images(tmp_path: Path, label: str) -> None:
    write(tmp_path, "1.png", "2.png", "more/3.png", "more/4.png")
    write_table(tmp_path, f"file,label\n1.png,a\n2.png,{label}\n")
    opened = open_folder(tmp_path, Columns())
    assert labels(opened) == {"1.png": "a", "2.png": label, "more/3.png": None, "more/4.png": None}
    assert only(opened).level == "warning"
    assert "'more' is not taken as a class" in only(opened).text
    assert only(opened).text.endswith("Images in it that no table names have no label (2).")


def test_a_table_without_any_label_yet_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path, "a/1.png", "b/2.png", "unlabeled/3.png")
    before = labels(open_folder(tmp_path, Columns()))
    write_table(tmp_path, "name,label,reason\nunlabeled/3.png,,typical\na/1.png,,typical\n", "to_label.csv")
    opened = open_folder(tmp_path, Columns())
    assert labels(opened) == before == {"a/1.png": "a", "b/2.png": "b", "unlabeled/3.png": None}
    assert origin(opened) == "2 from the names of folders. to_label.csv has no labels yet and is not used."
    assert others(opened) == []


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
    write(tmp_path, "1.png")
    write_table(tmp_path, "temperature,wind\n3.5,7\n", "weather.csv")
    opened = open_folder(tmp_path, Columns(label="wind"))
    assert labels(opened) == {"1.png": None}
    assert levels(opened) == ["warning", "note"]
    assert "'weather.csv'" in opened.findings[0].text
    assert "--label wind is not used" in opened.findings[1].text


def test_a_table_whose_rows_name_images(tmp_path: Path) -> None:
    write(tmp_path, "b.png", "sub/a.png", "sub/deep/c.jpg", "not named.png")
    write_table(tmp_path, "file,label\nsub/a.png,x\nb,y\nsub/deep/c.jpg,\ngone.png,x\nb.png,y\n")
    opened = open_image_table(tmp_path / "labels.csv", Columns(), "file")
    assert list(labels(opened).items()) == [("sub/a.png", "x"), ("b.png", "y"), ("sub/deep/c.jpg", None)]
    assert opened.paths[0] == tmp_path / "sub" / "a.png"
    assert opened.columns.label == "label"
    assert [finding.places for finding in opened.findings if finding.level == "warning"] == [("row 4: 'gone.png'",)]
    assert opened.where == str(tmp_path / "labels.csv")


def test_a_table_of_images_of_another_format(tmp_path: Path) -> None:
    write(tmp_path, "1.png", "2.png")
    (tmp_path / "images.jsonl").write_text(
        '{"image": "1.png", "label": 3}\n{"image": "2.png", "label": null}\n', encoding="utf-8"
    )
    opened = open_image_table(tmp_path / "images.jsonl", Columns(), "image")
    assert labels(opened) == {"1.png": "3", "2.png": None}


def test_a_table_of_images_without_labels(tmp_path: Path) -> None:
    write(tmp_path, "1.png", "2.png")
    write_table(tmp_path, "file\n2.png\n1.png\n", "list.csv")
    assert list(labels(open_image_table(tmp_path / "list.csv", Columns(), "file")).items()) == [("2.png", None), ("1.png", None)]
