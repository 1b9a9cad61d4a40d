"""Cached versions are found again by content; several writers, a kill and a full disk lose nothing; damage is reported."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from softmatch.augmenting.versions import open_cache
from softmatch.errors import InputError, SoftmatchError

MADE = {"It rains.": "Es regnet.", "": "", "日\ud800": "a\nb\u2028c"}
WRITER = """
import sys
from softmatch.augmenting.versions import open_cache
with open_cache("m") as cache:
    for number in range(10**9 if sys.argv[1] == "endless" else 40):
        cache.add({f"{sys.argv[1]} {number}": f"made {number}"})
        print(number, flush=True)
"""


def file_of(cache: Path) -> Path:
    return cache / "augmented" / "versions.sqlite"


def start(name: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WRITER, name], stdout=subprocess.PIPE, text=True)


def test_versions_are_found_by_the_same_maker_alone_and_are_stored_as_text(cache: Path) -> None:
    with open_cache("m") as found:
        found.add(MADE)
        found.add({"More.": "Mehr."})
        assert found.find([*MADE, "other"]) == MADE
    with open_cache("n") as other:
        assert other.find(MADE) == {}
    with open_cache("m") as again:
        again.add({"More.": "another"})
        assert again.find(["More."]) == {"More.": "Mehr."}, "the first version stays"
    assert {path.name for path in file_of(cache).parent.iterdir()} == {"versions.sqlite"}
    connection = sqlite3.connect(file_of(cache))
    assert {row[0] for row in connection.execute("SELECT typeof(version) FROM versions")} == {"text"}
    connection.close()


def test_several_writers_at_once_lose_nothing() -> None:
    writers = [start("a"), start("b")]
    assert [writer.communicate(timeout=120) and writer.returncode for writer in writers] == [0, 0]
    with open_cache("m") as found:
        assert len(found.find([f"{name} {number}" for name in "ab" for number in range(40)])) == 80


def test_a_kill_loses_nothing_that_was_added() -> None:
    with start("endless") as writer:
        assert writer.stdout is not None
        for _ in range(20):
            last = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
    with open_cache("m") as found:
        assert len(found.find([f"endless {number}" for number in range(last + 1)])) == last + 1
        found.add({"new": "neu"})


@pytest.mark.parametrize("how", ["no database", "cut off", "page", "text", "table"])
def test_a_damaged_file_is_named_with_what_to_do(cache: Path, how: str) -> None:
    with open_cache("m") as found:
        found.add({f"text {number}": f"version {number} " * 20 for number in range(200)})
    path = file_of(cache)
    content = bytearray(path.read_bytes())
    if how == "no database":
        path.write_bytes(b"something else, which is long enough" * 100)
    elif how == "cut off":
        path.write_bytes(content[: len(content) // 2])
    elif how == "page":
        path.write_bytes(content[:8192] + b"\xff" * 4096 + content[12288:])
    elif how == "text":
        path.write_bytes(content.replace(b"version 7 version", b"version 8 version"))
    else:
        path.unlink()
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE versions (other TEXT)")
        connection.close()
    message = r"versions\.sqlite is damaged: .*\. Delete the file and run the same command again"
    with pytest.raises(InputError, match=message), open_cache("m") as found:
        found.find([f"text {number}" for number in range(200)])


def test_a_folder_that_cannot_be_written_is_reported_first(cache: Path) -> None:
    cache.write_text("a file in its place")
    with pytest.raises(InputError, match=r"cannot be written: .*SOFTMATCH_CACHE"), open_cache("m"):
        pass
    cache.unlink()
    file_of(cache).mkdir(parents=True)
    with pytest.raises(SoftmatchError, match=r"cannot be written: .*SOFTMATCH_CACHE"), open_cache("m"):
        pass


def test_a_full_disk_is_reported_and_finished_texts_are_kept(cache: Path) -> None:
    resource = pytest.importorskip("resource", reason="a limit of the size of files")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_cache("m") as found:
        found.add({"a": "1"})
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_of(cache).stat().st_size, before[1]))
    try:
        with (
            pytest.raises(SoftmatchError, match=r"Make room, or set SOFTMATCH_CACHE .* finished texts are kept"),
            open_cache("m") as found,
        ):
            found.add({str(number): "much" * 100 for number in range(1000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with open_cache("m") as found:
        found.add({"b": "2"})
        assert found.find(["a", "b", "c"]) == {"a": "1", "b": "2"}
