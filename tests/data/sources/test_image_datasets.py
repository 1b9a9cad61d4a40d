"""The table of published datasets is consistent, and a path that leads nowhere is answered with what is expected."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from softmatch.data import SOURCES, make_split
from softmatch.data.pictures import ImageFiles
from softmatch.data.sources.image_datasets import PUBLISHED
from softmatch.data.sources.originals import Data, Piece, join_images
from softmatch.errors import InputError
from tests.data.sources.copies import load, publish, write_cifar10, write_tree

CLASSES = {"cifar10": 10, "cifar100": 100, "svhn": 10, "stl10": 10, "imagenet": 0, "fashion-mnist": 10}


def test_every_dataset_is_a_source() -> None:
    assert [name for name, source in SOURCES.items() if not source.texts] == ["digits", "two-moons", *PUBLISHED]
    assert {name: len(dataset.classes) for name, dataset in PUBLISHED.items()} == CLASSES


@pytest.mark.parametrize("name", PUBLISHED)
def test_entries_are_consistent(name: str) -> None:
    dataset = PUBLISHED[name]
    assert len(dataset.mean) == len(dataset.std) == dataset.shape[0]
    assert len(set(dataset.classes)) == len(dataset.classes)
    assert dataset.hub.id.count("/") == 1
    if dataset.originals is not None:
        sums = [*dataset.originals.files.values(), *(dataset.originals.archive or ("", "0" * 32))[1:]]
        assert all(re.fullmatch("[0-9a-f]{32}", md5) for md5 in sums)


def test_cifar100s_classes_are_in_their_order() -> None:
    assert list(PUBLISHED["cifar100"].classes) == sorted(PUBLISHED["cifar100"].classes)


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name != "imagenet"])
def test_an_empty_folder_is_answered_with_the_files_that_are_expected(tmp_path: Path, name: str) -> None:
    originals = PUBLISHED[name].originals
    assert originals is not None
    (tmp_path / "given").mkdir()
    with pytest.raises(
        InputError, match=rf"given has no files of {name}; it holds nothing.*{next(iter(originals.files))}.*\.npz"
    ):
        load(name, tmp_path / "given")
    (tmp_path / "given" / "thesis.tex").touch()
    with pytest.raises(InputError, match=r"it holds 'thesis\.tex'\."):
        load(name, tmp_path / "given")
    with pytest.raises(InputError, match=f"thesis.tex is none of the files of {name}"):
        load(name, tmp_path / "given" / "thesis.tex")


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_path_that_does_not_exist_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"--data .*nowhere: there is no such file or folder"):
        load(name, tmp_path / "nowhere")


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cifar10(tmp_path)
    refused = tmp_path / "data_batch_2"
    original = Path.open

    def guarded(path: Path, *arguments: Any) -> Any:
        if path == refused:
            raise PermissionError(13, "Permission denied", str(path))
        return original(path, *arguments)

    publish(monkeypatch, "cifar10", tmp_path)
    monkeypatch.setattr(Path, "open", guarded)
    with pytest.raises(InputError, match=r"data_batch_2 cannot be read: Permission denied\."):
        load("cifar10", tmp_path)


def test_imagenet_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "some.npz").touch()
    with pytest.raises(InputError, match=r"some.npz/train cannot be read: Not a directory; expected .*/CLASS/\*\.JPEG"):
        load("imagenet", tmp_path / "some.npz")


def test_the_page_about_data_names_every_dataset_and_its_files() -> None:
    text = (Path(__file__).parents[3] / "docs" / "datasets.md").read_text(encoding="utf-8")
    for name, dataset in PUBLISHED.items():
        assert f"`{name}`" in text
        assert dataset.hub.id in text
        for file in dataset.originals.files if dataset.originals else ():
            assert re.sub("[1-5]$", "", file).removesuffix(".gz") in text


def test_pieces_are_joined_whatever_their_strides() -> None:
    images = np.arange(9000 * 2 * 3 * 4, dtype=np.uint8).reshape(9000, 2, 3, 4)
    turned = np.asfortranarray(images)
    pieces = [Piece(turned[:5000], np.zeros(5000, np.int64), "a"), Piece(images[5000:], np.zeros(4000, np.int64), "b")]
    assert np.array_equal(join_images(Data(pieces, []).train), images)


SIZES = {"train": {"n02": 3, "n01": 4}, "val": {"n01": 2, "n02": 1}}


def test_classes_are_the_sorted_folders(tmp_path: Path) -> None:
    write_tree(tmp_path, SIZES)
    (tmp_path / "train" / "n01" / "notes.txt").write_text("not an image")
    (tmp_path / "train" / "list.txt").write_text("not a class")
    train, test = load("imagenet", tmp_path)
    assert isinstance(train.items, ImageFiles)
    assert train.classes == ("n01", "n02")
    assert train.labels.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert [path.name for path in train.items.paths][3:5] == ["n01_3.JPEG", "n02_0.JPEG"]
    assert test.labels.tolist() == [0, 0, 1]
    assert train.items.shape == (7, 3, 224, 224)
    assert train.describe() == "7 colour images of 224×224 (made of files when needed), 2 classes"
    assert train.statistics == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def test_a_split_chooses_among_the_files(tmp_path: Path) -> None:
    write_tree(tmp_path, SIZES)
    train, _ = load("imagenet", tmp_path)
    split = make_split(train, 4, 0)
    assert torch.bincount(train.labels[split.labeled]).tolist() == [2, 2]
    chosen = train.items[split.labeled]
    assert isinstance(chosen, ImageFiles)
    assert [path.parent.name for path in chosen.paths] == ["n01", "n01", "n02", "n02"]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"train": {"n01": 1, "n02": 1}}, r"val cannot be read: No such file or directory; expected .*val/CLASS/\*\.JPEG"),
        ({"val": {"n01": 1}}, r"train cannot be read: .*expected .*train/CLASS/\*\.JPEG"),
        ({"train": {"n01": 1, "n02": 0}, "val": {"n01": 1, "n02": 1}}, r"train/n02 has no images"),
        ({"train": {"n01": 1, "n02": 1}, "val": {"n01": 1}}, r"val lacks the class n02, which .*train has"),
        ({"train": {"n01": 1}, "val": {"n01": 1, "n02": 1}}, r"train lacks the class n02, which .*val has"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, sizes: dict[str, dict[str, int]], message: str) -> None:
    write_tree(tmp_path, sizes)
    with pytest.raises(InputError, match=message):
        load("imagenet", tmp_path)


def test_validation_images_in_one_heap_are_explained(tmp_path: Path) -> None:
    write_tree(tmp_path, SIZES)
    for path in list((tmp_path / "val").rglob("*.JPEG")):
        path.rename(tmp_path / "val" / path.name)
    for folder in ("n01", "n02"):
        (tmp_path / "val" / folder).rmdir()
    with pytest.raises(InputError, match=r"val has no folders, one for each class: expected .*val/CLASS/\*\.JPEG"):
        load("imagenet", tmp_path)
