"""Independent random streams from one seed."""

from __future__ import annotations

import hashlib

import torch


def derive(seed: int, *names: object) -> int:
    """A 63-bit seed for the stream called `names`, the same on every machine; other names give unrelated streams."""
    text = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def stream(seed: int, *names: object) -> torch.Generator:
    """A generator on the host for that stream."""
    return torch.Generator().manual_seed(derive(seed, *names))
