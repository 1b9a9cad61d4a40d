"""Which device to train on."""

from __future__ import annotations

import torch

from softmatch.errors import InputError


def choose_device(name: str) -> torch.device:
    """The device of that name; "auto" is CUDA, then MPS, then the CPU."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        torch.zeros(1, device=name)
        return torch.device(name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"device {name!r} cannot be used here: {reason}. Use --device auto or cpu.") from error
