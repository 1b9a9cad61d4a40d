"""Atomic writes: a file is written completely or not at all."""

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

LEFTOVER = re.compile(r"\..+\.[0-9a-f]{8}")
"""Names of temporary files that a killed process left behind."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write a temporary file, flush it to disk and rename it: a reader sees the old file or the new one, never a part."""
    with replacing_file(path) as file:
        file.write(content)


@contextmanager
def replacing_file(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces the target when all is on disk; a failure leaves nothing behind."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def _flush_folder(folder: Path) -> None:
    """Flush a folder where the system can, so that a rename survives a power cut."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that cannot order renames themselves
            raise
    finally:
        os.close(handle)
