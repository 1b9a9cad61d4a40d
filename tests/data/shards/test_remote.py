"""Files by address from a real HTTP server: what goes wrong is tried again or said clearly, and the cache stays within bounds."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from softmatch.data.readers.open_source import open_source
from softmatch.data.shards import remote
from softmatch.data.shards.remote import Ahead, expand, fetch, find, is_remote, on_disk
from softmatch.errors import InputError
from tests.tar_shards import Faulty

CONTENT = bytes(range(256)) * 40
TABLE = b"text,label\n" + b"".join(b"good %d,yes\nbad %d,no\n" % (k, k) for k in range(30))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(remote, "BLOCK", 4096)
    monkeypatch.setattr(remote, "FIRST_PAUSE", 0.01)
    with Faulty({"a.tar": CONTENT, "b.tar": CONTENT[::-1], "table.csv": TABLE}).serving() as faulty:
        yield faulty


def test_a_file_is_fetched_once(server: Faulty) -> None:
    file = find(f"{server.address}/a.tar")
    assert (file.size, is_remote(file.place)) == (len(CONTENT), True)
    path = on_disk(file)
    assert path.read_bytes() == CONTENT
    assert path.suffix == ".tar"
    number = len(server.asked)
    assert on_disk(file) == path
    assert len(server.asked) == number
    assert [name for name in path.parent.iterdir() if name != path] == []


def test_cut_connections_and_busy_servers_cost_a_block(server: Faulty) -> None:
    server.faults["a.tar"] = [503, "cut", 503]
    assert fetch(f"{server.address}/a.tar").read_bytes() == CONTENT
    asked = [line for line in server.asked if line.startswith("GET")]
    assert len(asked) <= 3 + 3, "blocks that had come are not fetched again"


def test_a_server_without_ranges_serves_too(server: Faulty) -> None:
    server.ranges = False
    assert fetch(f"{server.address}/a.tar").read_bytes() == CONTENT


def test_what_cannot_be_had_is_said_at_once(server: Faulty) -> None:
    for status, words in ((401, "needs credentials"), (403, "may not be read"), (418, "answers 418")):
        server.faults["a.tar"] = [status] * 20
        with pytest.raises(InputError, match=words):
            fetch(f"{server.address}/a.tar")
        server.asked.clear()
        with pytest.raises(InputError, match=f"{server.address}/a.tar"):
            find(f"{server.address}/a.tar")
        assert len(server.asked) <= 2, "not tried again"
    with pytest.raises(InputError, match=r"none\.tar is not there \(404\)"):
        find(f"{server.address}/none.tar")


def test_it_gives_up_and_says_how_far_it_came(server: Faulty, tmp_path: Path) -> None:
    file = find(f"{server.address}/a.tar")
    server.faults["a.tar"] = ["cut"] * 20
    with pytest.raises(InputError, match=r"after 0 of 10,240 bytes: .* \(5 attempts\)"):
        on_disk(file)
    assert list((tmp_path / "cache" / "remote").iterdir()) == []
    server.faults.clear()
    assert on_disk(file).read_bytes() == CONTENT


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(InputError, match=r"pip install 'softmatch\[gcs\]'"):
        find("gs://bucket/a.tar")


def test_the_cache_keeps_what_was_used_last(server: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fetch(f"{server.address}/a.tar")
    monkeypatch.setenv("SOFTMATCH_CACHE_GB", str(1.5 * len(CONTENT) / 1e9))
    os.utime(first, (1, 1))
    with first.open("rb") as reading:
        second = fetch(f"{server.address}/b.tar")
        assert not first.exists()
        assert reading.read() == CONTENT, "whoever reads it goes on"
    assert second.read_bytes() == CONTENT[::-1]
    monkeypatch.setenv("SOFTMATCH_CACHE_GB", "1e-9")
    with pytest.raises(InputError, match="does not fit into a cache"):
        fetch(f"{server.address}/a.tar")
    monkeypatch.setenv("SOFTMATCH_CACHE_GB", "much")
    with pytest.raises(InputError, match="must be a number of gigabytes"):
        fetch(f"{server.address}/a.tar")


def test_files_come_before_they_are_needed(server: Faulty) -> None:
    files, ahead = [find(f"{server.address}/{name}") for name in ("a.tar", "b.tar", "table.csv")], Ahead()
    ahead.want([*files[:2], remote.File(f"{server.address}/gone.tar", 5, "")])
    ahead.want(files)
    until = time.monotonic() + 60
    while time.monotonic() < until and sum(line.startswith("GET table.csv") for line in server.asked) < 1:
        time.sleep(0.01)
    ahead.close()
    for thread in threading.enumerate():
        if thread is ahead._thread:
            thread.join(60)
    number = len(server.asked)
    assert [len(on_disk(file).read_bytes()) for file in files] == [len(CONTENT), len(CONTENT), len(TABLE)]
    assert len(server.asked) == number


def test_a_table_by_address_is_read_as_one_on_disk(server: Faulty) -> None:
    opened = open_source(f"{server.address}/table.csv")
    assert opened.where == f"{server.address}/table.csv"
    records = opened.read()
    assert (len(records), records.labels[:2]) == (60, ["yes", "no"])


def test_braces_and_stars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MOST_NAMES", 1000)
    assert expand("s3://b/x-{08..11}.tar") == [f"s3://b/x-{k}.tar" for k in ("08", "09", "10", "11")]
    assert expand("x-{8..10}{a,b}.tar") == [f"x-{k}{c}.tar" for k in (8, 9, 10) for c in "ab"]
    assert expand("https://h/a?x=1") == ["https://h/a?x=1"]
    for name in ("b.tar", "a.tar"):
        (tmp_path / name).touch()
    assert expand(f"{tmp_path}/*.tar") == [f"{tmp_path}/a.tar", f"{tmp_path}/b.tar"]
    for wrong, words in (("x-{3..1}.tar", "counts down"), (f"{tmp_path}/no*", "no file matches"), ("{0..1000}", "more than")):
        with pytest.raises(InputError, match=words):
            expand(wrong)
