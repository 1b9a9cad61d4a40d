"""Choice of the device to train on."""

from __future__ import annotations

import torch

from softmatch.distributed import processes
from softmatch.distributed.launching import neighbours
from softmatch.errors import InputError


def choose_device(name: str) -> torch.device:
    """The device of that name; "auto" is CUDA, then MPS, then the CPU.

    With several processes, each gets the GPU of its number on its machine, and MPS is not used.
    """
    several = processes.world().size > 1
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", _own_gpu()) if several else torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() and not several else "cpu")
    try:
        if several:
            _refuse_shared(torch.device(name))
        torch.zeros(1, device=name)
        return torch.device(name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"device {name!r} cannot be used here: {reason}. Use --device auto or cpu.") from error


def _own_gpu() -> int:
    """The GPU of this process's number on its machine."""
    rank, number = processes.local_rank(), torch.cuda.device_count()
    if rank >= number:
        raise InputError(
            f"process {rank + 1} of this machine has no GPU: there are {number}. Start {number} processes, or use --device cpu."
        )
    return rank


def _refuse_shared(device: torch.device) -> None:
    """Raise InputError for a device that several processes cannot share."""
    if device.type == "mps":
        raise InputError("device 'mps' is for one process: use --device cpu, or one process.")
    if device.type == "cuda" and device.index is not None and neighbours() > 1:
        raise InputError(
            f"device '{device}' is one GPU, and each of several processes on a machine needs its own: use --device auto or cuda."
        )
