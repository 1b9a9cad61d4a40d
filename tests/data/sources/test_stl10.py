"""STL-10's binary files: columns first, labels from 1, images without a label after those that have one."""

from pathlib import Path

import pytest

from softmatch.data import make_split
from softmatch.errors import InputError
from tests.data.sources.copies import load, pack, publish, same, write_stl10


@pytest.mark.parametrize("below", ["", "stl10_binary"])
def test_labelled_images_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str) -> None:
    parts = write_stl10(tmp_path / below)
    publish(monkeypatch, "stl10", tmp_path)
    train, test = load("stl10", tmp_path)
    assert same(train, parts["train"], parts["unlabeled"])
    assert same(test, parts["test"])
    assert train.describe() == "17 colour images of 96×96, 10 classes, 10 with a label"


def test_every_image_is_in_the_pool_once_and_labels_are_drawn_of_labelled_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_stl10(tmp_path)
    publish(monkeypatch, "stl10", tmp_path)
    train, _ = load("stl10", tmp_path)
    split = make_split(train, 10, 0)
    assert split.unlabeled.tolist() == list(range(17))
    assert split.labeled.tolist() == list(range(10))


def test_columns_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_stl10(tmp_path)
    content = bytearray(10 * 3 * 96 * 96)
    content[96 * 96 + 7 * 96 + 5] = 200  # green, column 7, line 5 of the first image
    (tmp_path / "train_X.bin").write_bytes(content)
    publish(monkeypatch, "stl10", tmp_path)
    assert load("stl10", tmp_path)[0].items[0].nonzero().tolist() == [[1, 5, 7]]


def test_the_archive_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = write_stl10(tmp_path / "made" / "stl10_binary")
    pack(tmp_path / "stl10_binary.tar.gz", tmp_path / "made" / "stl10_binary")
    publish(monkeypatch, "stl10", tmp_path)
    train, test = load("stl10", tmp_path / "stl10_binary.tar.gz")
    assert same(train, parts["train"], parts["unlabeled"])
    assert same(test, parts["test"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("unlabeled_X.bin", bytes(27648 * 2 - 1), "unlabeled_X.bin is cut off or damaged: 55,295 bytes are not a whole number"),
        ("unlabeled_X.bin", b"", "unlabeled_X.bin: there are no images"),
        ("train_y.bin", bytes([1, 2, 0]), "train_y.bin: label 0 at position 2, expected 1 … 10"),
        ("test_y.bin", bytes([11] * 11), "test_y.bin: label 11 at position 0"),
        ("test_y.bin", bytes([1] * 9), "test_X.bin: there are 11 images but 9 labels"),
    ],
)
def test_wrong_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, message: str) -> None:
    write_stl10(tmp_path)
    (tmp_path / name).write_bytes(content)
    publish(monkeypatch, "stl10", tmp_path)
    with pytest.raises(InputError, match=message):
        load("stl10", tmp_path)


def test_the_unlabelled_part_is_needed(tmp_path: Path) -> None:
    write_stl10(tmp_path)
    (tmp_path / "unlabeled_X.bin").unlink()
    with pytest.raises(InputError, match=r"lacks unlabeled_X.bin\."):
        load("stl10", tmp_path)
