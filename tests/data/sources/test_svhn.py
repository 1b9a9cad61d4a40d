"""SVHN's MATLAB files: H×W×C×N turned the right way, 10 is the digit 0, train and extra are one set."""

from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from softmatch.errors import InputError
from tests.data.sources.copies import load, publish, same, write_svhn


@pytest.mark.parametrize("compress", [True, False])
def test_train_and_extra_are_one_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compress: bool) -> None:
    parts = write_svhn(tmp_path, compress)
    publish(monkeypatch, "svhn", tmp_path)
    train, test = load("svhn", tmp_path)
    assert same(train, parts["train"], parts["extra"])
    assert same(test, parts["test"])
    assert 0 in train.labels.tolist()


def test_lines_and_columns_are_not_swapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_svhn(tmp_path)
    images = np.zeros((32, 32, 3, 2), np.uint8)
    images[5, 7, 2, 1] = 200  # line 5, column 7, blue, of the second image
    savemat(tmp_path / "train_32x32.mat", {"X": images, "y": [[10], [1]]})
    publish(monkeypatch, "svhn", tmp_path)
    train, _ = load("svhn", tmp_path)
    assert train.items[:2].nonzero().tolist() == [[1, 2, 5, 7]]
    assert train.labels[:2].tolist() == [0, 1]


def test_extra_is_needed(tmp_path: Path) -> None:
    write_svhn(tmp_path)
    (tmp_path / "extra_32x32.mat").unlink()
    with pytest.raises(InputError, match=r"lacks extra_32x32.mat\."):
        load("svhn", tmp_path)


IMAGES = np.zeros((32, 32, 3, 2), np.uint8)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"X": IMAGES}, "lacks the variable 'y'"),
        ({"y": [1, 2]}, "lacks the variable 'X'"),
        ({"X": IMAGES, "y": [[1], [11]]}, "y: label 11 at position 1, expected 1 … 10"),
        ({"X": IMAGES, "y": [[1], [0]]}, "y: label 0 at position 1, expected 1 … 10"),
        ({"X": IMAGES, "y": [[1], [2], [3]]}, "2 images but 3 labels"),
        ({"X": IMAGES[0], "y": [[1], [2]]}, "X must be H×W×C×N"),
        ({"X": IMAGES[:28], "y": [[1], [2]]}, "must be 3×32×32 .* these are 3×28×32"),
        ({"X": IMAGES * 0.5, "y": [[1], [2]]}, "must be uint8 .* float64"),
    ],
)
def test_wrong_content_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: dict[str, object], message: str
) -> None:
    write_svhn(tmp_path)
    savemat(tmp_path / "test_32x32.mat", content)
    publish(monkeypatch, "svhn", tmp_path)
    with pytest.raises(InputError, match=f"test_32x32.mat.*{message}"):
        load("svhn", tmp_path)


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("left", [0, 60, 200, 5000])
def test_a_cut_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compress: bool, left: int) -> None:
    write_svhn(tmp_path, compress)
    path = tmp_path / "extra_32x32.mat"
    path.write_bytes(path.read_bytes()[:left])
    publish(monkeypatch, "svhn", tmp_path)
    with pytest.raises(InputError, match=r"extra_32x32.mat (is cut off or damaged|lacks the variable)"):
        load("svhn", tmp_path)
