"""Series of the UCR and UEA archives as sources: .ts and .arff files, and tables of numbers without a header."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from softmatch.data.cells import is_missing, parse_number
from softmatch.data.readers.csv_files import read_lines
from softmatch.data.readers.labels import clean_label, clean_labels
from softmatch.data.records import Columns, Finding, Found, numbered, ragged
from softmatch.errors import InputError, nearest

SUFFIXES = (".ts", ".arff")
DELIMITERS = ("\t", ",", ";")
NO_CLASS = ("", "?")
TRAIN = re.compile(r"(.*[_-])(train)", re.IGNORECASE)
ATTRIBUTE = re.compile(r"""@attribute\s+('[^']*'|"[^"]*"|[^\s{]+)\s*(.*)""", re.IGNORECASE)
RELATIONAL = re.compile(r"""(['"])(.*)\1\s*(?:,\s*(.*))?""")
NUMBERS = ("numeric", "real", "integer")

Series = npt.NDArray[np.float32]


@dataclass
class _Read:
    """Series and classes of a file so far.

    Attributes:
        classes: all that there may be; None: any.
        channels: number of them in each series; None: not known yet.
        length: number of values in each series; None: any.
    """

    path: Path
    classes: list[str] | None = None
    channels: int | None = None
    length: int | None = None
    series: list[Series] = field(default_factory=list)
    labels: list[str | None] = field(default_factory=list)

    def add(self, line: int, channels: Sequence[str], label: str | None) -> None:
        """Take a series: the numbers of each channel as text, and its class; None: it has none."""
        place = f"{self.path}, line {line}"
        if self.channels is None:
            self.channels = len(channels)
        if len(channels) != self.channels:
            raise InputError(f"{place} has {_count(len(channels), 'dimension')}, not {self.channels}. Is the line complete?")
        many = self.channels > 1
        made = [_numbers(text, f"{place}{f', dimension {at}' if many else ''}") for at, text in enumerate(channels, 1)]
        for numbers in made if self.length is not None else ():
            if len(numbers) != self.length:
                raise InputError(f"{place} has {_count(len(numbers), 'value')}, not {self.length:,}. Is the line complete?")
        longest = max(map(len, made))
        self.series.append(np.stack([np.pad(each, (0, longest - len(each)), constant_values=np.nan) for each in made]))
        label = None if label is None or label.strip() in NO_CLASS else label.strip()
        if label is not None and self.classes is not None and clean_label(label) not in map(clean_label, self.classes):
            raise InputError(f"{place}: the class {label!r} is not in the list of the header. {nearest(label, self.classes)}")
        self.labels.append(label)

    def found(self, columns: Columns) -> Found:
        """Give all series as a source."""
        if not self.series:
            raise InputError(f"{self.path} has no series.")
        labels = clean_labels(self.labels, columns.unlabeled, str(self.path))
        return Found(str(self.path), numbered(ragged(self.series), "array", labels), columns)


def open_series_file(path: Path, columns: Columns) -> Found:
    """Open a file of series. If it is called X_TRAIN and X_TEST is beside it, this is its test part."""
    told = {"--label": columns.label, "--text": columns.text, "--features": columns.features, "--augmented": columns.augmented}
    for option, given in told.items():
        if given:
            raise InputError(f"{option} names columns of a table, and {path} has none. Leave it out.")
    opened = _open(path, columns)
    if (beside := _test_of(path)) is None:
        return opened
    test = _open(beside, columns)
    if any(label is not None for label in test.records.labels):
        test.findings.append(Finding("note", f"{beside}, beside {path.name}, is the test set. --test names another one."))
        opened.test = test
    else:
        opened.findings.append(Finding("note", f"{beside}, beside {path.name}, is not used: none of its series has a label."))
    return opened


def has_series_rows(path: Path) -> bool:
    """Tell whether a table has no header and holds numbers only, as those of the UCR archive, after the class."""
    first = next((line for line in read_lines(path) if line.strip()), "")
    label, *numbers = _cells(first)
    return len(numbers) > 1 and all(map(_is_number, [label, *numbers]))


def _open(path: Path, columns: Columns) -> Found:
    read = {".ts": _read_ts, ".arff": _read_arff}.get(path.suffix.lower(), _read_rows)
    return read(path).found(columns)


def _test_of(path: Path) -> Path | None:
    """Find the test part: the name may be written in large or small letters."""
    stem = TRAIN.fullmatch(path.stem)
    if stem is None:
        return None
    names = {"TRAIN": "TEST", "train": "test"}
    beside = path.with_name(f"{stem[1]}{names.get(stem[2], 'Test')}{path.suffix}")
    return beside if beside.is_file() else None


def _read_rows(path: Path) -> _Read:
    """Read a label and a series from each line. Series that end early are filled up with NaN."""
    found, width = _Read(path, channels=1), None
    for line, text in _lines(path, comments=""):
        label, *numbers = _cells(text)
        width = width or len(numbers)
        if len(numbers) != width:
            raise InputError(f"{path}, line {line} has {len(numbers) + 1} cells, not {width + 1}. Is the line complete?")
        while len(numbers) > 1 and is_missing(numbers[-1]):
            numbers.pop()
        found.add(line, [",".join(numbers)], label)
    return found


def _read_ts(path: Path) -> _Read:
    header, found = dict[str, str](), _Read(path)
    has_class = even = False
    for line, text in (lines := _lines(path, "#%")):
        if not text.startswith("@"):
            raise InputError(f"{path}, line {line} is {text[:40]!r} before @data. Is it a .ts file of series?")
        key, _, value = text[1:].partition(" ")
        if key.lower() == "data":
            has_class, even = _apply(header, found), header.get("equallength", "").lower() == "true"
            break
        header[key.lower()] = value.strip()
    else:
        raise _no_data(path)
    for line, text in lines:
        parts = text.split(":")
        label = parts.pop() if has_class else None
        if not parts:
            raise InputError(f"{path}, line {line} has no class after a colon. Is the line complete?")
        found.add(line, parts, label)
        found.length = found.series[0].shape[1] if even else None
    return found


def _apply(header: dict[str, str], found: _Read) -> bool:
    """Take the header of a .ts file; tells whether its series have classes."""
    if header.get("timestamps", "false").lower() == "true":
        advice = "Give a table with one row per reading instead (--series, --time)."
        raise InputError(f"{found.path} has @timeStamps true: values with times are not read. {advice}")
    has_class, *classes = header.get("classlabel", "").split() or [""]
    if has_class.lower() not in ("true", "false"):
        advice = "Write for example '@classLabel true walk run', or '@classLabel false' if no series has a class."
        raise InputError(f"{found.path} has no line @classLabel true or false. {advice}")
    dimensions = header.get("dimensions", header.get("dimension", ""))
    if dimensions and not re.fullmatch(r"[1-9]\d{0,5}", dimensions):
        raise InputError(f"{found.path}: @dimensions {dimensions} is not a number of dimensions.")
    univariate = header.get("univariate", "").lower() == "true"
    found.channels = int(dimensions) if dimensions else 1 if univariate else None
    found.classes = classes or None
    return has_class.lower() == "true"


def _read_arff(path: Path) -> _Read:
    kinds, found = list[str](), _Read(path)
    inside = False
    for line, text in (lines := _lines(path, "%")):
        word = text.split()[0].lower()
        if word == "@data":
            break
        if word == "@end":
            inside = False
        elif word == "@attribute" and not inside and (attribute := ATTRIBUTE.match(text)) is not None:
            kind = attribute[2].strip()
            inside = kind.lower() == "relational"
            kinds.append("class" if kind.startswith("{") else "number" if kind.lower() in NUMBERS else kind.lower())
            if kinds[-1] not in ("class", "number", "relational"):
                what = f"{path}, line {line}: the attribute {attribute[1]} is of type {kind[:40]!r}"
                raise InputError(f"{what}. Series have numbers and a class {{a,b}}.")
            if kinds[-1] == "class":
                found.classes = _quoted_cells(kind.strip("{} "), f"{path}, line {line}")
        elif word not in ("@attribute", "@relation"):
            raise InputError(f"{path}, line {line} is {text[:40]!r} before @data. Is it an .arff file?")
    else:
        raise _no_data(path)
    classes, numbers, lists = (kinds.count(kind) for kind in ("class", "number", "relational"))
    if classes > 1 or lists > 1 or bool(numbers) == bool(lists):
        advice = "Series have attributes of numbers, or one that is relational, and one class {a,b}."
        raise InputError(f"{path} is a table of another kind: {advice} Save it as .csv.")
    split = _relational_row if "relational" in kinds else _plain_row
    for line, text in lines:
        found.add(line, *split(text, kinds, f"{path}, line {line}"))
        found.length = found.series[0].shape[1] if split is _plain_row else None
    return found


def _plain_row(text: str, kinds: Sequence[str], place: str) -> tuple[list[str], str | None]:
    """Split a row of one channel into its numbers and its class."""
    cells = _quoted_cells(text, place)
    if len(cells) != len(kinds):
        raise InputError(f"{place} has {_count(len(cells), 'cell')}, not {len(kinds)}. Is the line complete?")
    label = cells.pop(kinds.index("class")) if "class" in kinds else None
    return [",".join(cells)], label


def _relational_row(text: str, kinds: Sequence[str], place: str) -> tuple[list[str], str | None]:
    """Split a row of several channels, which are in quotes with \\n between them."""
    row = RELATIONAL.fullmatch(text)
    if row is None or (row[3] is None) == ("class" in kinds):
        raise InputError(f"{place} is not a series in quotes and a class, such as '1,2,3\\n4,5,6',walk. Is the line complete?")
    label = None if row[3] is None else row[3].strip().strip("'\"")
    return row[2].split("\\n"), label


def _lines(path: Path, comments: str) -> Iterator[tuple[int, str]]:
    """Give the lines with their numbers, without blank ones and comments."""
    empty = True
    for number, line in enumerate(read_lines(path), 1):
        text = line.strip() if comments else line.rstrip("\r\n")
        if text.strip() and text[0] not in (comments or "\n"):
            empty = False
            yield number, text
    if empty:
        raise InputError(f"{path} is empty.")


def _cells(line: str) -> list[str]:
    mark = next((mark for mark in DELIMITERS if mark in line), "\t")
    return line.rstrip("\r\n").split(mark)


def _quoted_cells(text: str, place: str) -> list[str]:
    quote = '"' if '"' in text and "'" not in text else "'"
    try:
        return [cell.strip() for row in csv.reader([text], quotechar=quote, skipinitialspace=True) for cell in row]
    except csv.Error as error:
        raise InputError(f"{place} cannot be split into cells: {error}. Is a quote never closed?") from error


def _numbers(text: str, place: str) -> Series:
    """Read numbers between commas; NaN where one is missing."""
    cells: list[Any] = text.split(",")
    try:
        found = [float("_" if "_" in text else cell) for cell in cells]
    except ValueError:
        for at, cell in enumerate(cells, 1):
            if not _is_number(cell):
                raise InputError(f"{place}: value {at:,} is {cell.strip()[:40]!r}, not a number; ? means missing.") from None
        found = [np.nan if is_missing(cell) else float(cell) for cell in cells]
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, which is refused later
        return np.array(found).astype(np.float32)


def _is_number(cell: str) -> bool:
    return is_missing(cell) or parse_number(cell) is not None


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number:,} {what}s"


def _no_data(path: Path) -> InputError:
    return InputError(f"{path} has no line @data, after which the series begin. Is the file complete?")
