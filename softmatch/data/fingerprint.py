"""Digests of data: to find copies among them, and to tell whether they are still those that a model was trained on."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from softmatch.data.cells import as_text, is_missing, parse_number
from softmatch.data.examples import Examples
from softmatch.data.pictures import ImageFiles, Picture, content_digest
from softmatch.data.records import InputKind, Inputs, Records, UnreadableFile

MOSTLY = 0.9
"""Share of rows that must differ for equal ones to be copies: in a table of a few categories they are different samples."""


def digests(kind: InputKind, inputs: Inputs, items: Tensor | ImageFiles) -> list[bytes]:
    """Compute a digest of the content of each input: bytes of files, texts without outer spaces, else the items' values."""
    if kind == "text":
        return [_text_digest(str(text)) for text in inputs]
    if kind in ("image", "sound"):
        files: Sequence[Picture] = inputs  # type: ignore[assignment]  # as the kind says
        return list(map(content_digest, files))
    assert isinstance(items, Tensor)
    flat = (items + 0.0 if items.is_floating_point() else items).flatten(1).contiguous().numpy()  # −0.0 + 0.0 is 0.0
    return [_digest(row.tobytes()) for row in flat]


def group(kind: InputKind, found: Sequence[bytes]) -> Tensor:
    """Group items by content, (N,) int64: the position of the first item with the same content."""
    if kind == "table" and len(set(found)) < MOSTLY * len(found):
        return torch.arange(len(found))
    first: dict[bytes, int] = {}
    return torch.tensor([first.setdefault(digest, position) for position, digest in enumerate(found)], dtype=torch.int64)


def sample_digest(records: Records, position: int) -> str:
    """Compute a digest, in hex, of the content of one sample: it stays when a table is sorted or gets more rows.

    The same as `digests` for texts and files; of the cells of a row, whatever their order; of the values of an array. "" where
    a file cannot be opened.
    """
    if isinstance(records.inputs, Mapping):
        cells = sorted((name, _cell(column[position])) for name, column in records.inputs.items())
        return _digest(json.dumps(cells, separators=(",", ":")).encode()).hex()
    one = records.inputs[position]
    if records.kind == "text":
        return text_digest(str(one))
    if records.kind in ("image", "sound"):
        try:
            return content_digest(one).hex()  # type: ignore[arg-type]  # as the kind says
        except UnreadableFile:
            return ""
    return _digest(np.ascontiguousarray(one).tobytes()).hex()


def text_digest(text: str) -> str:
    """Compute the digest of a text, in hex: without outer spaces, and with single ones between words."""
    return _text_digest(text).hex()


def _text_digest(text: str) -> bytes:
    return _digest(" ".join(text.split()).encode("utf-8", "replace"))


def _cell(cell: object) -> str:
    """Write a cell in one way: a column may be read as numbers or as texts, depending on its other cells."""
    text = as_text(cell)
    number = parse_number(text)
    return "" if is_missing(text) else text.strip() if number is None else repr(number + 0.0)  # −0.0 + 0.0 is 0.0


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


MOST_BYTES = 2**26
MOST_FILES = 4096


def content(examples: Examples) -> str:
    """Compute SHA-256, in hex, of the items: all of them, or an even choice of more than 64 MB or 4,096 files.

    Image files are represented by their sizes, which other images hardly share, and so are shards.
    """
    total = hashlib.sha256(json.dumps([len(examples), list(examples.items.shape[1:])]).encode())
    if examples.streamed is not None:
        members = examples.streamed.members
        total.update(json.dumps([members.counts.tolist(), [shard.size for shard in members.shards]]).encode())
    if isinstance(examples.items, ImageFiles):
        for position in range(0, len(examples), -(-len(examples) // MOST_FILES)):
            path = examples.items.paths[position]
            total.update((path.stat().st_size if isinstance(path, Path) else path.size).to_bytes(8, "little"))
        return total.hexdigest()
    for part in (examples.items, examples.augmented):
        if part is not None:
            rows = part.reshape(len(examples), -1)
            stride = max(-(-rows.numel() * rows.element_size() // MOST_BYTES), 1)
            total.update(rows[::stride].contiguous().cpu().numpy().tobytes())
    return total.hexdigest()


def fingerprint(names: Sequence[str], labels: Tensor, positions: Tensor) -> str:
    """Compute SHA-256, in hex, of the number of items, and the names and labels of some of them.

    A table that was sorted, a file that was added or removed, and a label that was changed give another one. Labels that other
    samples get later do not: whoever labels more may still use what was trained before.

    Args:
        names: of all items; none where the source has no names.
        labels: of all items (N,), numbers of classes.
        positions: of the items that count: those whose labels were trained on.
    """
    chosen: list[int] = positions.tolist()
    named = [names[position] for position in chosen] if names else []
    total = hashlib.sha256(json.dumps([len(labels), named], separators=(",", ":")).encode())  # ASCII, whatever the names are
    total.update(labels[positions].cpu().numpy().astype("<i8").tobytes())
    return total.hexdigest()
