"""What was made is found again, by its content, whatever has happened to the files meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from softmatch.augmenting.cache import Cache
from softmatch.errors import InputError, SoftmatchError

MADE = {"It rains.": "Es regnet.", "": "", "日\ud800": "a\nb\u2028c"}


def fill(maker: str = "m" * 64) -> Path:
    with Cache(maker) as cache:
        cache.prepare()
        cache.add(MADE)
        cache.add({"More.": "Mehr."})
        assert cache.added == 4
    (path,) = cache.folder.iterdir()
    return path


def test_what_was_added_is_found_by_the_same_maker_alone(cache: Path) -> None:
    path = fill()
    assert path.is_relative_to(cache / "augmented")
    assert Cache("m" * 64).find([*MADE, "other"]) == MADE
    assert Cache("n" * 64).find(MADE) == {}
    assert [line.count("\n") for line in path.read_text().splitlines(keepends=True)] == [1] * 4


def test_two_at_once_have_files_of_their_own() -> None:
    with Cache("m") as one, Cache("m") as other:
        one.prepare()
        one.add({"a": "1"})
        other.add({"b": "2"})
        one.add({"c": "3"})
        assert other.find("abc") == {"a": "1", "b": "2", "c": "3"}
    assert len(list(one.folder.iterdir())) == 2


def test_what_is_damaged_is_not_found() -> None:
    path = fill()
    lines = path.read_text().splitlines(keepends=True)
    entry = json.loads(lines[0])
    lines[0] = json.dumps([entry[0], "Es schneit.", entry[2]]) + "\n"
    path.write_text("".join(lines[:3]) + "[1, 2]\n{}\n" + "[" * 100_000 + "\n\udcff\n" + lines[3][:-9], errors="surrogateescape")
    assert set(Cache("m" * 64).find([*MADE, "More."])) == set(MADE) - {"It rains."}
    path.unlink()
    path.mkdir()
    assert Cache("m" * 64).find(MADE) == {}


def test_a_folder_that_cannot_be_written_is_told_beforehand(cache: Path) -> None:
    cache.write_text("a file in its place")
    with pytest.raises(InputError, match=r"cannot be written: .*SOFTMATCH_CACHE"):
        Cache("m").prepare()


def test_a_full_disk_is_told_and_what_was_before_it_is_kept() -> None:
    resource = pytest.importorskip("resource", reason="a limit of the size of files")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Cache("m") as cache:
        cache.prepare()
        cache.add({"a": "1"})
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, before[1]))
        try:
            with pytest.raises(SoftmatchError, match=r"File too large.*kept: make room and start the same command again"):
                cache.add({str(k): "much" for k in range(100)})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        cache.add({"b": "2"})
    assert Cache("m").find("abc") == {"a": "1", "b": "2"}
