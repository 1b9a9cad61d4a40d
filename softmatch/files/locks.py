"""File locks with filelock; the system releases them however their process ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from softmatch.errors import InputError


@contextmanager
def held(path: Path, longest: float, otherwise: str) -> Iterator[None]:
    """Hold the lock of this file during the block.

    Args:
        longest: seconds to wait for it.
        otherwise: message of the InputError if another process holds it for longer.
    """
    lock = FileLock(path)
    try:
        lock.acquire(timeout=longest, poll_interval=0.1)
    except Timeout as error:
        raise InputError(otherwise) from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is held: a waiting process notices and creates a new one
        lock.release()


def lock_now(file: IO[Any]) -> bool:
    """Temporary."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
