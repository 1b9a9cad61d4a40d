"""A dataset in an .npz: the layouts that are understood, and what is said of those that are not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softmatch.errors import InputError
from tests.data.sources.copies import Set, draw, load, same

TRAIN, TEST = draw(20, (3, 32, 32), 0), draw(10, (3, 32, 32), 5)


def arrays(**changes: Any) -> dict[str, Any]:
    found = {"x_train": TRAIN.images, "y_train": TRAIN.labels, "x_test": TEST.images, "y_test": TEST.labels, **changes}
    return {key: value for key, value in found.items() if value is not None}


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("last", [True, False])
def test_channels_may_be_first_or_last(tmp_path: Path, cache_folder: Path, write: Callable[..., None], last: bool) -> None:
    turned = {"x_train": TRAIN.images.transpose(0, 2, 3, 1), "x_test": TEST.images.transpose(0, 2, 3, 1)} if last else {}
    write(tmp_path / "some.npz", **arrays(**turned))
    train, test = load("cifar10", tmp_path / "some.npz")
    assert same(train, TRAIN)
    assert same(test, TEST)
    assert train.items.is_contiguous()
    assert not cache_folder.exists()


def test_grey_images_need_no_channel_and_labels_may_be_a_column(tmp_path: Path) -> None:
    train, test = draw(20, (1, 28, 28), 0), draw(10, (1, 28, 28), 5)
    labels = train.labels[:, None].astype(np.uint8)
    np.savez(tmp_path / "a.npz", x_train=train.images[:, 0], y_train=labels, x_test=test.images[:, 0], y_test=test.labels)
    found = load("fashion-mnist", tmp_path / "a.npz")
    assert same(found[0], train)
    assert same(found[1], test)


def test_images_without_a_label_are_added(tmp_path: Path) -> None:
    rest = draw(7, (3, 32, 32), 8)
    np.savez(tmp_path / "a.npz", **arrays(x_unlabeled=rest.images))
    assert same(load("cifar10", tmp_path / "a.npz")[0], TRAIN, Set(rest.images, np.full(7, -1)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_test": None}, "lacks y_test; it holds x_train, y_train, x_test"),
        ({"x_train": TRAIN.images / 255}, r"x_train and y_train: images must be uint8 \(levels 0 … 255\), these are float64"),
        ({"x_train": TRAIN.images[:, :, :28]}, r"x_train .* images must be 3×32×32 \(C×H×W\), these are 3×28×32"),
        ({"x_test": TEST.images[0, 0, 0, 0]}, "x_test .* images must be 3×32×32 .* these are single numbers"),
        ({"y_train": TRAIN.labels * 1.0}, "y_train: labels must be a row of whole numbers, they are 20 float64"),
        (
            {"y_train": np.eye(10, dtype=int)[TRAIN.labels]},
            "y_train: labels must be a row of whole numbers, they are 20×10 int64",
        ),
        ({"y_train": TRAIN.labels[:-1]}, "x_train and y_train: there are 20 images but 19 labels"),
        ({"y_test": np.full(len(TEST.labels), -1)}, "y_test: label -1 at position 0, expected 0 … 9"),
        ({"y_train": TRAIN.labels + 1}, "y_train: label 10 at position 9, expected 0 … 9"),
        ({"y_test": TEST.labels - 1}, "y_test: label -1 at position 5, expected 0 … 9"),
        ({"x_train": TRAIN.images[:0], "y_train": TRAIN.labels[:0]}, "there are no images"),
    ],
)
def test_wrong_content_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays(**changes))
    with pytest.raises(InputError, match=f"a.npz.*{message}"):
        load("cifar10", tmp_path / "a.npz")


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays(y_train=np.array([{}] * 20, object)))
    with pytest.raises(InputError, match=r"a.npz is cut off or damaged: .*allow_pickle=False"):
        load("cifar10", tmp_path / "a.npz")


@pytest.mark.parametrize("left", [0, 100, 40_000, -30])
def test_a_cut_file_is_named(tmp_path: Path, left: int) -> None:
    np.savez(tmp_path / "a.npz", **arrays())
    (tmp_path / "a.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:left])
    with pytest.raises(InputError, match=r"a.npz is cut off or damaged"):
        load("cifar10", tmp_path / "a.npz")


def test_flipped_bytes_are_noticed(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays())
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[5000] ^= 1
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"a.npz is cut off or damaged: Bad CRC"):
        load("cifar10", tmp_path / "a.npz")
