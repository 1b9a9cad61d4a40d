"""Paths: as people write them, and the folder of cached data."""

from __future__ import annotations

import os
from pathlib import Path


def expand_home(where: str | Path) -> Path:
    """Expand "~" and "~name" in a path; where there is no such user the path stays as it is, and does not exist.

    Example:
        >>> str(expand_home("~nobody-of-that-name/data.csv"))
        '~nobody-of-that-name/data.csv'
    """
    return Path(os.path.expanduser(where))  # noqa: PTH111  # a Path's own method raises a RuntimeError for such a name


def cache_folder() -> Path:
    """Folder of cached data: $SOFTMATCH_CACHE, else $XDG_CACHE_HOME/softmatch, else ~/.cache/softmatch."""
    if os.environ.get("SOFTMATCH_CACHE"):
        return Path(os.environ["SOFTMATCH_CACHE"]).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "softmatch"
