"""What files hold, in a word: a run of other data or other code is another run, though the names are the same."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

DIGITS = 16
CODE = re.compile(r"(?:^|\+)([^+:]*\.py):")
"""file.py:name, also as the wrapper or the base of a method."""


def digest(path: Path) -> str:
    """Of a file's bytes; of a folder, of the names, sizes and times of the files in it, which need not be read for that."""
    found = hashlib.sha256()
    if path.is_dir():
        for each in sorted(file for file in path.rglob("*") if file.is_file()):
            stat = each.stat()
            found.update(f"{each.relative_to(path).as_posix()}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    else:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                found.update(piece)
    return found.hexdigest()[:DIGITS]


def code_of(settings: Any) -> dict[str, str]:
    """Digests of the files of code that settings name, by how they name them."""
    if isinstance(settings, Mapping):
        settings = list(settings.values())
    if isinstance(settings, str):
        files = {name: Path(name).expanduser() for name in CODE.findall(settings)}
        return {name: digest(path) for name, path in files.items() if path.is_file()}
    if isinstance(settings, Sequence):
        return {name: found for each in settings for name, found in code_of(each).items()}
    return {}
