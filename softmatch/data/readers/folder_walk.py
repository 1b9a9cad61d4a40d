"""Contents of a user's folder: images, tables, folders, and the files that are neither."""

from __future__ import annotations

import os
import posixpath
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from softmatch.data.records import Finding
from softmatch.errors import InputError
from softmatch.formatting import printable, some

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm"})
"""Suffixes of image files, in lower case."""
TABLES = frozenset({".csv", ".tsv"})
IGNORED = frozenset({"thumbs.db", "desktop.ini", "__macosx", "@eadir"})
"""Left behind by operating systems, in addition to hidden files."""


@dataclass
class Walked:
    """Everything below a folder; names are relative to it, with / between folders, and sorted.

    Attributes:
        folders: all that were entered.
        others: number of files by suffix that are neither images nor tables.
        again: links to folders that are read anyway.
        closed: folders that cannot be entered, and the reason.
    """

    images: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    again: list[str] = field(default_factory=list)
    closed: dict[str, str] = field(default_factory=dict)

    def findings(self) -> list[Finding]:
        """Report what the owner of the folder should know."""
        found = []
        if self.closed:
            names = [f"{printable(name)!r} ({reason})" for name, reason in self.closed.items()]
            found.append(Finding("warning", f"folders that cannot be opened are left out: {some(names)}.", tuple(names)))
        if self.again:
            names = [repr(printable(name)) for name in self.again]
            text = f"links that form a circle or lead to folders that are read anyway are not followed: {some(names)}."
            found.append(Finding("note", text, tuple(names)))
        if self.others:
            found.append(Finding("note", f"files that are not readable images are left out: {self.kinds()}."))
        return found

    def kinds(self) -> str:
        """Count the other files: '.txt (3), .heic (2)'."""
        return ", ".join(f"{printable(kind) or 'no suffix'} ({count:,})" for kind, count in self.others.most_common(5))


def walk(root: Path) -> Walked:
    """Look into a folder and all folders in it, through links too, each of them once.

    Raises:
        InputError: the folder itself cannot be opened.
    """
    found, seen = Walked(), set[str]()
    above = {str(parent) for parent in Path(os.path.realpath(root)).parents}
    pending, links = [""], list[str]()
    while pending or links:
        name = pending.pop() if pending else links.pop(0)  # links last: a folder is read under its own name
        real = os.path.realpath(root / name)
        if real in seen or real in above:
            found.again.append(name)
            continue
        seen.add(real)
        try:
            entries = _entries(root / name)
        except OSError as error:
            if not name:
                raise InputError(f"{printable(root)} cannot be opened: {error.strerror or error}.") from error
            found.closed[name] = error.strerror or str(error)
            continue
        found.folders.append(name)
        for entry in entries:
            inner = posixpath.join(name, entry.name)
            if _is_folder(entry):
                (links if entry.is_symlink() else pending).append(inner)
            else:
                _sort_in(found, inner, entry)
    for names in (found.images, found.tables, found.folders, found.again):
        names.sort()
    found.folders.remove("")
    return found


def images_in(folder: Path) -> list[str]:
    """Names of the images directly in a folder, sorted; none where it cannot be opened."""
    try:
        return [entry.name for entry in _entries(folder) if is_image(entry.name) and not _is_folder(entry) and _is_file(entry)]
    except OSError:
        return []


def is_image(name: str) -> bool:
    """Tell whether a file has the suffix of an image."""
    return posixpath.splitext(name)[1].lower() in SUFFIXES


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        seen = [entry for entry in entries if not entry.name.startswith(".") and entry.name.lower() not in IGNORED]
    return sorted(seen, key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _sort_in(found: Walked, name: str, entry: os.DirEntry[str]) -> None:
    suffix = posixpath.splitext(entry.name)[1].lower()
    if not _is_file(entry):  # a pipe or a device, which would be waited for
        found.others["not a file"] += 1
    elif suffix in SUFFIXES:
        found.images.append(name)
    elif suffix in TABLES:
        found.tables.append(name)
    else:
        found.others[suffix] += 1


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Count a broken link as a file: it is reported as an image that cannot be read."""
    try:
        return entry.is_file() or (entry.is_symlink() and not Path(entry.path).exists())
    except OSError:
        return True
