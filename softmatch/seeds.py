"""Independent random streams from one seed."""

import hashlib

import torch


def derive(seed: int, *names: object) -> int:
    """Derive a 63-bit seed for the stream called `names`, equal on all machines and unrelated to those of other names."""
    text = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def stream(seed: int, *names: object) -> torch.Generator:
    """Return a CPU generator for the stream called `names`."""
    return torch.Generator().manual_seed(derive(seed, *names))
