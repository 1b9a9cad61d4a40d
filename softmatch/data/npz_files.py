"""What may happen while a .npz or .npy of others is read, and what is refused before it is."""

from __future__ import annotations

import lzma
import os
import tokenize
import zipfile
import zlib
from pathlib import Path

from softmatch.errors import InputError

__all__ = ["FAILURES", "refuse_unfit"]

FAILURES = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, EOFError, OSError, KeyError),  # of the archive
    *(ValueError, TypeError, OverflowError, SyntaxError, tokenize.TokenError, MemoryError),  # of an array's header
    RuntimeError,  # of both: encryption, endless nesting
)
"""Errors that reading a damaged file leads to. Nothing in it is unpickled if numpy is told so."""


def refuse_unfit(path: Path) -> None:
    """Raise InputError for a file that is no zip archive, or unpacks to more than the machine can hold."""
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is cut off or damaged: it is no complete .npz archive.")
    try:
        with zipfile.ZipFile(path) as archive:
            largest = max((member.file_size for member in archive.infolist()), default=0)
    except FAILURES as error:
        raise InputError(f"{path} is cut off or damaged: {error}.") from error
    there = _memory()
    if there is not None and largest > there:
        raise InputError(f"{path} unpacks to {largest / 1e9:,.1f} GB, and this machine has {there / 1e9:,.1f} GB of memory.")


def _memory() -> int | None:
    """Bytes of this machine, where it says so."""
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
