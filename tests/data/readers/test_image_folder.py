"""Folders of images as users have them: layouts, odd names, links, and what is said about them."""

import os
import sys
import unicodedata
from pathlib import Path

import pytest

from softmatch.data.readers.image_folder import open_folder, open_single
from softmatch.data.records import Columns
from softmatch.errors import InputError
from tests.data.readers.folders import NAMES_ARE_BYTES, STRANGE, labels, only, paths, read, write
from tests.data.readers.images import write_image

LOOSE = "images outside of the class folders are taken as unlabelled: "
UNLABELED = ("unlabelled", "Unlabeled", "_unlabeled", "UNLABELLED", "_unlabelled_")


def test_a_folder_for_each_class_and_one_without(tmp_path: Path) -> None:
    write(tmp_path, "dog/2.jpg", "cat/10.PNG", "cat/more/deep/1.jpeg", "unlabeled/x.webp", "unlabeled/y/z.tiff")
    opened = open_folder(tmp_path, Columns())
    assert labels(opened) == {
        "cat/10.PNG": "cat",
        "cat/more/deep/1.jpeg": "cat",
        "dog/2.jpg": "dog",
        "unlabeled/x.webp": None,
        "unlabeled/y/z.tiff": None,
    }
    assert (opened.kind, opened.where, opened.findings, opened.test) == ("image", str(tmp_path), [], None)
    assert paths(opened)[0] == tmp_path / "cat" / "10.PNG"
    assert opened.columns == Columns()


def test_paths_are_absolute_wherever_the_command_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "photos/cat/1.jpg", "photos/dog/1.jpg")
    monkeypatch.chdir(tmp_path)
    opened = open_folder(Path("photos"), Columns())
    assert opened.where == "photos"
    assert paths(opened) == [tmp_path / "photos" / "cat" / "1.jpg", tmp_path / "photos" / "dog" / "1.jpg"]


@pytest.mark.parametrize(
    ("names", "found", "level", "said"),
    [
        *((f"a/1.png b/1.png {name}/1.png", {"a", "b", None}, "", "") for name in UNLABELED),
        ("a/1.png b/1.png todo/1.png", {"a", "b", None}, "", ""),  # a word of the user
        ("1.0/1.png 2/2.png", {"1", "2"}, "", ""),  # numbers are the labels that they are in a table
        ("1.png 2.gif 3.bmp 4.ppm 5.pgm 6.pbm 7.TIF", {None}, "", ""),
        ("train/a/1.png train/b/2.png unlabeled/3.png", {"a", "b", None}, "", ""),
        ("train/a/1.png train/b/2.png test/a/3.png val/a/4.png", {"a", "b"}, "note", "the images in 'val' are not used"),
        ("a/1.png b/1.png 5.png 6.png", {"a", "b", None}, "note", f"{LOOSE}'5.png'; '6.png'."),
        ("a/1.png b/2.png bird/ unlabeled/", {"a", "b"}, "warning", "there are folders without images: 'bird'; 'unlabeled'."),
        ("all/cat/1.png all/dog/2.png", {"all"}, "warning", "'all', the only class, consists of folders: 'cat'; 'dog'."),
        ("cat/1.png b/1.png unlabled/1.png", {"cat", "b", "unlabled"}, "warning", "the folder 'unlabled' is taken as a class"),
    ],
)
def test_what_folders_say(tmp_path: Path, names: str, found: set[str | None], level: str, said: str) -> None:
    opened = read(tmp_path, names, columns=Columns(unlabeled="todo"))
    assert set(labels(opened).values()) == found
    assert len(opened.read()) == sum(
        not name.endswith("/") and name.split("/")[0] not in ("test", "val") for name in names.split()
    )
    assert (None if opened.test is None else labels(opened.test)) == ({"test/a/3.png": "a"} if "test" in names else None)
    if said:
        assert (only(opened).level, only(opened).text[: len(said)]) == (level, said)
    else:
        assert opened.findings == []


@pytest.mark.parametrize(("train", "test"), [("train", "test"), ("Train", "VAL"), ("training", "validation"), ("train", "valid")])
def test_parts_for_training_and_test(tmp_path: Path, train: str, test: str) -> None:
    write(tmp_path, f"{train}/a/1.png", f"{train}/b/2.png", f"{train}/unlabeled/3.png", f"{test}/a/4.png", f"{test}/b/5.png")
    write(tmp_path, "unlabeled/6.png")
    opened = open_folder(tmp_path, Columns())
    assert labels(opened) == {
        f"{train}/a/1.png": "a",
        f"{train}/b/2.png": "b",
        f"{train}/unlabeled/3.png": None,
        "unlabeled/6.png": None,
    }
    assert labels(opened.test) == {f"{test}/a/4.png": "a", f"{test}/b/5.png": "b"}
    assert opened.test is not None
    assert opened.test.where == str(tmp_path / test)
    assert paths(opened.test)[0] == tmp_path / test / "a" / "4.png"
    assert opened.findings == []


def test_vehicles_may_be_called_train(tmp_path: Path) -> None:
    opened = open_folder(write(tmp_path, "train/1.png", "bus/2.png", "tram/3.png"), Columns())
    assert labels(opened) == {"bus/2.png": "bus", "train/1.png": "train", "tram/3.png": "tram"}
    assert opened.findings == []
    opened = open_folder(write(tmp_path, "test/4.png"), Columns())
    assert labels(opened)["test/4.png"] == "test"
    assert only(opened).level == "warning"
    assert "'train' and 'test' are taken as classes, because there are other folders: 'bus'; 'tram'" in only(opened).text


def test_hidden_files_are_passed_over_and_others_are_counted_once(tmp_path: Path) -> None:
    write(tmp_path, "a/1.png", "b/2.png", "a/.DS_Store", "a/Thumbs.db", "a/._1.png", ".git/3.png", "__MACOSX/a/1.png")
    assert open_folder(tmp_path, Columns()).findings == []
    write(tmp_path, "a/notes.txt", "b/notes.TXT", "b/4.heic", "b/README")
    opened = open_folder(tmp_path, Columns())
    assert len(paths(opened)) == 2
    assert only(opened).level == "note"
    assert only(opened).text == "files that are not readable images are left out: .txt (2), .heic (1), no suffix (1)."


@pytest.mark.parametrize(
    ("names", "instead"),
    [
        ((), "holds no images."),
        (("a/", "b/"), "holds no images."),
        (("a/1.heic", "b/2.heic"), r"holds no images or recordings but 2 other files, \.heic \(2\)"),
        (
            ("data/table.csv",),
            r"holds no images or recordings, but a table: to learn from its columns, give .*/data/table\.csv itself",
        ),
    ],
)
def test_a_folder_without_images_says_what_is_expected(tmp_path: Path, names: tuple[str, ...], instead: str) -> None:
    with pytest.raises(InputError, match=rf"{instead}(.|\n)*cat/1\.jpg(.|\n)*unlabeled/3\.jpg(.|\n)*labels\.csv"):
        open_folder(write(tmp_path, *names), Columns())


def test_a_folder_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing cannot be opened: No such file or directory"):
        open_folder(tmp_path / "missing", Columns())


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    write(tmp_path, "data/a/1.png", "data/b/2.png", "elsewhere/3.png", "elsewhere/deep/4.png")
    (tmp_path / "data/a/around").symlink_to(tmp_path / "data", target_is_directory=True)
    (tmp_path / "data/a/itself").symlink_to(tmp_path / "data/a/itself")
    (tmp_path / "data/b/up").symlink_to("/", target_is_directory=True)
    (tmp_path / "data/0th").symlink_to(tmp_path / "data/b", target_is_directory=True)  # before b by name, and yet b is b
    (tmp_path / "data/unlabeled").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "elsewhere/back").symlink_to(tmp_path / "elsewhere/deep", target_is_directory=True)
    opened = open_folder(tmp_path / "data", Columns())
    assert labels(opened) == {"a/1.png": "a", "b/2.png": "b", "unlabeled/3.png": None, "unlabeled/deep/4.png": None}
    assert {finding.level for finding in opened.findings} == {"note"}
    circle = opened.findings[0]
    assert circle.text.startswith("links that form a circle or lead to folders that are read anyway are not followed: ")
    assert circle.places == ("'0th'", "'a/around'", "'b/up'", "'unlabeled/back'")


def test_linked_images_are_taken_and_broken_links_left_to_the_reader(tmp_path: Path) -> None:
    write(tmp_path, "data/a/1.png", "data/b/2.png", "store/3.png")
    (tmp_path / "data/a/3.png").symlink_to(tmp_path / "store/3.png")
    (tmp_path / "data/a/gone.png").symlink_to(tmp_path / "store/gone.png")
    (tmp_path / "data/a/loop.png").symlink_to(tmp_path / "data/a/loop.png")
    found = sorted(labels(open_folder(tmp_path / "data", Columns())))
    assert found == ["a/1.png", "a/3.png", "a/gone.png", "a/loop.png", "b/2.png"]


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes in folders there")
def test_a_pipe_called_like_an_image_is_not_waited_for(tmp_path: Path) -> None:
    write(tmp_path, "a/1.png", "b/2.png")
    os.mkfifo(tmp_path / "a" / "pipe.png")
    opened = open_folder(tmp_path, Columns())
    assert len(paths(opened)) == 2
    assert only(opened).text == "files that are not readable images are left out: not a file (1)."


@pytest.mark.skipif(sys.platform == "win32", reason="such names are not allowed there")
def test_names_of_any_characters(tmp_path: Path) -> None:
    write(tmp_path, *(f"{name}/{name}.png" for name in STRANGE))
    opened = open_folder(tmp_path, Columns())
    assert labels(opened) == {f"{name}/{name}.png": name for name in sorted(STRANGE)}
    assert all(path.is_file() for path in paths(opened))
    assert opened.findings == []


@NAMES_ARE_BYTES
def test_names_that_are_no_text_can_be_written_out(tmp_path: Path) -> None:
    write(tmp_path, "caf\udce9/1\udcff.png", "caf\udce9/1\udcfe.png", "tea/2.png", "x\udcff/")
    opened = open_folder(tmp_path, Columns())
    assert labels(opened) == {"caf\\xe9/1\\xfe.png": "caf\\xe9", "caf\\xe9/1\\xff.png": "caf\\xe9", "tea/2.png": "tea"}
    assert all(path.is_file() for path in paths(opened))
    for text in (*opened.records.names, opened.where, *(finding.text for finding in opened.findings)):
        text.encode("utf-8")


@NAMES_ARE_BYTES
def test_one_class_written_in_two_ways(tmp_path: Path) -> None:
    composed, decomposed = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    opened = open_folder(write(tmp_path, f"{composed}/1.png", f"{decomposed}/2.png", "tea/3.png"), Columns())
    assert list(labels(opened).values()) == [composed, composed, "tea"]


def test_a_single_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_image(tmp_path / "photo.png")
    monkeypatch.chdir(tmp_path)
    opened = open_single(Path("photo.png"), "image")
    assert paths(opened) == [tmp_path / "photo.png"]
    assert labels(opened) == {"photo.png": None}
    assert opened.where == "photo.png"
