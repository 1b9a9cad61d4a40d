"""CIFAR's python batches: the pixels that are in them, from files and archives; every damage is named; no code is run."""

import io
import pickle
import tarfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softmatch.errors import InputError
from tests.data.sources.copies import Set, batch, draw, load, pack, publish, python2, same, write_cifar10

DUMPS = {"python2": python2, **{f"protocol {n}": partial(pickle.dumps, protocol=n) for n in (2, 4, 5)}}


@pytest.mark.parametrize("dump", DUMPS.values(), ids=DUMPS)
@pytest.mark.parametrize("below", ["", "cifar-10-batches-py"])
def test_batches_give_their_pixels_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dump: Any, below: str) -> None:
    parts, last = write_cifar10(tmp_path / below, dump)
    publish(monkeypatch, "cifar10", tmp_path)
    train, test = load("cifar10", tmp_path)
    assert same(train, *parts)
    assert same(test, last)
    assert train.statistics == test.statistics == ((0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616))
    assert train.describe() == "20 colour images of 32×32, 10 classes"


def test_a_row_is_a_red_a_green_and_a_blue_plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cifar10(tmp_path)
    row = np.zeros(3072, np.uint8)
    row[1024 + 32 * 5 + 7] = 200  # green, line 5, column 7
    (tmp_path / "data_batch_1").write_bytes(python2({b"data": row[None], b"labels": [3]}))
    publish(monkeypatch, "cifar10", tmp_path)
    image = load("cifar10", tmp_path)[0].items[0]
    assert image.nonzero().tolist() == [[1, 5, 7]]


def test_cifar100_has_fine_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = draw(30, (3, 32, 32), 80, 100), draw(20, (3, 32, 32), 0, 100)
    for name, part in (("train", train), ("test", test)):
        content = {**batch(part, b"fine_labels"), b"coarse_labels": [0] * len(part.labels)}
        (tmp_path / name).write_bytes(python2(content))
    publish(monkeypatch, "cifar100", tmp_path)
    found = load("cifar100", tmp_path)
    assert same(found[0], train)
    assert same(found[1], test)
    assert found[0].classes[98:] == ("woman", "worm")


@pytest.mark.parametrize("direct", [True, False])
def test_the_archive_is_read_without_being_extracted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct: bool) -> None:
    parts, last = write_cifar10(tmp_path / "made" / "cifar-10-batches-py")
    where = tmp_path / "given"
    where.mkdir()
    archive = where / "cifar-10-python.tar.gz"
    pack(archive, tmp_path / "made" / "cifar-10-batches-py")
    publish(monkeypatch, "cifar10", where)
    train, test = load("cifar10", archive if direct else where)
    assert same(train, *parts)
    assert same(test, last)
    assert list(where.iterdir()) == [archive]


def test_members_that_point_outside_are_only_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cifar10(tmp_path / "made")
    where = tmp_path / "deep" / "given"
    where.mkdir(parents=True)
    with tarfile.open(where / "cifar-10-python.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "made", "../../made elsewhere")
        evil = tarfile.TarInfo("../../evil")
        evil.size = 4
        tar.addfile(evil, io.BytesIO(b"evil"))
    publish(monkeypatch, "cifar10", where)
    load("cifar10", where)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "deep", "made"]


def test_a_missing_batch_is_named(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    (tmp_path / "data_batch_3").unlink()
    with pytest.raises(InputError, match=r"lacks data_batch_3\."):
        load("cifar10", tmp_path)


def test_another_checksum_is_refused_with_both(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    with pytest.raises(
        InputError,
        match=r"data_batch_1 is damaged or altered: its md5 is [0-9a-f]{32}, published is c99cafc152244af753f735de768cd75f",
    ):
        load("cifar10", tmp_path)


class Bomb:
    """A pickle of this object runs code when an ordinary unpickler reads it."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.target,))


def test_a_malicious_batch_is_refused_and_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cifar10(tmp_path)
    bomb = pickle.dumps({b"data": Bomb(tmp_path / "exploded"), b"labels": [0]})
    pickle.loads(bomb)
    assert (tmp_path / "exploded").exists()  # it is a real one
    (tmp_path / "exploded").unlink()
    (tmp_path / "data_batch_2").write_bytes(bomb)
    publish(monkeypatch, "cifar10", tmp_path)
    with pytest.raises(InputError, match=r"data_batch_2 is cut off or damaged: it asks for "):
        load("cifar10", tmp_path)
    assert not (tmp_path / "exploded").exists()


GOOD = draw(4, (3, 32, 32), 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (python2(batch(GOOD))[:-700], "data_batch_4 is cut off or damaged"),
        (b"", "data_batch_4 is cut off or damaged"),
        (python2([1, 2]), "must hold a dictionary, it holds a list"),
        (python2({b"data": GOOD.images.reshape(4, -1)}), "lacks 'fine_labels' or 'labels'; it holds 'data'"),
        (python2({b"data": GOOD.images[:, 0].reshape(4, -1), b"labels": [0] * 4}), "rows of 3,072 bytes"),
        (python2({b"data": GOOD.images.reshape(4, -1), b"labels": ["a"] * 4}), "labels must be whole numbers"),
        (python2(batch(Set(GOOD.images, GOOD.labels[:3]))), "data_batch_4: there are 4 images but 3 labels"),
        (python2(batch(Set(GOOD.images, GOOD.labels + 9))), "data_batch_4: label 10 at position 0, expected 0 … 9"),
        (python2(batch(Set(GOOD.images.astype(np.int16), GOOD.labels))), "data_batch_4: images must be uint8 .* int16"),
        (python2(batch(Set(GOOD.images[:0], GOOD.labels[:0]))), "data_batch_4: there are no images"),
    ],
)
def test_a_wrong_batch_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, message: str) -> None:
    write_cifar10(tmp_path)
    (tmp_path / "data_batch_4").write_bytes(content)
    publish(monkeypatch, "cifar10", tmp_path)
    with pytest.raises(InputError, match=message):
        load("cifar10", tmp_path)


@pytest.mark.parametrize("left", [0, 100, 20_000])
def test_a_cut_archive_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int) -> None:
    write_cifar10(tmp_path / "made")
    archive = tmp_path / "cifar-10-python.tar.gz"
    pack(archive, tmp_path / "made")
    archive.write_bytes(archive.read_bytes()[:left])
    publish(monkeypatch, "cifar10", tmp_path)
    with pytest.raises(InputError, match=r"cifar-10-python.tar.gz is cut off or damaged.* Fetch it again"):
        load("cifar10", archive)


def test_an_archive_that_lacks_a_batch_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cifar10(tmp_path / "made")
    (tmp_path / "made" / "test_batch").unlink()
    archive = tmp_path / "cifar-10-python.tar.gz"
    pack(archive, tmp_path / "made")
    publish(monkeypatch, "cifar10", tmp_path)
    with pytest.raises(InputError, match=r"cifar-10-python.tar.gz lacks test_batch\."):
        load("cifar10", archive)
