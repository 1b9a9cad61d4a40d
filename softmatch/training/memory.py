"""Settings of the C library's memory for tensors that are freed in every step."""

import ctypes
import sys

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
