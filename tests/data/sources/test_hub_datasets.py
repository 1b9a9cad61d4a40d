"""Hub data: real parquet files read with the hub's own library, the hub itself replaced or out of reach."""

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softmatch.data import Examples
from softmatch.data.sources import hub_datasets as hub
from softmatch.data.sources.image_datasets import PUBLISHED
from softmatch.errors import InputError
from tests.data.sources.copies import Set, draw, encode, load, same, write_parquet

datasets = pytest.importorskip("datasets", reason="of the extra `hub`")

CIFAR = ("img", "label")
TRAIN, TEST = draw(20, (3, 32, 32), 0), draw(10, (3, 32, 32), 5)


def write_cifar(folder: Path, names: list[str] | None = None) -> None:
    """Two files of train, one of test, as `hf download uoft-cs/cifar10` leaves them."""
    for number, part in enumerate((Set(TRAIN.images[:12], TRAIN.labels[:12]), Set(TRAIN.images[12:], TRAIN.labels[12:]))):
        write_parquet(folder / "plain_text" / f"train-0000{number}-of-00002.parquet", part, CIFAR, names)
    write_parquet(folder / "plain_text" / "test-00000-of-00001.parquet", TEST, CIFAR, names)


def test_a_local_copy_gives_its_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cifar(tmp_path / "copy")
    train, test = load("cifar10", tmp_path / "copy")
    assert same(train, TRAIN)
    assert same(test, TEST)
    monkeypatch.setattr(datasets, "load_dataset", None)
    assert same(load("cifar10", tmp_path / "copy")[0], TRAIN)  # from the cache


def test_labels_follow_the_names_of_the_classes(tmp_path: Path) -> None:
    names = list(PUBLISHED["cifar10"].classes)
    write_cifar(tmp_path / "copy", names[::-1])
    assert load("cifar10", tmp_path / "copy")[0].labels.tolist() == (9 - TRAIN.labels).tolist()


def test_other_names_leave_the_labels_alone(tmp_path: Path) -> None:
    write_cifar(tmp_path / "copy", [f"class {number}" for number in range(10)])
    assert load("cifar10", tmp_path / "copy")[0].labels.tolist() == TRAIN.labels.tolist()


def test_svhn_takes_its_own_configuration_and_both_training_splits(tmp_path: Path) -> None:
    extra = draw(15, (3, 32, 32), 7)
    for config, parts in {"cropped_digits": (TRAIN, extra, TEST), "full_numbers": (TEST, TEST, TEST)}.items():
        for split, part in zip(("train", "extra", "test"), parts, strict=True):
            write_parquet(tmp_path / config / f"{split}-00000-of-00001.parquet", part, ("image", "label"), None)
    train, test = load("svhn", tmp_path)
    assert same(train, TRAIN, extra)
    assert same(test, TEST)


def test_stl10_leaves_the_folds_and_the_labels_of_the_unlabelled_split_alone(tmp_path: Path) -> None:
    parts = {"train": draw(10, (3, 96, 96), 0), "test": draw(10, (3, 96, 96), 1), "unlabeled": draw(4, (3, 96, 96), 2)}
    for split, part in parts.items():
        write_parquet(tmp_path / "data" / f"{split}-00000-of-00001-1544694d2a174d16.parquet", part, ("image", "label"), None)
    write_parquet(tmp_path / "data" / "train_9-00000-of-00001-1544694d2a174d16.parquet", parts["test"], ("image", "label"), None)
    train, test = load("stl10", tmp_path)
    assert same(train, parts["train"], Set(parts["unlabeled"].images, np.full(4, -1)))
    assert same(test, parts["test"])


def test_grey_images_stay_grey_and_splits_may_be_folders(tmp_path: Path) -> None:
    train, test = draw(20, (1, 28, 28), 0), draw(10, (1, 28, 28), 1)
    write_parquet(tmp_path / "train" / "0000.parquet", train, ("image", "label"), None)
    write_parquet(tmp_path / "test" / "0000.parquet", test, ("image", "label"), None)
    found = load("fashion-mnist", tmp_path)
    assert same(found[0], train)
    assert same(found[1], test)


def test_imagenet_becomes_a_tree_of_its_encoded_images(tmp_path: Path, cache_folder: Path) -> None:
    names = ["tench, Tinca tinca", "goldfish"]
    train, val = draw(5, (3, 40, 50), 0, 2), draw(4, (3, 40, 50), 1, 2)
    write_parquet(tmp_path / "data" / "train-00000-of-00001.parquet", train, ("image", "label"), names, "JPEG")
    write_parquet(tmp_path / "data" / "validation-00000-of-00001.parquet", val, ("image", "label"), names, "JPEG")
    found, test = load("imagenet", tmp_path)
    assert found.classes == ("0000-tench", "0001-goldfish")
    assert found.labels.tolist() == [0, 0, 0, 1, 1]
    assert test.labels.tolist() == [0, 0, 1, 1]
    paths: Any = found.items
    order = [0, 2, 4, 1, 3]
    assert [path.read_bytes() for path in paths.paths] == [encode(train.images[i], "JPEG") for i in order]
    assert all(cache_folder in path.parents for path in paths.paths)
    assert load("imagenet", tmp_path)[0].items == found.items


def test_the_hub_is_asked_for_what_the_table_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load_dataset(name: str, config: str | None, *, split: str, streaming: bool) -> Any:
        asked.append((name, config, split, streaming))
        part = TRAIN if split == "train" else TEST
        images = [{"bytes": encode(image), "path": None} for image in part.images]
        return datasets.Dataset.from_dict({"img": images, "label": part.labels.tolist()}).cast_column("img", datasets.Image())

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    for _ in range(2):
        train, test = load("cifar10", None)
        assert same(train, TRAIN)
        assert same(test, TEST)
    assert asked == [("uoft-cs/cifar10", None, "train", False), ("uoft-cs/cifar10", None, "test", False)]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_hub_out_of_reach_is_an_error_with_a_way_out(name: str) -> None:
    with pytest.raises(InputError, match=r"cannot be fetched from the Hugging Face hub: .* --data PATH"):
        load(name, None)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "datasets":
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InputError, match=r"pip install 'softmatch\[hub\]'.* --data PATH"):
        load("cifar10", None)


def test_a_missing_split_is_named(tmp_path: Path) -> None:
    write_cifar(tmp_path / "copy")
    (tmp_path / "copy" / "plain_text" / "test-00000-of-00001.parquet").unlink()
    with pytest.raises(InputError, match=r"copy has no parquet file of the split 'test' of uoft-cs/cifar10; it has: train\."):
        load("cifar10", tmp_path / "copy")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PAR1 and no end", "is cut off or damaged: it is not a complete parquet file"),
        (b"", "is cut off or damaged"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\n", "is a pointer of Git LFS.*git lfs pull"),
    ],
)
def test_a_cut_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    write_cifar(tmp_path / "copy")
    (tmp_path / "copy" / "plain_text" / "train-00001-of-00002.parquet").write_bytes(content)
    with pytest.raises(InputError, match=f"train-00001-of-00002.parquet {message}"):
        load("cifar10", tmp_path / "copy")


def test_damage_within_a_file_names_its_folder(tmp_path: Path) -> None:
    write_cifar(tmp_path / "copy")
    path = tmp_path / "copy" / "plain_text" / "test-00000-of-00001.parquet"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + b"PAR1")
    with pytest.raises(InputError, match=r"split 'test' in .*plain_text is cut off or damaged"):
        load("cifar10", tmp_path / "copy")


def read(cells: list[Any], labels: list[Any], monkeypatch: pytest.MonkeyPatch) -> Examples:
    features = datasets.Features({"img": datasets.Image(), "label": datasets.Value("int64")})
    table = datasets.Dataset.from_dict({"img": cells, "label": labels}, features=features)
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: table)
    return load("cifar10", None)[0]


GOOD = {"bytes": encode(TRAIN.images[0]), "path": None}


@pytest.mark.parametrize(
    ("cells", "labels", "message"),
    [
        ([GOOD, {"bytes": GOOD["bytes"][:300], "path": None}], [0, 1], "row 1: the image is cut off or damaged"),
        ([{"bytes": b"text", "path": None}, GOOD], [0, 1], "row 0: the image is cut off or damaged"),
        ([GOOD, None], [0, 1], "row 1 holds no image"),
        ([GOOD, {"bytes": encode(TRAIN.images[0][:, :9]), "path": None}], [0, 1], "row 1: .* must be 32×32, it is 9×32"),
        ([GOOD, GOOD], [0, None], "row 1: the label must be a whole number from 0, it is None"),
        ([GOOD, GOOD], [0, 10], "label 10 at position 1, expected 0 … 9"),
    ],
)
def test_a_wrong_row_is_named(monkeypatch: pytest.MonkeyPatch, cells: list[Any], labels: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=f"split 'train' of uoft-cs/cifar10.*{message}"):
        read(cells, labels, monkeypatch)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write_parquet(tmp_path / f"{split}.parquet", TEST, ("picture", "label"), None)
    with pytest.raises(InputError, match=r"split 'train' in .* has no column 'img'; it has: picture, label\."):
        load("cifar10", tmp_path)


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("data/train-00000-of-00002.parquet", "train"),
        ("svhn-extra-00001-of-00002.parquet", "extra"),
        ("default/unlabeled/0003.parquet", "unlabeled"),
        ("train_9-00000-of-00001-15ab.parquet", "train_9"),
        ("test.parquet", "test"),
    ],
)
def test_splits_are_read_from_file_names(path: str, split: str) -> None:
    assert hub._split_of(Path(path)) == split
