"""Folders of images, or of recordings, as sources. Folders name the classes, or a table does:

photos/cat/1.jpg              photos/train/cat/1.jpg         photos/1.jpg
photos/dog/2.jpg              photos/test/cat/2.jpg          photos/2.jpg
photos/unlabeled/3.jpg        photos/unlabeled/3.jpg         photos/labels.csv

Where folders name the classes, a table only adds labels to images without one, as in unlabeled/. A contradiction stops.
"""

import os
import posixpath
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from softmatch.data.readers.class_folders import (
    NOUNS,
    MediaKind,
    Parts,
    Walked,
    below,
    files_in,
    find_parts,
    media_kind,
    relative,
    walk,
)
from softmatch.data.readers.columns import LABEL_NAMES, choice
from softmatch.data.readers.csv_files import read_columns
from softmatch.data.readers.labels import clean_label, clean_labels
from softmatch.data.readers.table_source import OpenedTable, read_table
from softmatch.data.records import Columns, Finding, Found, Records, TableReader, about
from softmatch.errors import InputError, nearest
from softmatch.formatting import printable, quoted, some

PIECE = 65536
"""Rows of a table at a time."""
FILE_NAMES = frozenset(
    {"file", "filename", "path", "filepath", "image", "img", "imagepath", "imagefile", "picture", "photo"}
    | {"sound", "audio", "recording"}
)
PERHAPS_FILE_NAMES = frozenset({"name", "id", "imageid", "imagename", "key"})
EXPECTED = """Expected one folder for each class, for example
  {where}/cat/1.jpg
  {where}/dog/2.jpg
  {where}/unlabeled/3.jpg
or images beside a table with their labels, {where}/labels.csv with the columns file and label. Recordings likewise."""


def open_folder(path: Path, columns: Columns, walked: Walked | None = None) -> Found:
    """Find the images in a folder and their labels; `walked` are its contents, where they are known."""
    walked, where = walked or walk(path), printable(path)
    if not walked.samples:
        raise InputError(f"{where} holds no images or recordings{_instead(walked, where)}. {EXPECTED.format(where=where)}")
    parts = find_parts(walked)
    labels = parts.labels(walked, clean_label(columns.unlabeled))
    by_folders = parts.name_classes(labels)
    tables, findings = _read_tables(path, walked, parts, columns, by_folders)
    if tables:
        labels, noticed = _combine(labels, by_folders, tables, where, NOUNS[walked.kind])
        findings += noticed
    elif columns.label is not None and not any(finding.level == "stop" for finding in findings):
        findings.append(
            Finding("note", f"--label {columns.label} is not used: no table in {where} labels the {NOUNS[walked.kind]}.")
        )
    if by_folders or not tables:
        findings += parts.about_classes(walked, labels)
    else:
        columns = replace(columns, label=next((table.column for table in tables if table.column is not None), None))
    trained = [image for image in walked.samples if parts.use(image) == "train"]
    opened = _opened(path, where, trained, labels, columns, walked.kind)
    opened.findings = [*walked.findings(), *parts.findings, *findings]
    if parts.test is not None:
        tested = [image for image in walked.samples if parts.use(image) == "test"]
        opened.test = _opened(path, printable(path / parts.test), tested, labels, columns, walked.kind)
    return opened


def open_single(path: Path, kind: MediaKind) -> Found:
    """Open a single image or recording."""
    return _opened(path.parent, printable(path), [path.name], {path.name: None}, Columns(), kind)


def open_file_table(path: Path, columns: Columns, file_column: str, kind: MediaKind, reader: TableReader | None = None) -> Found:
    """Open a table, of any readable kind, whose rows name files of a kind relative to its folder, in the order of the rows."""
    where, folder, reader = printable(path), path.parent, reader or read_table(path)
    column = _find_label_column(where, reader.names, file_column, columns.label)
    wanted = Columns(label=column, text=file_column, unlabeled=columns.unlabeled)
    table = OpenedTable(reader, str(path), wanted, need_label=False)
    files, labels = list[str](), list[str | None]()
    for piece in table.stream(PIECE):
        files += map(str, piece.inputs)
        labels += piece.labels
    near = [posixpath.join(inner, name) for inner in _folders_named(files) for name in files_in(folder / inner, kind)]
    found, findings = _match(where, files, labels, Images([printable(each) for each in near]), printable(folder))
    named = {near[position]: row.label for position, row in found.items()}
    opened = _opened(folder, where, list(named), named, replace(columns, label=column), kind)
    opened.findings = [*table.findings, *findings]
    return opened


def _opened(
    root: Path, where: str, images: Sequence[str], labels: Mapping[str, str | None], columns: Columns, kind: MediaKind
) -> Found:
    root = Path(os.path.abspath(root))  # noqa: PTH100  # `resolve` would replace links, and they are what the user knows
    paths, names = [root / image for image in images], [printable(image) for image in images]
    return Found(where, Records(kind, paths, names, [labels[image] for image in images]), columns)


def _instead(walked: Walked, where: str) -> str:
    """Describe the contents of a folder where images were expected."""
    if walked.tables:
        return f", but a table: to learn from its columns, give {where}/{printable(walked.tables[0])} itself"
    return f" but {walked.others.total():,} other files, {walked.kinds()}" if walked.others else ""


class _Table(NamedTuple):
    """Rows of a table by the image that they name, and the column that the labels are in."""

    name: str
    rows: "Mapping[str, Row]"
    column: str | None


def _read_tables(
    root: Path, walked: Walked, parts: Parts, columns: Columns, by_folders: bool
) -> tuple[list[_Table], list[Finding]]:
    """Read the tables that name images. Where folders name the classes, only those that cannot mean anything else."""
    tables, findings, unused = list[_Table](), list[Finding](), list[str]()
    for name in walked.tables:
        if by_folders and posixpath.dirname(name) not in ("", *parts.bases):
            continue
        try:
            table = _read_labels(root, name, walked.samples, columns, by_folders, findings)
        except InputError as error:
            findings.append(Finding("note", f"{error} This table is not used.") if by_folders else Finding("stop", str(error)))
            continue
        if table is None:
            unused.append(repr(printable(name)))
        else:
            tables.append(table)
    if unused:
        text = f"{some(unused)} in {printable(root)} is not used: it does not label the {NOUNS[walked.kind]}."
        findings.append(Finding("note" if by_folders else "warning", text, tuple(unused)))
    return tables, findings


def _read_labels(
    root: Path, name: str, images: Sequence[str], columns: Columns, by_folders: bool, findings: list[Finding]
) -> _Table | None:
    """Read a table that names images relative to its folder; None where it does not."""
    base, shown, cells = posixpath.dirname(name), printable(root / name), read_columns(root / name)
    inside = list(below(images, base))
    index = Images([printable(relative(image, base)) for image in inside])
    files = _find_file_column(cells, index, strict=by_folders)
    if files is None:
        return None
    column = _find_label_column(shown, list(cells), files, columns.label)
    if by_folders and columns.label is None and (column is None or column.lower() not in LABEL_NAMES):
        return None
    labels = [None] * len(cells[files]) if column is None else clean_labels(cells[column], columns.unlabeled)
    found, noticed = _match(shown, cells[files], labels, index, printable(root / base))
    findings += noticed
    return _Table(shown, {inside[position]: row for position, row in found.items()}, column)


def _combine(
    by_folder: Mapping[str, str | None], by_folders: bool, tables: Sequence[_Table], where: str, noun: str
) -> tuple[dict[str, str | None], list[Finding]]:
    """Label every image by its folder, where folders name the classes, and by the tables; report contradictions as stops."""
    labels = dict(by_folder) if by_folders else dict[str, str | None].fromkeys(by_folder)
    counts = Counter({"the names of folders": sum(label is not None for label in labels.values())})
    given, disputed = dict[str, str](), defaultdict[str, list[str]](list)
    for table in tables:
        for image, row in table.rows.items():
            if row.label is not None and labels[image] is None:
                labels[image], given[image] = row.label, f"{table.name}, row {row.number}"
                counts[table.name] += 1
            elif row.label not in (None, labels[image]):
                before = f"{labels[image]!r} in {given.get(image, 'its folder')}"
                disputed[table.name].append(f"row {row.number}: {printable(image)!r} is {row.label!r} here and {before}")
    advice = "Keep one label for each file."
    if by_folders:
        advice = "Correct the table or move the file; if the folders are not classes, give the table itself as the source."
    findings = [
        each for table, rows in disputed.items() for each in about("stop", f"{table}: labels contradict each other", rows, advice)
    ]
    named = {image for table in tables for image in table.rows}
    dropped = [label for image, label in by_folder.items() if label and labels[image] is None and image not in named]
    if dropped:
        text = f"{where}: {quoted(sorted(set(dropped)))} is not taken as a class, because a table labels the {noun}. "
        findings.append(Finding("warning", f"{text}Files in it that no table names have no label ({len(dropped):,})."))
    found = [f"{count:,} from {origin}" for origin, count in counts.items() if count]
    empty = [table.name for table in tables if all(row.label is None for row in table.rows.values())]
    unused = "".join(f" {name} has no labels yet and is not used." for name in empty)
    said = ", ".join(found) or "0 from the names of folders"
    return labels, [*findings, Finding("note", f"labels of {where}: {said}.{unused}")]


class Images:
    """Index of images, given by their paths, by what a table may call them: path or file name, with or without the suffix."""

    def __init__(self, names: Sequence[str]) -> None:
        self._by = [defaultdict[str, list[int]](list) for _ in range(4)]
        for position, name in enumerate(names):
            path = _normal(name)
            stem = posixpath.splitext(path)[0]
            for found, key in zip(self._by, (path, posixpath.basename(path), stem, posixpath.basename(stem)), strict=True):
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


def _find_file_column(cells: Mapping[str, Sequence[str]], images: Images, strict: bool) -> str | None:
    """Find the column that names most images.

    Args:
        strict: it must name files by their suffix in at least half of its rows, so that row numbers are not taken for files
            called 1.png, 2.png, …
    """
    best: tuple[int, bool, bool] = (0, False, False)
    chosen = None
    for column, values in cells.items():
        found = [images.find(value) for value in values if media_kind(value.strip()) or not strict]
        named = len({each[0] for each in found if len(each) == 1})
        if not named or (strict and 2 * named < sum(bool(value.strip()) for value in values)):
            continue
        rank = (named, _plain(column) in FILE_NAMES, _plain(column) in PERHAPS_FILE_NAMES)
        if rank > best:
            best, chosen = rank, column
    if chosen is None and not strict:  # a column that names other files is reported
        meant = (column for column, values in cells.items() if values and all(media_kind(value.strip()) for value in values))
        return next((column for column in cells if _plain(column) in FILE_NAMES), next(meant, None))
    return chosen


def _find_label_column(table: str, names: Sequence[str], file_column: str, given: str | None) -> str | None:
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


def _match(
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
        findings = about("warning", f"{table}: rows whose file is not in the folder {where} are left out", missing)
    else:
        findings = about("stop", f"{table}: none of its {len(files):,} files is in the folder {where}", missing)
    findings += about("warning", f"{table}: rows that match several files are left out", unclear, "Write the whole path.")
    return found, findings + about("stop", table, disputed, "Keep one label for each file.")


def _folders_named(cells: Sequence[str]) -> list[str]:
    """Folders that the files of a column are in, relative to the folder of the table."""
    texts = {text for cell in cells for text in (cell.strip(), cell.strip().replace("\\", "/"))}
    folders = {posixpath.dirname(posixpath.normpath(text)) for text in texts if text}
    return sorted(folder for folder in folders if not _leads_outside(folder))


def _leads_outside(path: str) -> bool:
    whole = path.startswith(("/", "~")) or re.match(r"[A-Za-z]:", path) is not None
    return whole or posixpath.normpath(path).split("/")[0] == ".."


def _plain(column: str) -> str:
    return re.sub(r"[\W_]+", "", column.casefold())


def _normal(path: str) -> str:
    return posixpath.normpath(unicodedata.normalize("NFC", path))
