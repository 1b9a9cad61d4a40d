"""The cache folder of softmatch; its entries are written completely or not at all."""

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
    """Folder of cached data: $SOFTMATCH_CACHE, else $XDG_CACHE_HOME/softmatch, else ~/.cache/softmatch."""
    if os.environ.get("SOFTMATCH_CACHE"):
        return Path(os.environ["SOFTMATCH_CACHE"]).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "softmatch"


def identity(paths: Iterable[Path]) -> list[tuple[str, int, int]]:
    """Path, size and time of each file, to tell whether a cached copy is up to date."""
    found = [(str(path.resolve()), path.stat()) for path in paths]
    return [(name, status.st_size, status.st_mtime_ns) for name, status in found]


def entry(name: str, made_of: object) -> Path:
    """Cache folder for data of this name, keyed by the inputs `made_of`."""
    digest = hashlib.sha256(json.dumps([FORMAT, made_of]).encode()).hexdigest()
    return cache_folder() / f"{name}-{digest[:16]}"


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Create a folder that is renamed to `target` when the block succeeds, so that no reader sees a part of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        made = scratch / "made"
        made.mkdir()  # with the user's own permissions, unlike mkdtemp's folder
        yield made
        try:
            made.rename(target)
        except OSError:
            if not target.is_dir():  # otherwise another process was faster, with the same data
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
