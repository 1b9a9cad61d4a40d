"""Tables that give labels to image files: which image a row names, and what is wrong with its rows."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from softmatch.data.readers.class_folders import is_image
from softmatch.data.readers.columns import LABEL_NAMES, choice
from softmatch.data.records import Finding, about
from softmatch.errors import InputError, nearest

FILE_NAMES = frozenset({"file", "filename", "path", "filepath", "image", "img", "imagepath", "imagefile", "picture", "photo"})
PERHAPS_FILE_NAMES = frozenset({"name", "id", "imageid", "imagename", "key"})


class Images:
    """Index of images, given by their paths, by what a table may call them: path or file name, with or without the suffix."""

    def __init__(self, names: Sequence[str]) -> None:
        self._by = [defaultdict[str, list[int]](list) for _ in range(4)]
        for position, name in enumerate(names):
            path = _normal(name)
            base = posixpath.basename(path)
            for found, key in zip(self._by, (path, base, _stem(path), _stem(base)), strict=True):
                found[key].append(position)

    def find(self, cell: str) -> list[int]:
        """Positions of the images that a cell may mean: one, none, or several."""
        for text in dict.fromkeys((cell, cell.strip(), cell.strip().replace("\\", "/"))):
            key = _normal(text)
            for found in self._by if text else ():
                if key in found:
                    return found[key]
        return []


class Row(NamedTuple):
    """Entry of a table about one image; the number counts from 1."""

    label: str | None
    number: int


def find_file_column(cells: Mapping[str, Sequence[str]], images: Images, strict: bool) -> str | None:
    """Find the column that names most images.

    Args:
        strict: it must name files by their suffix in at least half of its rows, so that row numbers are not taken for files
            called 1.png, 2.png, …
    """
    best: tuple[int, bool, bool] = (0, False, False)
    chosen = None
    for column, values in cells.items():
        found = [images.find(value) for value in values if is_image(value.strip()) or not strict]
        named = len({each[0] for each in found if len(each) == 1})
        if not named or (strict and 2 * named < sum(bool(value.strip()) for value in values)):
            continue
        rank = (named, _plain(column) in FILE_NAMES, _plain(column) in PERHAPS_FILE_NAMES)
        if rank > best:
            best, chosen = rank, column
    if chosen is None and not strict:
        return next((column for column, values in cells.items() if _is_meant_as_files(column, values)), None)
    return chosen


def find_label_column(table: str, names: Sequence[str], file_column: str, given: str | None) -> str | None:
    """Choose the column of labels: as the user says, by its name, or the only other one. None: there is no other."""
    if given is not None:
        if given not in names:
            raise InputError(f"{table} has no column {given!r}, which --label names. {nearest(given, names)}")
        return given
    others = [column for column in names if column != file_column]
    named = [column for column in others if column.lower() in LABEL_NAMES] or others
    if len(named) > 1:
        raise InputError(f"{table}: cannot tell which column holds the labels ({choice(named)}). Choose one with --label.")
    return named[0] if named else None


def match(
    table: str, files: Sequence[str], labels: Sequence[str | None], images: Images, where: str
) -> tuple[dict[int, Row], list[Finding]]:
    """Assign rows, given by file and label, to images by position, and report what is wrong with the rows."""
    missing, unclear, disputed = list[str](), list[str](), list[str]()
    found = dict[int, Row]()
    for number, (cell, label) in enumerate(zip(files, labels, strict=True), 1):
        positions = images.find(cell)
        if len(positions) != 1:
            if _leads_outside(cell.strip().replace("\\", "/")):
                raise InputError(f"{table}, row {number}: {cell!r} is outside the folder {where}. Use paths relative to it.")
            (unclear if positions else missing).append(f"row {number}: {cell!r}")
            continue
        before = found.get(positions[0], Row(None, 0))
        if None not in (before.label, label) and before.label != label:
            disputed.append(f"{cell!r} has the label {before.label!r} in row {before.number} and {label!r} in row {number}")
        elif before.label is None:
            found[positions[0]] = Row(label, number)
    if found:
        findings = about("warning", f"{table}: rows whose image is not in the folder {where} are left out", missing)
    else:
        findings = about("stop", f"{table}: none of its {len(files):,} files is an image in the folder {where}", missing)
    findings += about("warning", f"{table}: rows that match several images are left out", unclear, "Write the whole path.")
    return found, findings + about("stop", table, disputed, "Keep one label for each file.")


def folders_named(cells: Sequence[str]) -> list[str]:
    """Folders that the files of a column are in, relative to the folder of the table."""
    texts = {text for cell in cells for text in (cell.strip(), cell.strip().replace("\\", "/"))}
    folders = {posixpath.dirname(posixpath.normpath(text)) for text in texts if text}
    return sorted(folder for folder in folders if not _leads_outside(folder))


def _leads_outside(path: str) -> bool:
    whole = path.startswith(("/", "~")) or re.match(r"[A-Za-z]:", path) is not None
    return whole or posixpath.normpath(path).split("/")[0] == ".."


def _is_meant_as_files(column: str, values: Sequence[str]) -> bool:
    return _plain(column) in FILE_NAMES or (bool(values) and all(is_image(value.strip()) for value in values))


def _plain(column: str) -> str:
    return re.sub(r"[\W_]+", "", column.casefold())


def _normal(path: str) -> str:
    return posixpath.normpath(unicodedata.normalize("NFC", path))


def _stem(path: str) -> str:
    return posixpath.splitext(path)[0]
