"""Tensor files with a checksum.

A checked file is a safetensors file. Its header holds notes as JSON, and a digest of them and of the name, kind, shape, place
and bytes of every tensor. It is read with ordinary reads into memory of its own: a bad sector is an error, not a signal, and no
number in a header takes more memory than the file has bytes.
"""

from __future__ import annotations

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
KINDS = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
"""What a safetensors file calls the kinds of numbers."""
_NAMES = {kind: name for name, kind in KINDS.items()}


@dataclass(frozen=True)
class Entry:
    """A tensor's place in a file; offsets count from the end of the header."""

    name: str
    kind: str
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True)
class Header:
    """What a tensor file says of itself, unchecked but possible: the tensors fill the file without gaps and overlaps.

    Attributes:
        shapes: of each tensor.
        size: bytes of the header, with its length in front.
    """

    entries: tuple[Entry, ...]
    metadata: Mapping[str, str]
    size: int

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {entry.name: entry.shape for entry in self.entries}


def write_checked(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> None:
    """Write tensors and notes (whatever JSON can hold) as one file, whole or not at all."""
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    entries, start = [], 0
    for name in sorted(
        held, key=lambda name: (-held[name].itemsize, name)
    ):  # so that every number begins at a multiple of its size
        value = held[name]
        if value.dtype not in _NAMES:
            raise InputError(f"tensor {name!r} cannot be saved: a file holds no {str(value.dtype).removeprefix('torch.')}.")
        end = start + value.nbytes
        entries.append(Entry(name, _NAMES[value.dtype], tuple(value.shape), start, end))
        start = end
    text = json.dumps(dict(notes))
    digest = _begin_digest(text, entries)
    for entry in entries:
        digest.update(_bytes_of(held[entry.name]))
    header: dict[str, Any] = {"__metadata__": {DIGEST: digest.hexdigest(), NOTES: text}}
    for entry in entries:
        header[entry.name] = {"dtype": entry.kind, "shape": entry.shape, "data_offsets": (entry.start, entry.end)}
    content = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    content += b" " * (-len(content) % 8)
    if len(content) > LARGEST_HEADER:
        raise InputError(f"{path} cannot be written: its header would have {len(content)} bytes, {LARGEST_HEADER} are allowed.")
    with replacing_file(path) as file:
        file.write(struct.pack("<Q", len(content)) + content)
        for entry in entries:
            file.write(_bytes_of(held[entry.name]))


def read_checked(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and notes of a file of `write_checked`. Raises InputError, which says what is wrong, unless it is as written."""
    tensors, header = _read(path)
    if DIGEST not in header.metadata:
        raise _damaged(path, "it has no checksum")
    return tensors, _notes(path, header)


def read_tensors(path: Path, accept: Callable[[Header], None] | None = None) -> dict[str, Tensor]:
    """The tensors of any safetensors file, checked where it has a checksum.

    Args:
        accept: is shown what the file says it holds, before memory is taken for it, and raises InputError to refuse it.
    """
    return _read(path, accept)[0]


def read_notes(path: Path) -> dict[str, Any]:
    """The notes of a file of `write_checked`, without reading and checking its tensors."""
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
            except RuntimeError as error:  # too much for this machine, or lengths that torch cannot count
                raise _damaged(path, f"tensor {entry.name[:99]!r} of shape {entry.shape} cannot be held: {error}") from error
            if file.readinto(_bytes_of(content)) != len(content):
                raise _damaged(path, "it is cut short")
            digest.update(_bytes_of(content))
            if entry.kind == "BOOL" and bool((content > 1).any()):
                raise _damaged(path, f"tensor {entry.name[:99]!r} holds something else than true and false")
            tensors[entry.name] = value
    if DIGEST in header.metadata and header.metadata[DIGEST] != digest.hexdigest():
        raise _damaged(path, "its content is not what was written (the checksum differs)")
    return tensors, header


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    try:
        if not path.is_file():  # a pipe would never end
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
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested without end
        raise _damaged(path, f"its header cannot be read ({error})") from error
    if not isinstance(found, dict):
        raise _damaged(path, "its header is not a list of tensors")
    metadata = found.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _damaged(path, "its header has metadata that are not texts")
    entries = sorted((_entry(path, name, about) for name, about in found.items()), key=lambda entry: (entry.start, entry.end))
    position = 0
    for entry in entries:
        if entry.start != position:
            raise _damaged(path, f"tensor {entry.name[:99]!r} begins at {entry.start}, not at {position}")
        position = entry.end
    if 8 + length + position != size:
        missing = 8 + length + position - size
        raise _damaged(path, f"it is cut short, {missing} bytes are missing" if missing > 0 else f"{-missing} bytes are too many")
    return Header(tuple(entries), metadata, 8 + length)


def _entry(path: Path, name: str, about: Any) -> Entry:
    """One line of a header, if its parts fit together."""
    try:
        kind, shape, (start, end) = about["dtype"], tuple(about["shape"]), about["data_offsets"]
        numbers = (*shape, start, end)
        possible = set(about) == {"dtype", "shape", "data_offsets"} and isinstance(kind, str) and kind in KINDS
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"its header says nothing sensible of tensor {name[:99]!r}") from error
    if not possible or len(shape) > 64 or not all(type(number) is int and 0 <= number < 2**63 for number in numbers):
        raise _damaged(path, f"its header says nothing sensible of tensor {name[:99]!r}")
    room = KINDS[kind].itemsize
    for length in shape:  # those that are nothing too: torch counts its steps through memory by the others
        room = min(room * max(length, 1), 2**63)  # lengths of any number must not make a number of any length
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
    """The memory of a contiguous tensor on the host."""
    return value.reshape(-1).view(torch.uint8).numpy().data


def _damaged(path: Path, what: str) -> InputError:
    return InputError(f"{path} is damaged: {what}.")
