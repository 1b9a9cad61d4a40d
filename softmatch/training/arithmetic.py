"""Arithmetic of a run: its number format, denormal numbers, which are treated as zero, and memory that is kept for reuse."""

import ctypes
import sys

import torch
from torch import nn

from softmatch.config import Config
from softmatch.distributed.devices import has_bf16_units
from softmatch.distributed.processes import main_says

MAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
"""Parameters of glibc's mallopt."""
LARGEST = (2**30, 2**25)
"""Block sizes up to which memory is kept; older versions accept the second at most."""


def keep_freed_memory() -> bool:
    """Keep the memory of freed tensors for the next ones. Returns whether the system allows it.

    By default glibc returns each large block to the system, which clears every page of the next one: up to a quarter of the
    processor time of a large step on a CPU. The process keeps its peak memory until it ends, so this is for programs only, not
    for a library call.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        library = ctypes.CDLL("libc.so.6")
        trimmed = bool(library.mallopt(TRIM_THRESHOLD, 2**31 - 1))
        return any(library.mallopt(MAP_THRESHOLD, size) for size in LARGEST) and trimmed
    except (OSError, AttributeError):  # another C library
        return False


HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""Number formats of mixed precision."""
SMALLEST_SIDE = 16
"""Side in pixels below which a step is dominated by other costs than convolutions."""
GRAIN = 2**16
"""Elements per thread with which torch gives each of its threads a part of an operation."""


def choose_precision(config: Config, network: nn.Module, shape: tuple[int, ...], device: torch.device) -> str:
    """The number format of a run, the same in all processes.

    "auto" is bf16 for the recipe sprint on images of 16 pixels or more, where convolutions take most of the time and
    benchmarks/results/precision.md has found no loss, on a device with bf16 units; float32 otherwise.
    """
    if config.precision != "auto":
        return config.precision
    convolutions = any(isinstance(module, nn.Conv2d) for module in network.modules())
    if config.recipe != "sprint" or not convolutions or min(shape[-2:]) < SMALLEST_SIDE:
        return "float32"
    return main_says(lambda: "bf16" if has_bf16_units(device) else "float32")


def describe_machine(device: torch.device, precision: str) -> str:
    """Device, threads and number format: 'cpu, 2 threads, float32 (this CPU has no bf16 units)'."""
    threads = torch.get_num_threads()
    where = f"{device}, {threads} thread{'s' if threads > 1 else ''}" if device.type == "cpu" else str(device)
    if precision == "fp16" or device.type not in ("cpu", "cuda") or has_bf16_units(device):
        return f"{where}, {precision}"
    without = f"this {'CPU' if device.type == 'cpu' else 'GPU'} has no bf16 units"
    return f"{where}, {precision} ({'slow: ' if precision == 'bf16' else ''}{without})"


def set_flushing(on: bool) -> bool:
    """Treat denormal numbers (below 1e-38) as zero in this thread and in torch's pool of threads, or no longer.

    A CPU computes with denormal numbers many times slower. torch.set_flush_denormal changes the calling thread and those that
    it starts later. The threads of GNU's OpenMP that exist already each have to call it; other OpenMP libraries give them the
    mode of the calling thread. If a thread does not follow, all keep denormal numbers: results must not depend on the thread.

    Returns:
        The mode of all threads.
    """
    torch.set_flush_denormal(on)
    each = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: torch.set_flush_denormal(on) and None)
    try:
        parallel = ctypes.CDLL(None).GOMP_parallel
    except (OSError, AttributeError, TypeError):  # another library or system
        pass
    else:
        parallel.argtypes, parallel.restype = (type(each), ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint), None
        parallel(each, None, torch.get_num_threads(), 0)
    return on and (flushes(GRAIN * torch.get_num_threads()) or set_flushing(False))


def flushes(elements: int = 1) -> bool:
    """True if all threads that multiply this many elements treat denormal numbers as zero; by default the calling one."""
    product = torch.full((elements,), 1e-30) * 1e-9
    return not bool(product.view(torch.int32).any())  # as floats, some threads would take denormal numbers for zero


def use_threads(number: int) -> None:
    """Set the number of torch's threads; all treat denormal numbers as the calling one does."""
    torch.set_num_threads(number)
    set_flushing(flushes())
