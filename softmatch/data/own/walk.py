"""What lies in a folder of a user: images, tables, folders, and what is neither."""

from __future__ import annotations

import os
import posixpath
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from softmatch.data.records import Finding
from softmatch.errors import InputError
from softmatch.formatting import some
from softmatch.views.pillow import printable

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm"})
"""Of files that are taken as images, in any case."""
TABLES = frozenset({".csv", ".tsv"})
IGNORED = frozenset({"thumbs.db", "desktop.ini", "__macosx", "@eadir"})
"""What operating systems leave behind, besides hidden files."""


@dataclass
class Walked:
    """Everything below a folder; all names are relative to it, with / between folders, and sorted.

    Attributes:
        folders: all that were entered.
        others: how many files of each suffix are neither images nor tables.
        again: links to folders that are read anyway.
        closed: folders that cannot be entered, and why.
    """

    images: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    again: list[str] = field(default_factory=list)
    closed: dict[str, str] = field(default_factory=dict)

    def findings(self) -> list[Finding]:
        """What its owner should know."""
        found = []
        if self.closed:
            names = [f"{printable(name)!r} ({reason})" for name, reason in self.closed.items()]
            found.append(Finding("warning", f"folders that cannot be opened are left out: {some(names)}.", tuple(names)))
        if self.again:
            names = [repr(printable(name)) for name in self.again]
            text = f"links that lead in a circle, or to folders that are read anyway, are not followed: {some(names)}."
            found.append(Finding("note", text, tuple(names)))
        if self.others:
            found.append(Finding("note", f"files that are no images that can be read are left out: {self.kinds()}."))
        return found

    def kinds(self) -> str:
        """'.txt (3), .heic (2)'."""
        return ", ".join(f"{printable(kind) or 'without a suffix'} ({count:,})" for kind, count in self.others.most_common(5))


def walk(root: Path) -> Walked:
    """Look into a folder and all folders in it, through links too, into each once.

    Raises:
        InputError: the folder itself cannot be opened.
    """
    found, seen = Walked(), set[str]()
    above = {str(parent) for parent in Path(os.path.realpath(root)).parents}
    pending, links = [""], list[str]()
    while pending or links:
        linked = not pending
        name = links.pop(0) if linked else pending.pop()
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
                (links if entry.is_symlink() else pending).append(inner)  # links last: a folder is read under its own name
            else:
                _take(found, inner, entry)
    for names in (found.images, found.tables, found.folders, found.again):
        names.sort()
    found.folders.remove("")
    return found


def images_in(folder: Path) -> list[str]:
    """Names of the images directly in a folder, sorted; none where it cannot be opened."""
    found = Walked()
    try:
        entries = _entries(folder)
    except OSError:
        return []
    for entry in entries:
        if not _is_folder(entry):
            _take(found, entry.name, entry)
    return found.images


def is_image(name: str) -> bool:
    """Whether a file is called like an image."""
    return posixpath.splitext(name)[1].lower() in SUFFIXES


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Without hidden files and the like."""
    with os.scandir(folder) as entries:
        seen = [entry for entry in entries if not entry.name.startswith(".") and entry.name.lower() not in IGNORED]
    return sorted(seen, key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _take(found: Walked, name: str, entry: os.DirEntry[str]) -> None:
    suffix = posixpath.splitext(entry.name)[1].lower()
    if not _is_file(entry):  # a pipe or a device, which would be waited for
        found.others["no file"] += 1
    elif suffix in SUFFIXES:
        found.images.append(name)
    elif suffix in TABLES:
        found.tables.append(name)
    else:
        found.others[suffix] += 1


def _is_file(entry: os.DirEntry[str]) -> bool:
    """A link that leads nowhere counts as one: it is reported as an image that cannot be read."""
    try:
        return entry.is_file() or (entry.is_symlink() and not Path(entry.path).exists())
    except OSError:
        return True
