"""Paths as people write them."""

import os
from pathlib import Path


def expand_home(where: str | Path) -> Path:
    """Expand "~" and "~name" in a path; where there is no such user the path stays as it is, and does not exist.

    Example:
        >>> str(expand_home("~nobody-of-that-name/data.csv"))
        '~nobody-of-that-name/data.csv'
    """
    return Path(os.path.expanduser(where))  # noqa: PTH111  # a Path's own method raises a RuntimeError for such a name
