"""A folder of images as a source: a folder for each class, parts for training and test, or a table that says what is what.

photos/cat/1.jpg              photos/train/cat/1.jpg         photos/1.jpg
photos/dog/2.jpg              photos/test/cat/2.jpg          photos/2.jpg
photos/unlabeled/3.jpg        photos/unlabeled/3.jpg         photos/labels.csv

Beside folders of classes, a table adds labels to images that have none.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from softmatch.data.own.class_folders import about_classes, certain_parts, find_parts, labels_by_folder
from softmatch.data.own.folder_tables import combine, read_tables
from softmatch.data.own.image_labels import Images, find_label_column, folders_named, match
from softmatch.data.own.labels import clean_label
from softmatch.data.own.tables import open_table, read_head
from softmatch.data.own.walk import SUFFIXES, Walked, images_in, walk
from softmatch.data.records import Columns, Finding, InputKind, Records
from softmatch.errors import InputError
from softmatch.views.pillow import printable

__all__ = ["SUFFIXES", "OpenedFolder", "open_folder", "open_image", "open_image_table"]

PIECE = 65536
"""Rows of a table at a time."""
EXPECTED = """Expected one folder for each class, for example
  {where}/cat/1.jpg
  {where}/dog/2.jpg
  {where}/unlabeled/3.jpg
or images beside a table with their labels, {where}/labels.csv with the columns file and label."""


@dataclass
class OpenedFolder:
    """Images that were found, see `records.Opened`. None of them has been read.

    Attributes:
        paths: absolute.
        names: relative to the folder, with / between folders.
        test: those that the folder keeps apart for testing.
    """

    where: str
    paths: list[Path]
    names: list[str]
    labels: list[str | None]
    columns: Columns
    findings: list[Finding] = field(default_factory=list)
    test: OpenedFolder | None = None
    kind: InputKind = "image"

    def read(self) -> Records:
        """The paths; whether there are images in these files shows when they are prepared."""
        return Records(self.kind, self.paths, self.names, self.labels)

    def stream(self, rows: int) -> Iterator[Records]:
        """The same in pieces."""
        for start in range(0, len(self.paths), rows):
            part = slice(start, start + rows)
            yield Records(self.kind, self.paths[part], self.names[part], self.labels[part])


def open_folder(path: Path, columns: Columns) -> OpenedFolder:
    """Find the images in a folder and their labels.

    Raises:
        InputError: there are no images, or the folder cannot be opened.
    """
    walked, where = walk(path), printable(path)
    if not walked.images:
        raise InputError(f"{where} holds no images{_instead(walked, where)}. {EXPECTED.format(where=where)}")
    parts = find_parts(walked)
    labels = labels_by_folder(walked, parts, clean_label(columns.unlabeled))
    certain = certain_parts(labels, parts)
    tables, findings = read_tables(path, walked, parts, columns, certain=bool(certain))
    if tables:
        labels, noticed = combine(labels, parts, certain, tables, where)
        findings += noticed
    elif columns.label is not None and not any(finding.level == "stop" for finding in findings):
        findings.append(Finding("note", f"--label {columns.label} is not used: no table in {where} says what the images are."))
    if certain or not tables:
        findings += about_classes(walked, parts, labels)
    else:
        columns = replace(columns, label=next((table.column for table in tables if table.column is not None), None))
    opened = _opened(path, where, [image for image in walked.images if parts.use(image) == "train"], labels, columns)
    opened.findings = [*walked.findings(), *parts.findings, *findings]
    if parts.test is not None:
        tested = [image for image in walked.images if parts.use(image) == "test"]
        opened.test = _opened(path, printable(path / parts.test), tested, labels, columns)
    return opened


def open_image(path: Path) -> OpenedFolder:
    """A single file of an image."""
    return _opened(path.parent, printable(path), [path.name], {path.name: None}, Columns())


def open_image_table(path: Path, columns: Columns, file_column: str) -> OpenedFolder:
    """A table, of any kind that can be read, whose rows name image files relative to its folder. Their order is that of the rows.

    Raises:
        InputError: a file outside this folder, or it is not clear which column holds the labels.
    """
    where, folder = printable(path), path.parent
    column = find_label_column(where, list(read_head(path, 1)), file_column, columns.label)
    table = open_table(path, Columns(label=column, text=file_column, unlabeled=columns.unlabeled), need_label=False)
    files, labels = list[str](), list[str | None]()
    for piece in table.stream(PIECE):
        files += map(str, piece.inputs)
        labels += piece.labels
    near = [posixpath.join(inner, name) for inner in folders_named(files) for name in images_in(folder / inner)]
    found, findings = match(where, files, labels, Images([printable(each) for each in near]), printable(folder))
    named = {near[position]: label for position, label in found.items()}
    opened = _opened(folder, where, list(named), named, replace(columns, label=column))
    opened.findings = [*table.findings, *findings]
    return opened


def _opened(root: Path, where: str, images: Sequence[str], labels: Mapping[str, str | None], columns: Columns) -> OpenedFolder:
    root = Path(os.path.abspath(root))  # noqa: PTH100  # `resolve` would replace links, and they are what the user knows
    paths, names = [root / image for image in images], [printable(image) for image in images]
    return OpenedFolder(where, paths, names, [labels[image] for image in images], columns)


def _instead(walked: Walked, where: str) -> str:
    """What there is where images were expected."""
    if walked.tables:
        return f", but a table: to learn from its columns, give {where}/{printable(walked.tables[0])} itself"
    return f" but {walked.others.total():,} other files, {walked.kinds()}" if walked.others else ""
