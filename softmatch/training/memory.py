"""The C library's memory, set up for tensors that come and go with every step."""

from __future__ import annotations

import ctypes
import sys

MAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
"""Parameters of glibc's mallopt."""
LARGEST = (2**30, 2**25)
"""Blocks up to this size are kept; the second is the most that older versions accept."""


def keep_freed_memory() -> bool:
    """Let the process keep the memory of freed tensors for the next ones. True where that could be arranged.

    By default glibc gives each large block back to the system and has every page of the next one cleared again, which costs
    a large step on a CPU up to a quarter of its processor time. The process holds its largest amount of memory until it ends,
    so this is for programs of our own, not for a library call.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        library = ctypes.CDLL("libc.so.6")
        trimmed = bool(library.mallopt(TRIM_THRESHOLD, 2**31 - 1))
        return any(library.mallopt(MAP_THRESHOLD, size) for size in LARGEST) and trimmed
    except (OSError, AttributeError):  # another C library
        return False
