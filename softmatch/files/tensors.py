"""Tensor files with a checksum.

A checked file is a safetensors file whose metadata contain notes as JSON, and a digest of the notes and of the name, kind, shape,
place and bytes of every tensor. It is read with ordinary reads, not mapped: a bad sector is an error, not a signal, and no number
in a header takes more memory than the file has bytes.
"""

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softmatch.errors import InputError
from softmatch.files.atomic import replacing_file

LARGEST_HEADER = 2**26
DIGEST = "softmatch.sha256"
NOTES = "softmatch.notes"
KINDS: dict[str, torch.dtype] = {
    **{f"F{bits}": getattr(torch, f"float{bits}") for bits in (64, 32, 16)},
    **{f"I{bits}": getattr(torch, f"int{bits}") for bits in (64, 32, 16, 8)},
    **{f"U{bits}": getattr(torch, f"uint{bits}") for bits in (64, 32, 16, 8)},
    **{"BF16": torch.bfloat16, "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "BOOL": torch.bool},
}
"""Number types by their names in safetensors."""
_NAMES = {kind: name for name, kind in KINDS.items()}


@dataclass(frozen=True)
class Entry:
    """Place of a tensor in a file; offsets count from the end of the header."""

    name: str
    kind: str
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True)
class Header:
    """Header of a tensor file: its tensors fill the file without gaps and overlaps; their content is not checked yet."""

    entries: tuple[Entry, ...]
    metadata: Mapping[str, str]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {entry.name: entry.shape for entry in self.entries}


def write_checked(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> None:
    """Write tensors and notes (any JSON values) as one file, completely or not at all."""
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    entries, start = [], 0
    for name, value in sorted(held.items(), key=lambda item: (-item[1].itemsize, item[0])):  # aligned to the size of a number
        if value.dtype not in _NAMES:
            raise InputError(f"tensor {name!r} cannot be saved: a file cannot hold {str(value.dtype).removeprefix('torch.')}.")
        end = start + value.nbytes
        entries.append(Entry(name, _NAMES[value.dtype], tuple(value.shape), start, end))
        start = end
    text = json.dumps(dict(notes))
    digest = _begin_digest(text, entries)
    for entry in entries:
        digest.update(_bytes_of(held[entry.name]))
    about = {each.name: {"dtype": each.kind, "shape": each.shape, "data_offsets": (each.start, each.end)} for each in entries}
    header = {"__metadata__": {DIGEST: digest.hexdigest(), NOTES: text}, **about}
    content = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    content += b" " * (-len(content) % 8)
    if len(content) > LARGEST_HEADER:
        raise InputError(f"{path} cannot be written: its header would have {len(content)} bytes; {LARGEST_HEADER} are allowed.")
    with replacing_file(path) as file:
        file.write(struct.pack("<Q", len(content)) + content)
        for entry in entries:
            file.write(_bytes_of(held[entry.name]))


def read_checked(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors and notes of a file of `write_checked`. Raises InputError unless it is as written."""
    tensors, header = _read(path)
    if DIGEST not in header.metadata:
        raise _damaged(path, "it has no checksum")
    return tensors, _notes(path, header)


def read_tensors(path: Path, accept: Callable[[Header], None] | None = None) -> dict[str, Tensor]:
    """Read the tensors of any safetensors file; the checksum is verified if there is one.

    Args:
        accept: called with the header before memory is allocated; raises InputError to refuse the file.
    """
    return _read(path, accept)[0]


def read_notes(path: Path) -> dict[str, Any]:
    """Read the notes of a file of `write_checked` without its tensors."""
    with _opened(path) as file:
        return _notes(path, _read_header(path, file))


def _read(path: Path, accept: Callable[[Header], None] | None = None) -> tuple[dict[str, Tensor], Header]:
    tensors: dict[str, Tensor] = {}
    with _opened(path) as file:
        header = _read_header(path, file)
        if accept is not None:
            accept(header)
        digest = _begin_digest(header.metadata.get(NOTES, ""), header.entries)
        for entry in header.entries:
            try:
                content = torch.empty(entry.end - entry.start, dtype=torch.uint8)
                value = content.view(KINDS[entry.kind]).reshape(entry.shape)
            except RuntimeError as error:  # too large for this machine, or for torch
                raise _damaged(path, f"tensor {entry.name[:99]!r} of shape {entry.shape} cannot be allocated: {error}") from error
            if file.readinto(_bytes_of(content)) != len(content):
                raise _damaged(path, "it is cut short")
            digest.update(_bytes_of(content))
            if entry.kind == "BOOL" and bool((content > 1).any()):
                raise _damaged(path, f"tensor {entry.name[:99]!r} has values other than true and false")
            tensors[entry.name] = value
    if DIGEST in header.metadata and header.metadata[DIGEST] != digest.hexdigest():
        raise _damaged(path, "its content is not what was written (the checksum differs)")
    return tensors, header


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    try:
        if not path.is_file():  # a pipe may never end
            raise InputError(f"{path} cannot be read: {'it is not a file' if path.exists() else 'there is no such file'}.")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error


def _read_header(path: Path, file: BufferedReader) -> Header:
    size = os.fstat(file.fileno()).st_size
    first = file.read(8)
    if len(first) < 8:
        raise _damaged(path, "it is empty" if not first else "it is cut short")
    (length,) = struct.unpack("<Q", first)
    if length > LARGEST_HEADER:
        raise _damaged(path, f"it is not a tensor file, or its header is too large ({length} bytes)")
    if 8 + length > size:
        raise _damaged(path, "it is cut short, in its header")
    content = file.read(length)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested too deeply
        raise _damaged(path, f"its header cannot be read ({error})") from error
    if not isinstance(found, dict):
        raise _damaged(path, "its header is not a list of tensors")
    metadata = found.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _damaged(path, "its metadata are not texts")
    entries = sorted((_entry(path, name, about) for name, about in found.items()), key=lambda entry: (entry.start, entry.end))
    position = 0
    for entry in entries:
        if entry.start != position:
            raise _damaged(path, f"tensor {entry.name[:99]!r} begins at {entry.start}, not at {position}")
        position = entry.end
    if 8 + length + position != size:
        missing = 8 + length + position - size
        raise _damaged(path, f"it is cut short, {missing} bytes are missing" if missing > 0 else f"{-missing} bytes are too many")
    return Header(tuple(entries), metadata)


def _entry(path: Path, name: str, about: Any) -> Entry:
    """Check one tensor of a header: its parts must fit together."""
    try:
        kind, shape, (start, end) = about["dtype"], tuple(about["shape"]), about["data_offsets"]
        if len(about) > 3 or len(shape) > 64 or not isinstance(kind, str) or kind not in KINDS:
            raise ValueError
        if not all(type(number) is int and 0 <= number < 2**63 for number in (*shape, start, end)):
            raise ValueError
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"its header has no valid entry for tensor {name[:99]!r}") from error
    room = KINDS[kind].itemsize
    for length in shape:  # zeros count as 1: torch computes strides from the others
        room = min(room * max(length, 1), 2**63)  # bounded, so that many lengths make no huge number
    if room == 2**63 or end - start != (0 if 0 in shape else room):
        raise _damaged(path, f"tensor {name[:99]!r} of shape {shape} and kind {kind} does not have {end - start} bytes")
    return Entry(name, kind, shape, start, end)


def _notes(path: Path, header: Header) -> dict[str, Any]:
    try:
        found = json.loads(header.metadata[NOTES])
    except (KeyError, ValueError, RecursionError) as error:
        raise _damaged(path, "its notes cannot be read") from error
    if not isinstance(found, dict):
        raise _damaged(path, "its notes are not `name: value`")
    return found


def _begin_digest(notes: str, entries: tuple[Entry, ...] | list[Entry]) -> Any:
    about = sorted((entry.name, entry.kind, entry.shape, entry.start) for entry in entries)
    return hashlib.sha256(json.dumps([notes, about]).encode())


def _bytes_of(value: Tensor) -> memoryview:
    """Memory of a contiguous tensor on the host."""
    return value.reshape(-1).view(torch.uint8).numpy().data


def _damaged(path: Path, what: str) -> InputError:
    return InputError(f"{path} is damaged: {what}.")
