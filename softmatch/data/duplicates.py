"""Items that are the same: found by their content, so that a copy of a held-out sample is never trained on."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from torch import Tensor

from softmatch.data.files import ImageFiles


def digests(items: Tensor | ImageFiles) -> list[bytes]:
    """A digest of the content of each item. Files are compared by their bytes, tensors by their values."""
    if isinstance(items, ImageFiles):
        return [_file_digest(path) for path in items.paths]
    flat = (items + 0.0 if items.is_floating_point() else items).flatten(1).contiguous().numpy()  # −0.0 + 0.0 is 0.0
    return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in flat]


def group(found: list[bytes]) -> Tensor:
    """(N,) int64: the position of the first item with the same content, the item's own where it is unique."""
    first: dict[bytes, int] = {}
    return torch.tensor([first.setdefault(digest, position) for position, digest in enumerate(found)], dtype=torch.int64)


def _file_digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest()
