"""Whether something can be written in a folder, found out before anything takes time."""

from __future__ import annotations

import secrets
from pathlib import Path

from softmatch.errors import InputError

__all__ = ["probe", "refuse_unwritable"]


def probe(folder: Path) -> None:
    """Make a file there and remove it. Raises OSError where that fails."""
    file = folder / f".{secrets.token_hex(8)}"
    file.touch(exist_ok=False)
    file.unlink()


def refuse_unwritable(out: Path) -> None:
    """Raise InputError for a new file or folder beside which nothing can be written."""
    try:
        probe(out.absolute().parent)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror or error}. Give another place with --out.") from error
