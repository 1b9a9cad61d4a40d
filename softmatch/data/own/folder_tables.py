"""Tables beside the images of a folder, and their labels together with those that the names of folders give."""

from __future__ import annotations

import posixpath
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from softmatch.data.own.class_folders import Parts, below, relative
from softmatch.data.own.columns import LABEL_NAMES
from softmatch.data.own.image_labels import Images, find_file_column, find_label_column, match
from softmatch.data.own.labels import clean_labels
from softmatch.data.own.tables import read_columns
from softmatch.data.own.walk import Walked
from softmatch.data.records import Columns, Finding
from softmatch.errors import InputError
from softmatch.formatting import quoted, some
from softmatch.views.pillow import printable

Labels = Mapping[str, str | None]
"""By the image's name inside the folder."""


@dataclass(frozen=True)
class FolderTable:
    """What a table says about images.

    Attributes:
        name: to call it in messages.
        labels: of the images that it names; None where it gives none.
        column: that these are from.
    """

    name: str
    labels: Labels
    column: str | None


def read_tables(
    root: Path, walked: Walked, parts: Parts, columns: Columns, certain: bool
) -> tuple[list[FolderTable], list[Finding]]:
    """Those tables that name images.

    Args:
        certain: the folders name classes, so that it takes a table beside them that cannot mean anything else.
    """
    tables, findings, unused = list[FolderTable](), list[Finding](), list[str]()
    for name in walked.tables:
        if certain and posixpath.dirname(name) not in ("", *parts.bases):
            continue
        try:
            table = _read_table(root, name, walked.images, columns, certain, findings)
        except InputError as error:
            findings.append(Finding("note", f"{error} This table is not used.") if certain else Finding("stop", str(error)))
            continue
        if table is None:
            unused.append(repr(printable(name)))
        else:
            tables.append(table)
    if unused:
        text = f"{some(unused)} in {printable(root)} does not say what the images are, and is not used."
        findings.append(Finding("note" if certain else "warning", text, tuple(unused)))
    return tables, findings


def _read_table(
    root: Path, name: str, images: Sequence[str], columns: Columns, certain: bool, findings: list[Finding]
) -> FolderTable | None:
    """None where it does not name images, relative to the folder that it lies in."""
    base, shown, cells = posixpath.dirname(name), printable(root / name), read_columns(root / name)
    inside = list(below(images, base))
    index = Images([printable(relative(image, base)) for image in inside])
    files = find_file_column(cells, index, certain)
    if files is None:
        return None
    column = find_label_column(shown, list(cells), files, columns.label)
    if certain and columns.label is None and (column is None or column.lower() not in LABEL_NAMES):
        return None
    labels = [None] * len(cells[files]) if column is None else clean_labels(cells[column], columns.unlabeled)
    found, noticed = match(shown, cells[files], labels, index, printable(root / base))
    findings += noticed
    return FolderTable(shown, {inside[position]: label for position, label in found.items()}, column)


def combine(
    by_folder: Labels, parts: Parts, certain: frozenset[str | None], tables: Sequence[FolderTable], where: str
) -> tuple[dict[str, str | None], list[Finding]]:
    """The label of every image, by its folder or by a table, and where they are from.

    Where folders are classes, a table adds labels to images that have none. Elsewhere the tables alone say what is what.

    Args:
        by_folder: of all images.
        certain: parts (for training, for testing) of which the folders are classes; in the others a folder is one only if the
            tables agree.
        where: to call the folder in messages.
    """
    told, sources, findings = _told(tables)
    spoken_of = {parts.use(image) for image in told}
    alone = {use for use in spoken_of - certain if not _agree(by_folder, told, parts, use)}
    labels, disputed, dropped, counts = dict[str, str | None](), defaultdict[str, list[str]](list), list[str](), Counter[str]()
    for image, label in by_folder.items():
        said, use = told.get(image), parts.use(image)
        if use not in alone and label is not None:
            labels[image] = label
            counts[""] += 1
            if said not in (None, label):
                disputed[sources[image]].append(f"{printable(image)!r} is {said!r} in the table and {label!r} by its folder")
            continue
        labels[image] = said
        if said is not None:
            counts[sources[image]] += 1
        elif label is not None and image not in told:
            dropped.append(label)
    advice = "Move these images or correct the table. If the folders are no classes, give the table itself as the source."
    for name, images in disputed.items():
        findings.append(Finding("stop", f"{name} and the folders disagree: {some(images)}. {advice}", tuple(images)))
    if dropped:
        folders = quoted(sorted(set(dropped)))
        text = f"{where}: {folders} is not taken as a class, since a table says what the images are. "
        findings.append(Finding("note", f"{text}Images in it that no table names have no label ({len(dropped):,})."))
    return labels, [*findings, _origin(counts, tables, where)]


def _told(tables: Sequence[FolderTable]) -> tuple[dict[str, str | None], dict[str, str], list[Finding]]:
    """Labels of all tables together, which table each is from, and where two of them differ."""
    told, sources, disputed = dict[str, str | None](), dict[str, str](), defaultdict[tuple[str, str], list[str]](list)
    for table in tables:
        for image, label in table.labels.items():
            before = told.setdefault(image, None)
            if label is None or label == before:
                continue
            if before is not None:
                text = f"{printable(image)!r} is {before!r} in the one and {label!r} in the other"
                disputed[sources[image], table.name].append(text)
            else:
                told[image], sources[image] = label, table.name
    findings = [
        Finding("stop", f"{one} and {other} disagree: {some(images)}. Decide on one label for each.", tuple(images))
        for (one, other), images in disputed.items()
    ]
    return told, sources, findings


def _agree(by_folder: Labels, told: Labels, parts: Parts, use: str | None) -> bool:
    """Whether the tables take the only folder of a part for a class: they know this class, and say nothing else of its images."""
    names = {label for image, label in by_folder.items() if label is not None and parts.use(image) == use}
    inside = {label for image, label in told.items() if by_folder[image] is not None and parts.use(image) == use}
    return names <= set(told.values()) and inside <= names


def _origin(counts: Mapping[str, int], tables: Sequence[FolderTable], where: str) -> Finding:
    """How many labels are from where."""
    found = [f"{counts[table.name]:,} from {table.name}" for table in tables if counts[table.name]]
    if counts[""] or not found:
        found.insert(0, f"{counts['']:,} from the names of folders")
    empty = [table.name for table in tables if set(table.labels.values()) == {None}]
    unused = "".join(f" {name} has no labels yet, and is not used." for name in empty)
    return Finding("note", f"labels of {where}: {', '.join(found)}.{unused}")
