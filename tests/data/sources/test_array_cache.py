"""The cache: made once, mapped, checked; damage, races and disks that cannot be written lose nothing."""

import logging
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from softmatch.data.sources import fetch
from softmatch.data.sources import fetch as cache
from softmatch.data.sources.originals import Data, Found, Piece
from softmatch.files import cache as files_cache
from tests.data.sources.copies import Set, draw, load, publish, same, write_cifar10, write_fashion
from tests.forked import Forked

PARTS = ("train_images", "train_labels", "test_images", "test_labels")


@pytest.fixture
def cifar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[Set]]:
    parts, _ = write_cifar10(tmp_path / "files")
    publish(monkeypatch, "cifar10", tmp_path / "files")
    return tmp_path / "files", parts


def refuse(*_: object) -> None:
    raise AssertionError("the files were read again")


def only_entry(folder: Path) -> Path:
    (entry,) = folder.iterdir()
    return entry


def test_files_are_read_once(cifar: tuple[Path, list[Set]], cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load("cifar10", cifar[0])
    names = sorted(path.name for path in only_entry(cache_folder).iterdir())
    assert names == [*(f"{part}.npy" for part in sorted(PARTS)), "verified"]
    monkeypatch.setattr(Found, "read", refuse)
    monkeypatch.setattr(Found, "verify", refuse)
    train, _ = load("cifar10", cifar[0])
    assert same(train, *cifar[1])
    assert isinstance(train.items, torch.Tensor)
    assert train.items.dtype == torch.uint8
    assert train.labels.dtype == torch.int64


def test_cached_data_are_mapped_and_writing_to_them_stays_private(cifar: tuple[Path, list[Set]], cache_folder: Path) -> None:
    for _ in range(2):
        train, _ = load("cifar10", cifar[0])
        assert isinstance(train.items, torch.Tensor)
        assert same(train, *cifar[1])
        train.items.zero_()
    assert isinstance(np.load(only_entry(cache_folder) / "train_images.npy", mmap_mode="r"), np.memmap)


def test_changed_files_are_read_again(cifar: tuple[Path, list[Set]], monkeypatch: pytest.MonkeyPatch) -> None:
    load("cifar10", cifar[0])
    parts, _ = write_cifar10(cifar[0])
    publish(monkeypatch, "cifar10", cifar[0])
    called = []
    original = Found.read
    monkeypatch.setattr(Found, "read", lambda found: called.append(found) or original(found))
    assert same(load("cifar10", cifar[0])[0], *parts)
    assert called


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("damage", ["cut", "header", "gone"])
def test_a_damaged_entry_is_made_again(
    cifar: tuple[Path, list[Set]], cache_folder: Path, caplog: pytest.LogCaptureFixture, part: str, damage: str
) -> None:
    load("cifar10", cifar[0])
    path = only_entry(cache_folder) / f"{part}.npy"
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-3] if damage == "cut" else b"?" + content[1:])
    with caplog.at_level(logging.WARNING):
        assert same(load("cifar10", cifar[0])[0], *cifar[1])
    assert "are damaged (" in caplog.text
    caplog.clear()
    assert same(load("cifar10", cifar[0])[0], *cifar[1])
    assert not caplog.records
    assert [entry.name for entry in cache_folder.iterdir()] == [path.parent.name]


def test_a_cache_that_cannot_be_written_is_no_obstacle(
    cifar: tuple[Path, list[Set]], cache_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache_folder.write_text("a file, so that no folder can be made here")
    with caplog.at_level(logging.WARNING):
        assert same(load("cifar10", cifar[0])[0], *cifar[1])
    assert not caplog.records


def test_a_full_disk_leaves_nothing_behind(
    cifar: tuple[Path, list[Set]], cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "_write_images", full)
    assert same(load("cifar10", cifar[0])[0], *cifar[1])
    assert list(cache_folder.iterdir()) == []


def test_the_first_of_two_writers_wins(tmp_path: Path) -> None:
    first, second = (draw(5, (3, 4, 4), seed) for seed in (1, 2))
    made = [Data([Piece(s.images, s.labels, "")], [Piece(s.images, s.labels, "")]) for s in (first, second)]
    entry = tmp_path / "cache" / "some-0123456789abcdef"
    with files_cache.replacing(entry) as scratch:
        cache.store_entry(entry, made[0], verified=False)
        (scratch / "late").touch()
    assert np.array_equal(cache.store_entry(entry, made[1], verified=False).train_images, first.images)
    assert [path.name for path in entry.parent.iterdir()] == [entry.name]


def test_two_processes_at_once_both_get_the_data(tmp_path: Path) -> None:
    parts = write_fashion(tmp_path / "files", packed=False)
    code = (
        "import sys; from pathlib import Path; from softmatch.data import find_source;"
        "print(int(find_source('fashion-mnist').load(0, Path(sys.argv[1])).items.long().sum()))"
    )
    both = [Forked(["-c", code, str(tmp_path / "files")], tmp_path) for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=120)
        assert (int(out), err) == (int(parts["train"].images.sum()), "")
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_verified_data_serve_without_a_path(cifar: tuple[Path, list[Set]]) -> None:
    load("cifar10", cifar[0])
    assert same(load("cifar10", None)[0], *cifar[1])


def test_data_that_were_not_verified_serve_only_their_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_fashion(tmp_path / "files", packed=False)
    load("fashion-mnist", tmp_path / "files")

    def asked(*_: object) -> None:
        raise LookupError

    monkeypatch.setattr(fetch.hub, "read", asked)
    with pytest.raises(LookupError):
        load("fashion-mnist", None)


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert files_cache.cache_folder() == Path(os.environ["SOFTMATCH_CACHE"])
    monkeypatch.delenv("SOFTMATCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert files_cache.cache_folder() == tmp_path / "softmatch"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert files_cache.cache_folder() == tmp_path / "home" / ".cache" / "softmatch"
