"""Items with equal content, found by what the user gave, so that a copy of a held-out sample is never trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from softmatch.data.image_files import ImageFiles
from softmatch.data.pictures import Picture, content_digest
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
