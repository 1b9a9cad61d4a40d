"""Choice of the device to train on, and what it can multiply."""

import torch

from softmatch.distributed import processes
from softmatch.distributed.launching import neighbours
from softmatch.errors import InputError

BF16_UNITS = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
"""Functions of torch.cpu that tell whether the processor multiplies bf16 itself; not every version of torch has them."""


def choose_device(name: str) -> torch.device:
    """The device of that name; "auto" is CUDA, then MPS, then the CPU.

    With several processes, each gets the GPU of its number on its machine, and MPS is not used.
    """
    several = processes.world().size > 1
    if name == "auto":
        if not torch.cuda.is_available():
            return torch.device("mps" if torch.backends.mps.is_available() and not several else "cpu")
        rank, number = processes.local_rank(), torch.cuda.device_count()
        if several and rank >= number:
            raise InputError(
                f"process {rank + 1} of this machine has no GPU: there are {number}. "
                f"Start {number} processes, or use --device cpu."
            )
        return torch.device("cuda", rank) if several else torch.device("cuda")
    try:
        device = torch.device(name)
        if several and device.type == "mps":
            raise InputError("device 'mps' is for one process: use --device cpu, or one process.")
        if several and device.type == "cuda" and device.index is not None and neighbours() > 1:
            raise InputError(
                f"device '{device}' is one GPU, and each of several processes on a machine needs its own: "
                "use --device auto or cuda."
            )
        torch.zeros(1, device=device)
        return device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"device {name!r} cannot be used here: {reason}. Use --device auto or cpu.") from error


def has_bf16_units(device: torch.device) -> bool:
    """True if the device multiplies bf16 in hardware, as far as torch knows."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and any(bool(getattr(torch.cpu, name, bool)()) for name in BF16_UNITS)
