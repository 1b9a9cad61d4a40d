"""Tar shards as a source: keys, labels, a pool that is not listed, and shards that are no good."""

import gzip
from pathlib import Path

import pytest
import torch

from softmatch.data.pictures import load
from softmatch.data.readers.open_source import open_source
from softmatch.data.records import Columns
from softmatch.data.shards.members import KEPT, Members
from softmatch.data.shards.shard_source import OpenedShards, open_shards, shards_in
from softmatch.data.understanding import Reading, read_own
from softmatch.errors import InputError
from tests.tar_shards import picture, write_shards, write_tar


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))


def opened(where: object) -> OpenedShards:
    found = open_source(where)
    assert isinstance(found, OpenedShards)
    return found


def test_labels_lie_beside_the_images(tmp_path: Path) -> None:
    members = {
        "a/1.png": picture(1),
        "a/1.cls": b" cat\n",
        "a/2.json": b'{"label": 7, "text": "x"}',
        "a/2.png": picture(2),
        "a/3.png": picture(3),
        "a/3.txt": b"dog",
        "a/4.png": picture(4),
        "a/4.txt": b"A long caption. " * 20,
        "a/5.png": picture(5),
        "a/5.cls": b"",
        "a/6.seg.png": picture(6),
        "a/._7.png": b"left by a system",
        "8.png": picture(8),
        "8.cls": b"?",
        "9.wav": b"no image",
    }
    source = open_shards(str(write_tar(tmp_path / "one.tar", members)), Columns(unlabeled="?"))
    records = source.read()
    assert dict(zip(records.names, records.labels, strict=True)) == {"a/1": "cat", "a/2": "7", "a/3": "dog"}
    assert list(records.places) == [0, 1, 2]
    assert [load(each).content for each in records.inputs] == [picture(k) for k in (1, 2, 3)]  # type: ignore[arg-type]  # members
    assert records.pool is not None
    assert len(records.pool) == 6
    assert any(".seg.png (1)" in finding.text and ".wav (1)" in finding.text for finding in source.findings)
    pieces = list(source.stream(4))
    assert [name for piece in pieces for name in piece.names] == ["a/1", "a/2", "a/3", "a/4", "a/5", "8"]
    assert [label for piece in pieces for label in piece.labels] == ["cat", "7", "dog", None, None, None]


def test_the_pool_is_all_images_but_those_held_out(tmp_path: Path) -> None:
    pattern = write_shards(tmp_path / "shards", [30, 1, 0, 29], labelled=20)
    assert shards_in(tmp_path / "shards") == str(tmp_path / "shards" / "*.tar")
    examples = read_own(pattern, Reading(Columns())).examples
    streamed = examples.streamed
    assert streamed is not None
    assert (len(examples), len(streamed), examples.classes) == (20, 60, ("bright", "dark"))
    assert "60 colour images of 8×8 in 4 shards, 2 classes, 20 with a label" in examples.describe()
    unlabeled = torch.tensor([k for k in range(20) if k not in (3, 7)])
    pool = streamed.pool(unlabeled)
    lanes = streamed.draws(pool, 16, 0)
    drawn = pool[torch.cat([lanes(step) for step in range(30)])]
    assert set(drawn.tolist()) == set(range(60)) - {3, 7}
    assert streamed.members[35].read() == picture(35)


def test_labels_of_a_file_are_found_by_key(tmp_path: Path) -> None:
    pattern = write_shards(tmp_path / "shards", [10, 10], labelled=0)
    table = tmp_path / "labels.csv"
    table.write_text("name,label\n" + "".join(f"some/{k:04d},{'odd' if k % 2 else 'even'}\n" for k in (2, 3, 15, 18)))
    reading = Reading(Columns(), labels_from=table)
    examples = read_own(pattern, reading).examples
    assert list(examples.names) == ["some/0002", "some/0003", "some/0015", "some/0018"]
    assert [examples.classes[label] for label in examples.labels] == ["even", "odd", "odd", "even"]
    assert examples.streamed is not None
    assert examples.streamed.places.tolist() == [2, 3, 15, 18]
    table.write_text("name,label\nsome/0002,a\nsome/9999,b\n")
    with pytest.raises(InputError, match="some/9999"):
        read_own(pattern, reading)
    write_tar(tmp_path / "shards" / "shard-001.tar", {"some/0002.png": picture(50)})
    table.write_text("name,label\nsome/0002,a\nsome/0003,b\n")
    with pytest.raises(InputError, match="several samples of a name"):
        read_own(pattern, reading)


def test_a_changed_shard_gets_a_new_index(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "one.tar", {"1.png": picture(1)})
    assert len(opened(path).members) == 1
    write_tar(path, {"1.png": picture(1), "2.png": picture(2)})
    assert len(opened(path).members) == 2


def test_a_folder_of_images_with_a_tar_file_stays_one(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    write_tar(tmp_path / "photos" / "copy.tar", {"1.png": picture(1)})
    assert shards_in(tmp_path / "photos") is not None
    (tmp_path / "photos" / "cat").mkdir()
    assert shards_in(tmp_path / "photos") is None


def test_many_shards_are_not_all_kept_open(tmp_path: Path) -> None:
    pattern = write_shards(tmp_path / "shards", [1] * (KEPT + 9), labelled=0)
    members = opened(pattern).members
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert [members[k].read() for k in range(len(members))] == [picture(k) for k in range(KEPT + 9)]
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + KEPT + 2


def test_shards_that_are_no_good(tmp_path: Path) -> None:
    good = write_tar(tmp_path / "good.tar", {"1.png": picture(1), "2.png": picture(2)})
    cut, packed, none = (tmp_path / name for name in ("cut.tar", "packed.tar", "none.tar"))
    cut.write_bytes(good.read_bytes()[:900])
    packed.write_bytes(gzip.compress(good.read_bytes()))
    write_tar(none, {"1.txt": b"a text", "2.flac": b"a sound"})
    with pytest.raises(InputError, match=r"cut\.tar cannot be read as a tar file"):
        opened(cut)
    with pytest.raises(InputError, match=r"packed\.tar .* It is compressed: unpack it"):
        opened(packed)
    with pytest.raises(InputError, match=r"holds no images but files of other kinds: \.txt \(1\), \.flac \(1\)"):
        opened(none)
    with pytest.raises(InputError, match=r"there is no file .*gone-1\.tar"):
        opened(f"{tmp_path}/gone-{{1..2}}.tar")
    with pytest.raises(InputError, match="are for tables"):
        open_shards(str(good), Columns(text="x"))
    assert isinstance(opened(good).members, Members)
    broken = write_tar(tmp_path / "broken.tar", {"1.png": picture(1), "1.json": b"{"})
    with pytest.raises(InputError, match=r"broken\.tar, 1\.json is damaged"):
        opened(broken)
