"""Fashion-MNIST's idx files, packed and unpacked."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from softmatch.errors import InputError
from tests.data.sources.copies import idx, load, publish, same, write_fashion

IMAGES = "train-images-idx3-ubyte.gz"


def _packed(content: bytes) -> bytes:
    """Without the time in it: parameters of tests must be the same in every process."""
    return gzip.compress(content, mtime=0)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("below", ["", "FashionMNIST/raw"])
def test_images_and_labels_are_those_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool, below: str
) -> None:
    parts = write_fashion(tmp_path / below, packed)
    publish(monkeypatch, "fashion-mnist", tmp_path)
    train, test = load("fashion-mnist", tmp_path)
    assert same(train, parts["train"])
    assert same(test, parts["t10k"])
    assert train.describe() == "20 grey images of 28×28, 10 classes"


def test_a_packed_file_must_have_its_checksum(tmp_path: Path) -> None:
    write_fashion(tmp_path)
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte.gz is damaged or altered.*8d4fb7e6c68d591d4c3dfef9ec88bf0d"):
        load("fashion-mnist", tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (_packed(idx(np.zeros((20, 28, 28))))[:-9], "is cut off or damaged"),
        (b"not gzip at all", "is cut off or damaged"),
        (_packed(idx(np.zeros((20, 28, 28)))[:-1]), "announces 20×28×28 bytes and holds 15,679"),
        (_packed(b"\0\0"), "is cut off or damaged: it has 2 bytes"),
        (_packed(idx(np.zeros((20, 28)))), "is not an idx file of bytes with 3 dimensions"),
        (_packed(idx(np.zeros((20, 32, 32)))), "must be 1×28×28 .* these are 1×32×32"),
        (_packed(idx(np.zeros((19, 28, 28)))), "there are 19 images but 20 labels"),
    ],
)
def test_wrong_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, message: str) -> None:
    write_fashion(tmp_path)
    (tmp_path / IMAGES).write_bytes(content)
    publish(monkeypatch, "fashion-mnist", tmp_path)
    with pytest.raises(InputError, match=f"{IMAGES}.*{message}"):
        load("fashion-mnist", tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    write_fashion(tmp_path, packed=False)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(InputError, match=r"lacks t10k-labels-idx1-ubyte.gz\."):
        load("fashion-mnist", tmp_path)
