"""The cache folder of softmatch and its entries, made whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

FORMAT = 1


def cache_folder() -> Path:
    """Where cached data lie: $SOFTMATCH_CACHE, else $XDG_CACHE_HOME/softmatch, else ~/.cache/softmatch."""
    if os.environ.get("SOFTMATCH_CACHE"):
        return Path(os.environ["SOFTMATCH_CACHE"]).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "softmatch"


def identity(paths: Iterable[Path]) -> list[tuple[str, int, int]]:
    """Path, size and time of each file: what tells whether a cached copy is still of these files."""
    found = [(str(path.resolve()), path.stat()) for path in paths]
    return [(name, status.st_size, status.st_mtime_ns) for name, status in found]


def entry(name: str, made_of: object) -> Path:
    """The folder for data of that name made of what is given."""
    digest = hashlib.sha256(json.dumps([FORMAT, made_of]).encode()).hexdigest()
    return cache_folder() / f"{name}-{digest[:16]}"


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A new folder that becomes `target` when the block ends well, so that nobody ever sees half of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        made = scratch / "made"
        made.mkdir()  # unlike mkdtemp's folder, with the user's own permissions
        yield made
        try:
            made.rename(target)
        except OSError:
            if not target.is_dir():  # otherwise another process was faster, and its data are as good
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
