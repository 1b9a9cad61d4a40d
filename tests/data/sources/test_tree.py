"""A tree of image files: classes from folders, images stay where they are, what is missing is named."""

from pathlib import Path

import pytest
import torch

from softmatch.data import make_split
from softmatch.data.pictures import ImageFiles
from softmatch.errors import InputError
from tests.data.sources.copies import load, write_tree

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
