"""Checked files: bit for bit what was written, or an error that says what is wrong, whatever the bytes are."""

import errno
import json
import os
import pickle
import random
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from softmatch.errors import InputError
from softmatch.files import tensors as checked_files
from softmatch.files.atomic import write_atomically
from softmatch.files.tensors import KINDS, LARGEST_HEADER, Header, read_checked, read_notes, read_tensors, write_checked

NOTES = {"step": 7, "words": ["a\u2028b", "<\ud800>", "ü"], "big": 2**200, "none": None, "tiny": 5e-324}


def tensors() -> dict[str, Tensor]:
    payload = torch.tensor([0x7FC00001, -0x3FFFFF, 0x7F800001], dtype=torch.int32).view(torch.float32)
    tied = torch.arange(6.0)
    return {
        "payload": payload,
        "bool": torch.tensor([True, False, True]),
        "int64": torch.tensor([2**62, -1]),
        "float16": torch.tensor([1.5, float("nan"), 6e-8], dtype=torch.float16),
        "bfloat16": torch.randn(5, dtype=torch.bfloat16),
        "scalar": torch.tensor(3.25, dtype=torch.float64),
        "empty": torch.empty(0, 4, dtype=torch.int16),
        "other empty": torch.empty(2, 0),
        "tied": tied,
        "tied too": tied,
        "part": tied[2:4],
        "turned": torch.randn(3, 4).T,
        "strided": torch.arange(20)[::3],
        "spread": torch.ones(1).expand(4),
        "parameter": torch.nn.Parameter(torch.randn(2, 2)),
        "ü 名 \"'": torch.tensor([1], dtype=torch.uint8),
    }


def same(mine: Tensor, theirs: Tensor) -> bool:
    """Of the same kind, shape and bits."""
    bits = [each.detach().contiguous().reshape(-1).view(torch.uint8) for each in (mine, theirs)]
    return mine.dtype == theirs.dtype and mine.shape == theirs.shape and torch.equal(*bits)


def test_every_value_comes_back_bit_for_bit(tmp_path: Path) -> None:
    written = tensors()
    write_checked(tmp_path / "f", written, NOTES)
    found, notes = read_checked(tmp_path / "f")
    assert notes == NOTES == read_notes(tmp_path / "f")
    assert set(found) == set(written)
    for name, value in written.items():
        assert same(value, found[name]), name
        assert found[name].data_ptr() % 16 == 0, name  # as fresh memory, so that sums are made in the same order
    found["tied"][0] = 9  # each has its own memory
    assert found["tied too"][0] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_library_reads_what_is_written_and_the_reverse(tmp_path: Path, kind: str) -> None:
    value = torch.tensor([0, 1, 1, 0, 0, 1, 0, 1] * 2, dtype=torch.uint8).view(KINDS[kind])
    write_checked(tmp_path / "ours", {"a": value, "b": torch.ones(3)}, {})
    assert same(load_file(tmp_path / "ours")["a"], value)
    with safe_open(tmp_path / "ours", "pt") as file:
        assert set(file.metadata()) == {"softmatch.sha256", "softmatch.notes"}
    save_file({"a": value, "b": torch.ones(3)}, tmp_path / "theirs", {"format": "pt"})
    assert same(read_tensors(tmp_path / "theirs")["a"], value)
    with pytest.raises(InputError, match="theirs is damaged: it has no checksum"):
        read_checked(tmp_path / "theirs")


def test_what_no_file_can_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="tensor 'c' cannot be saved: a file cannot hold complex64"):
        write_checked(tmp_path / "f", {"c": torch.ones(1, dtype=torch.complex64)}, {})
    monkeypatch.setattr(checked_files, "LARGEST_HEADER", 1000)
    with pytest.raises(InputError, match=r"header would have .* bytes; 1000 are allowed"):
        write_checked(tmp_path / "f", {}, {"text": "x" * 1000})
    assert list(tmp_path.iterdir()) == []


def small(path: Path) -> bytes:
    write_checked(path, {"a": torch.randn(4), "n": torch.tensor(3), "e": torch.empty(0), "t": torch.tensor([True])}, {"step": 7})
    return path.read_bytes()


def test_every_cut_is_found(tmp_path: Path) -> None:
    path = tmp_path / "f"
    whole = small(path)
    (length,) = struct.unpack("<Q", whole[:8])
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        message = "it is empty" if size == 0 else "in its header" if 8 <= size < 8 + length else "it is cut short"
        with pytest.raises(InputError, match=f"f is damaged: .*{message}"):
            read_checked(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(InputError, match="1 bytes are too many"):
        read_checked(path)


def test_no_changed_byte_changes_a_value(tmp_path: Path) -> None:
    path, chance = tmp_path / "f", random.Random(0)
    whole = small(path)
    expected, found = read_checked(path), 0
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= chance.randrange(1, 256)
        path.write_bytes(changed)
        try:
            values, notes = read_checked(path)
        except InputError as error:
            found += str(path) in str(error)
        else:  # a blank of the header that became another blank
            assert notes == expected[1]
            assert set(values) == set(expected[0])
            assert all(same(value, expected[0][name]) for name, value in values.items())
    assert found > 0.95 * len(whole)


def with_header(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(content) if length is None else length) + content + data


def about(shape: Any, start: Any, end: Any, kind: Any = "F32") -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": [start, end]}


HEADERS = {
    "a pickle": pickle.dumps({"weights": list(range(99))}),
    "a zip": b"PK\x03\x04" + b"\0" * 60,
    "zeros": b"\0" * 64,
    "ones": b"\xff" * 64,
    "header of exabytes": with_header({}, length=2**62),
    "header of the largest size": with_header({}, length=LARGEST_HEADER),
    "nested": with_header(b'{"a":' * 40_000 + b"1" + b"}" * 40_000),
    "nested lists": with_header(b"[" * 200_000),
    "endless number": with_header(b'{"a":' + b"9" * 9_000 + b"}"),
    "not a mapping": with_header([1, 2]),
    "not UTF-8": with_header(b'{"\xff": 1}'),
    "not JSON": with_header(b"{'a': 1}"),
    "metadata of numbers": with_header({"__metadata__": {"a": 1}}),
    "metadata of lists": with_header({"__metadata__": []}),
    "tensor of nothing": with_header({"a": None}),
    "tensor of a text": with_header({"a": "F32"}),
    "offsets of one": with_header({"a": {"dtype": "F32", "shape": [], "data_offsets": [0]}}),
    "more keys": with_header({"a": {**about([1], 0, 4), "code": "x"}}, b"\0" * 4),
    "unknown kind": with_header({"a": about([1], 0, 1, "F4")}, b"\0"),
    "kind of a list": with_header({"a": about([1], 0, 4, ["F32"])}, b"\0" * 4),
    "negative lengths": with_header({"a": about([-1, -1], 0, 4)}, b"\0" * 4),
    "lengths of halves": with_header({"a": about([1.0], 0, 4)}, b"\0" * 4),
    "lengths of truths": with_header({"a": about([True], 0, 4)}, b"\0" * 4),
    "endless lengths": with_header({"a": about([2**62] * 1000, 0, 4)}, b"\0" * 4),
    "wrapping lengths": with_header({"a": about([2**32, 2**32], 0, 0)}),
    "terabytes": with_header({"a": about([10**6, 10**6], 0, 4 * 10**12)}),
    "nothing times much": with_header({"a": about([0, 2**62, 2**62], 0, 0)}),
    "too many numbers": with_header({"a": about([3], 0, 4)}, b"\0" * 4),
    "backwards": with_header({"a": about([0], 4, 0)}, b"\0" * 4),
    "overlapping": with_header({"a": about([2], 0, 8), "b": about([2], 4, 12)}, b"\0" * 12),
    "the same place": with_header({"a": about([1], 0, 4), "b": about([1], 0, 4)}, b"\0" * 4),
    "a gap": with_header({"a": about([1], 0, 4), "b": about([1], 8, 12)}, b"\0" * 12),
    "hidden bytes": with_header({"a": about([1], 0, 4)}, b"\0" * 400),
    "neither true nor false": with_header({"a": about([2], 0, 2, "BOOL")}, b"\1\2"),
}


@pytest.mark.parametrize("content", HEADERS.values(), ids=HEADERS)
def test_impossible_headers_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "f.safetensors"
    path.write_bytes(content)
    for reader in (read_checked, read_tensors, read_notes):
        if reader is read_notes and content is HEADERS["neither true nor false"]:
            continue  # reads no values
        with pytest.raises(InputError, match=r"f\.safetensors is damaged"):
            reader(path)


@pytest.mark.parametrize(
    "notes", ["[" * 100_000, "1", "{", '{"a": ' + "9" * 9_000 + "}"], ids=["deep", "number", "cut", "endless"]
)
def test_notes_that_are_none_are_refused_though_their_checksum_is_right(
    tmp_path: Path, notes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json, "dumps", lambda value, given=json.dumps, **how: notes if value == {} else given(value, **how))
    write_checked(tmp_path / "f", {}, {})
    monkeypatch.undo()
    with pytest.raises(InputError, match="its notes"):
        read_checked(tmp_path / "f")


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path, message in ((tmp_path, "not a file"), (tmp_path / "pipe", "not a file"), (tmp_path / "none", "no such file")):
        with pytest.raises(InputError, match=message):
            read_checked(path)
    with pytest.raises(InputError, match="loop cannot be read"):
        read_checked(tmp_path / "loop")


def test_a_reader_can_refuse_before_memory_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with path.open("wb") as file:  # a file with a hole: it takes no room on the disk
        file.write(with_header({"a": about([2**40], 0, 2**42)}))
        try:
            file.truncate(file.tell() + 2**42)
        except OSError:
            pytest.skip("this file system has no files of terabytes")

    def refuse(header: Header) -> None:
        raise InputError(f"no room for {header.shapes}")

    with pytest.raises(InputError, match=r"no room for \{'a': \(1099511627776,\)\}"):
        read_tensors(path, refuse)


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "file"
    write_atomically(target, b"old")

    def broken(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="No space"):
        write_atomically(target, b"new")
    with pytest.raises(OSError, match="No space"):
        write_checked(target, {"a": torch.ones(2)}, {})
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_is_replaced_and_what_it_leads_to_is_not(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_bytes(b"precious")
    (tmp_path / "ours").symlink_to(tmp_path / "theirs")
    write_atomically(tmp_path / "ours", b"new")
    assert (tmp_path / "theirs").read_bytes() == b"precious"
    assert (tmp_path / "ours").read_bytes() == b"new"


def test_files_have_ordinary_permissions(tmp_path: Path) -> None:
    write_atomically(tmp_path / "ours", b"")
    (tmp_path / "plain").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_the_folder_is_flushed_after_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[tuple[str, bool]] = []
    fsync = os.fsync

    def watched(handle: int) -> None:
        place = str(Path(f"/proc/self/fd/{handle}").readlink())
        flushed.append((place, (tmp_path / "f").exists()))
        fsync(handle)

    if not Path("/proc/self/fd").exists():
        pytest.skip("what is flushed is known by its handle")
    monkeypatch.setattr(os, "fsync", watched)
    write_atomically(tmp_path / "f", b"content")
    assert flushed[-1] == (str(tmp_path), True)
    assert flushed[0][0].startswith(str(tmp_path / ".f."))
    assert not flushed[0][1]
