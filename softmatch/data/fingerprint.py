"""Digests of data: to find copies among them, and to tell whether they are still those that a model was trained on."""

import hashlib
import json
from collections.abc import Sequence

import torch
from torch import Tensor

from softmatch.data.examples import Examples
from softmatch.data.pictures import ImageFiles, Picture, content_digest
from softmatch.data.records import InputKind, Inputs

MOSTLY = 0.9
"""Share of rows that must differ for equal ones to be copies: in a table of a few categories they are different samples."""


def digests(kind: InputKind, inputs: Inputs, items: Tensor | ImageFiles) -> list[bytes]:
    """Compute a digest of the content of each input: bytes of files, texts without outer spaces, else the items' values.

    Args:
        items: what was made of the inputs.
    """
    if kind == "text":
        return [_digest(" ".join(str(text).split()).encode("utf-8", "replace")) for text in inputs]
    if kind == "image":
        pictures: Sequence[Picture] = inputs  # type: ignore[assignment]  # as the kind says
        return list(map(content_digest, pictures))
    assert isinstance(items, Tensor)
    flat = (items + 0.0 if items.is_floating_point() else items).flatten(1).contiguous().numpy()  # −0.0 + 0.0 is 0.0
    return [_digest(row.tobytes()) for row in flat]


def group(kind: InputKind, found: Sequence[bytes]) -> Tensor:
    """Group items by content, (N,) int64: the position of the first item with the same content."""
    if kind == "table" and len(set(found)) < MOSTLY * len(found):
        return torch.arange(len(found))
    first: dict[bytes, int] = {}
    return torch.tensor([first.setdefault(digest, position) for position, digest in enumerate(found)], dtype=torch.int64)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


MOST_BYTES = 2**26
MOST_FILES = 4096


def content(examples: Examples) -> str:
    """Compute SHA-256, in hex, of the items: all of them, or an even choice of more than 64 MB or 4,096 files.

    Image files are represented by their sizes, which other images hardly share.
    """
    total = hashlib.sha256(json.dumps([len(examples), list(examples.items.shape[1:])]).encode())
    if isinstance(examples.items, ImageFiles):
        for position in range(0, len(examples), -(-len(examples) // MOST_FILES)):
            total.update(examples.items.paths[position].stat().st_size.to_bytes(8, "little"))
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
