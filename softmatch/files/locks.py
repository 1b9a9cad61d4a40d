"""File locks with filelock; the system releases them however their process ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


def try_lock(path: Path) -> FileLock | None:
    """Lock a file without waiting, until `release()` or the end of the process; None while another process has it."""
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return None
    return lock


def is_locked(path: Path) -> bool:
    """True while another process holds the lock of a file."""
    if not path.exists():
        return False
    lock = try_lock(path)
    if lock is not None:
        lock.release()
    return lock is None
