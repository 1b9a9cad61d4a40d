"""Published files of images: the pixels that are in them, from files and archives; every damage is named; no code is run."""

import gzip
import io
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from softmatch.data import Examples, make_split
from softmatch.data.sources.image_datasets import PUBLISHED
from softmatch.errors import InputError
from tests.data.sources import copies
from tests.data.sources.copies import Set, batch, draw, idx, load, pack, publish, python2, same

Load = Callable[..., tuple[Examples, Examples]]


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Load a dataset from files whose checksums count as published."""

    def load_published(name: str, where: Path = tmp_path) -> tuple[Examples, Examples]:
        publish(monkeypatch, name, tmp_path)
        return load(name, where)

    return load_published


def write(name: str, folder: Path) -> tuple[list[Set], Set]:
    """Write the files of a dataset, and give the sets that it trains and tests on."""
    if name == "cifar10":
        return copies.write_cifar10(folder)
    if name == "fashion-mnist":
        fashion = copies.write_fashion(folder)
        return [fashion["train"]], fashion["t10k"]
    parts = copies.write_svhn(folder) if name == "svhn" else copies.write_stl10(folder)
    return [part for key, part in parts.items() if key != "test"], parts["test"]


DESCRIBED = {
    "cifar10": "20 colour images of 32×32, 10 classes",
    "svhn": "27 colour images of 32×32, 10 classes",
    "stl10": "17 colour images of 96×96, 10 classes, 10 with a label",
    "fashion-mnist": "20 grey images of 28×28, 10 classes",
}
PLACES = [(name, below) for name in DESCRIBED for below in PUBLISHED[name].originals.folders]  # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "below"), PLACES)
def test_files_give_their_pixels_in_order(tmp_path: Path, loaded: Load, name: str, below: str) -> None:
    parts, last = write(name, tmp_path / below)
    train, test = loaded(name)
    assert same(train, *parts)
    assert same(test, last)
    assert train.statistics == test.statistics == (PUBLISHED[name].mean, PUBLISHED[name].std)
    assert train.describe() == DESCRIBED[name]


@pytest.mark.parametrize("name", ["cifar10", "stl10"])
@pytest.mark.parametrize("direct", [True, False])
def test_the_archive_is_read_without_being_extracted(tmp_path: Path, loaded: Load, name: str, direct: bool) -> None:
    published = PUBLISHED[name].originals
    assert published is not None
    assert published.archive is not None
    parts, last = write(name, tmp_path / "made" / published.folders[1])
    archive = tmp_path / "given" / published.archive[0]
    archive.parent.mkdir()
    pack(archive, tmp_path / "made" / published.folders[1])
    train, test = loaded(name, archive if direct else archive.parent)
    assert same(train, *parts)
    assert same(test, last)
    assert list(archive.parent.iterdir()) == [archive]


def test_unpacked_and_compressed_files_will_do(tmp_path: Path, loaded: Load) -> None:
    parts = copies.write_fashion(tmp_path / "fashion", packed=False)
    assert same(loaded("fashion-mnist", tmp_path / "fashion")[0], parts["train"])
    digits = copies.write_svhn(tmp_path / "svhn", compress=True)
    assert same(loaded("svhn", tmp_path / "svhn")[1], digits["test"])


def test_cifar100_has_fine_labels(tmp_path: Path, loaded: Load) -> None:
    train, test = draw(30, (3, 32, 32), 80, 100), draw(20, (3, 32, 32), 0, 100)
    for name, part in (("train", train), ("test", test)):
        content = {**batch(part, b"fine_labels"), b"coarse_labels": [0] * len(part.labels)}
        (tmp_path / name).write_bytes(python2(content))
    found = loaded("cifar100")
    assert same(found[0], train)
    assert same(found[1], test)
    assert found[0].classes[98:] == ("woman", "worm")


def test_rows_may_be_stored_by_columns(tmp_path: Path, loaded: Load) -> None:
    parts, _ = copies.write_cifar10(tmp_path)
    rows = np.asfortranarray(parts[0].images.reshape(4, 3072))
    (tmp_path / "data_batch_1").write_bytes(python2({b"labels": parts[0].labels.tolist(), b"data": rows}))
    assert same(loaded("cifar10")[0], *parts)


MATLAB = np.zeros((32, 32, 3, 2), np.uint8)
MATLAB[5, 7, 1, 0] = 200  # line 5, column 7, green, of the first image


def mat(**content: Any) -> bytes:
    stream = io.BytesIO()
    savemat(stream, content)
    return stream.getvalue()


def dotted(size: int, place: int) -> np.ndarray:
    content = np.zeros(size, np.uint8)
    content[place] = 200
    return content


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("cifar10", "data_batch_1", python2({b"data": dotted(3072, 1024 + 32 * 5 + 7)[None], b"labels": [3]})),
        ("stl10", "train_X.bin", dotted(10 * 3 * 96 * 96, 96 * 96 + 7 * 96 + 5).tobytes()),  # columns come first
        ("svhn", "train_32x32.mat", mat(X=MATLAB, y=[[10], [1]])),
    ],
)
def test_lines_columns_and_planes_are_not_swapped(tmp_path: Path, loaded: Load, name: str, file: str, content: bytes) -> None:
    write(name, tmp_path)
    (tmp_path / file).write_bytes(content)
    train, _ = loaded(name)
    assert train.items[0].nonzero().tolist() == [[1, 5, 7]]
    if name == "svhn":
        assert train.labels[:2].tolist() == [0, 1], "10 is the digit 0"


def test_every_image_is_in_the_pool_once_and_labels_are_drawn_of_labelled_ones(tmp_path: Path, loaded: Load) -> None:
    write("stl10", tmp_path)
    split = make_split(loaded("stl10")[0], 10, 0)
    assert split.unlabeled.tolist() == list(range(17))
    assert split.labeled.tolist() == list(range(10))


def test_members_that_point_outside_are_only_data(tmp_path: Path, loaded: Load) -> None:
    copies.write_cifar10(tmp_path / "made")
    where = tmp_path / "deep" / "given"
    where.mkdir(parents=True)
    with tarfile.open(where / "cifar-10-python.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "made", "../../made elsewhere")
        evil = tarfile.TarInfo("../../evil")
        evil.size = 4
        tar.addfile(evil, io.BytesIO(b"evil"))
    loaded("cifar10", where)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "deep", "made"]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("cifar10", "data_batch_3"),
        ("svhn", "extra_32x32.mat"),
        ("stl10", "unlabeled_X.bin"),
        ("fashion-mnist", "t10k-labels-idx1-ubyte.gz"),
    ],
)
def test_a_missing_file_is_named(tmp_path: Path, name: str, file: str) -> None:
    write(name, tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(InputError, match=rf"lacks {file}\."):
        load(name, tmp_path)


@pytest.mark.parametrize(
    ("name", "file", "published"),
    [
        ("cifar10", "data_batch_1", "c99cafc152244af753f735de768cd75f"),
        ("fashion-mnist", "train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
    ],
)
def test_another_checksum_is_refused_with_both(tmp_path: Path, name: str, file: str, published: str) -> None:
    write(name, tmp_path)
    with pytest.raises(InputError, match=rf"{file} is damaged or altered: its md5 is [0-9a-f]{{32}}, published is {published}"):
        load(name, tmp_path)


class Bomb:
    """A pickle of this object runs code when an ordinary unpickler reads it."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.target,))


def test_a_malicious_batch_is_refused_and_runs_nothing(tmp_path: Path, loaded: Load) -> None:
    copies.write_cifar10(tmp_path)
    bomb = pickle.dumps({b"data": Bomb(tmp_path / "exploded"), b"labels": [0]})
    pickle.loads(bomb)
    assert (tmp_path / "exploded").exists()  # it is a real one
    (tmp_path / "exploded").unlink()
    (tmp_path / "data_batch_2").write_bytes(bomb)
    with pytest.raises(InputError, match=r"data_batch_2 is cut off or damaged"):
        loaded("cifar10")
    assert not (tmp_path / "exploded").exists()


GOOD = draw(4, (3, 32, 32), 1)
MAT = {"X": MATLAB, "y": [[1], [2]]}


def packed(content: bytes) -> bytes:
    """Without the time in it: parameters of tests must be the same in every process."""
    return gzip.compress(content, mtime=0)


CIFAR, IDX = ("cifar10", "data_batch_4"), ("fashion-mnist", "train-images-idx3-ubyte.gz")
STL10, SVHN = "stl10", ("svhn", "test_32x32.mat")
WRONG: list[tuple[str, str, bytes, str]] = [
    (*CIFAR, python2(batch(GOOD))[:-700], " is cut off or damaged"),
    (*CIFAR, b"", " is cut off or damaged"),
    (*CIFAR, python2([1, 2]), "it does not hold labels"),
    (*CIFAR, python2({b"data": GOOD.images.reshape(4, -1)}), "it does not hold labels"),
    (*CIFAR, python2({b"data": GOOD.images[:, 0].reshape(4, -1), b"labels": [0] * 4}), "rows of 3,072 bytes"),
    (*CIFAR, python2(batch(Set(GOOD.images, GOOD.labels[:3]))), ": there are 4 images but 3 labels"),
    (*CIFAR, python2(batch(Set(GOOD.images, GOOD.labels + 9))), ": label 10 at position 0, expected 0 … 9"),
    (STL10, "unlabeled_X.bin", bytes(27648 * 2 - 1), " is cut off or damaged: 55,295 bytes are not a whole number"),
    (STL10, "unlabeled_X.bin", b"", ": there are no images"),
    (STL10, "train_y.bin", bytes([*range(1, 10), 0]), "train_X.bin: label -1 at position 9, expected 0 … 9"),
    (STL10, "test_y.bin", bytes([11] * 11), "test_X.bin: label 10 at position 0"),
    (STL10, "test_y.bin", bytes([1] * 9), "test_X.bin: there are 11 images but 9 labels"),
    (*SVHN, mat(X=MATLAB), "is cut off or damaged: 'y'"),
    (*SVHN, mat(**MAT | {"y": [[1], [11]]}), ": label 11 at position 1, expected 0 … 9"),
    (*SVHN, mat(**MAT | {"y": [[1], [2], [3]]}), "2 images but 3 labels"),
    (*SVHN, mat(**MAT | {"X": MATLAB[0]}), "is cut off or damaged: axes don't match array"),
    (*SVHN, mat(**MAT | {"X": MATLAB[:28]}), "must be 3×32×32 .* these are 3×28×32"),
    (*SVHN, mat(**MAT | {"X": MATLAB * 0.5}), "must be uint8 .* float64"),
    *((*SVHN, mat(**MAT)[:left], "is cut off or damaged") for left in (0, 60, 200, 5000)),
    (*IDX, packed(idx(np.zeros((20, 28, 28))))[:-9], "is cut off or damaged"),
    (*IDX, b"not gzip at all", "is cut off or damaged"),
    (*IDX, packed(idx(np.zeros((20, 28, 28)))[:-1]), "announces 20×28×28 bytes and holds 15,679"),
    (*IDX, packed(b"\0\0"), "is cut off or damaged: it has 2 bytes"),
    (*IDX, packed(idx(np.zeros((20, 28)))), "is not an idx file of bytes with 3 dimensions"),
    (*IDX, packed(idx(np.zeros((20, 32, 32)))), "must be 1×28×28 .* these are 1×32×32"),
    (*IDX, packed(idx(np.zeros((19, 28, 28)))), "there are 19 images but 20 labels"),
]


@pytest.mark.parametrize(("name", "file", "content", "message"), WRONG, ids=range(len(WRONG)))
def test_wrong_files_are_named(tmp_path: Path, loaded: Load, name: str, file: str, content: bytes, message: str) -> None:
    write(name, tmp_path)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(InputError, match=message if message.startswith(("train_X", "test_X")) else f"{file}.*{message}"):
        loaded(name)


@pytest.mark.parametrize("left", [0, 100, 20_000])
def test_a_cut_archive_is_named(tmp_path: Path, loaded: Load, left: int) -> None:
    copies.write_cifar10(tmp_path / "made")
    archive = tmp_path / "cifar-10-python.tar.gz"
    pack(archive, tmp_path / "made")
    archive.write_bytes(archive.read_bytes()[:left])
    with pytest.raises(InputError, match=r"cifar-10-python.tar.gz is cut off or damaged.* Fetch it again"):
        loaded("cifar10", archive)


def test_an_archive_that_lacks_a_batch_says_so(tmp_path: Path, loaded: Load) -> None:
    copies.write_cifar10(tmp_path / "made")
    (tmp_path / "made" / "test_batch").unlink()
    archive = tmp_path / "cifar-10-python.tar.gz"
    pack(archive, tmp_path / "made")
    with pytest.raises(InputError, match=r"cifar-10-python.tar.gz lacks test_batch\."):
        loaded("cifar10", archive)
