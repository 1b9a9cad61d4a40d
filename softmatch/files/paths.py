"""Paths as people write them."""

from __future__ import annotations

import os
from pathlib import Path


def expand_home(where: str | Path) -> Path:
    """A path with the folder that "~" or "~name" means; as it stands where nobody is called so, and then it is simply not there.

    Example:
        >>> str(expand_home("~nobody-of-that-name/data.csv"))
        '~nobody-of-that-name/data.csv'
    """
    return Path(os.path.expanduser(where))  # noqa: PTH111  # a Path's own method raises a RuntimeError for such a name
