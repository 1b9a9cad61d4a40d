"""Lines of text files in any encoding, and tables of cells between delimiters: CSV and its relatives."""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from softmatch.data.cells import parse_number, unguarded
from softmatch.data.records import Finding, Piece, refuse_twice
from softmatch.errors import InputError

MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
LONGEST_LINE = 10**9
"""Bytes. A compressed file of a few megabytes can hold a line that takes all memory."""
KEPT = 2**25
"""Characters from the beginning of a file that `Lines` keeps."""
TEXTS = 100_000
"""Texts in memory at a time."""


class Lines:
    """Lines of a file that is opened once: those at its beginning are kept, and given again to whoever iterates again.

    The start of a table is looked at several times before all of it is read. After an iteration beyond what is kept, the
    next one opens the file again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start()

    def _start(self) -> None:
        self._kept, self._size, self._rest, self._failed = list[str](), 0, read_lines(self.path), list[InputError]()

    def __iter__(self) -> Iterator[str]:
        if self._size > KEPT:
            self._start()
        yield from self._kept
        if self._failed:
            raise self._failed[0]
        try:
            for line in self._rest:
                self._kept.append(line)
                self._size += len(line)
                yield line
                if self._size > KEPT:
                    self._kept = []
                    yield from self._rest
        except InputError as error:
            self._failed.append(error)
            raise


class TextLines:
    """A table of one column: a text on every line that is not blank."""

    names: tuple[str, ...] = ("text",)

    def __init__(self, path: Path) -> None:
        self.lines = Lines(path)
        self.findings: list[Finding] = []

    def pieces(self, wanted: Sequence[str], rows: int) -> Iterator[Piece]:
        """Give the texts, up to `rows` at a time."""
        body = (line.rstrip("\r\n") for line in self.lines if line.strip())
        while chunk := list(islice(body, min(rows, TEXTS))):
            yield dict.fromkeys(wanted, chunk)


def read_lines(path: Path) -> Iterator[str]:
    """Give the lines of a text file with their ends, as UTF-8 or as its byte order mark says; `.gz` is decompressed."""
    try:
        with _open(path) as raw:
            start = raw.read(4)
            encoding = next((encoding for mark, encoding in MARKS.items() if start.startswith(mark)), "utf-8")
            raw.seek(0)
            checked = raw if encoding == "utf-16" else cast(BinaryIO, io.BufferedReader(_Checked(raw, path), 1 << 18))
            with io.TextIOWrapper(checked, encoding=encoding, newline="") as text:
                yield from text
    except UnicodeDecodeError as error:
        reason = _first_wrong(path)
        if error.encoding.startswith("utf-16"):
            reason = f"{path} is not UTF-16 throughout, as its byte order mark says ({error})."
        raise InputError(f"{reason} Save the file as UTF-8.") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is damaged: {error}. Compress or copy it again.") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error


class _Checked(io.RawIOBase):
    """Refuses a NUL and an endless line block by block: looking into every line takes longer than reading it."""

    def __init__(self, raw: BinaryIO, path: Path) -> None:
        self.raw, self.path, self.begun = raw, path, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self.raw.read(len(buffer))
        if b"\0" in block:
            raise UnicodeDecodeError("utf-8", block, 0, 1, "NUL")
        end = max(block.rfind(b"\n"), block.rfind(b"\r"))
        self.begun = len(block) - 1 - end if end >= 0 else self.begun + len(block)
        if self.begun > LONGEST_LINE:
            raise InputError(f"{self.path} has a line of more than {LONGEST_LINE // 10**6:,} MB. Is it a text file?")
        buffer[: len(block)] = block
        return len(block)


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix.lower() == ".gz" else path.open("rb")


def _first_wrong(path: Path) -> str:
    """Find the first NUL or byte that is not UTF-8: the decoder's own position counts from the part that it was given."""
    offset = 0
    with _open(path) as raw:
        for number, line in enumerate(raw, 1):
            if b"\0" in line:
                reason = "the file is damaged, not a text file, or UTF-16 without a byte order mark"
                return f"{path}, line {number} holds a NUL: {reason}."
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as found:
                return f"{path}, line {number}: byte {offset + found.start} (0x{line[found.start]:02x}) is not UTF-8."
            offset += len(line)
    return f"{path} is not UTF-8."


DELIMITERS = (",", ";", "\t", "|")
NOTHING = "\x1f"
"""Delimiter of a table of one column: every other one may be in its cells."""
LINE_END = re.compile(r"\r\n|\r|\n")
LONGEST_CELL = 16 * 1024 * 1024
LONGEST_NAME = 300
ADVICE = "Put the names of the columns above it."
SERIES = "If each row is a label and then a series, give --arrays series."
TRIED_ROWS = 1000
CELLS = 500_000
"""Cells in memory at a time."""
ROWS = 250
"""Rows of them as lists: Python's garbage collection looks through all lists again and again, but not through texts."""


class Delimited:
    """A CSV or TSV file whose header has been read. See `records.TableReader`."""

    def __init__(self, path: Path) -> None:
        self.path, self.lines = path, Lines(path)
        self.findings: list[Finding] = []
        self.quoting: Literal[0, 3] = csv.QUOTE_MINIMAL
        self.delimiter = self._find_delimiter()
        self.names = self._header()
        if self.delimiter == "\t" and not self._can_read() and self._can_read(csv.QUOTE_NONE):  # as in many .tsv files
            self.quoting = csv.QUOTE_NONE
            text = f"{path}: quotes in its cells are read as characters; a cell ends at the next tab or line."
            self.findings.append(Finding("note", text))

    def pieces(self, wanted: Sequence[str], rows: int) -> Iterator[Piece]:
        """Give the cells of these columns as text, up to `rows` at a time."""
        positions = {name: position for position, name in enumerate(self.names)}
        get = {name: itemgetter(positions[name]) for name in wanted}
        most = max(1, min(rows, CELLS // len(self.names)))
        piece: dict[str, list[str]] = {name: [] for name in wanted}
        count = 0
        for chunk in self._chunks(min(most, ROWS)):
            if count + len(chunk) > most:
                yield piece
                piece, count = {name: [] for name in wanted}, 0
            for name, cells in piece.items():
                cells.extend(map(unguarded, map(get[name], chunk)))
            count += len(chunk)
        if count:
            yield piece

    def _chunks(self, most: int) -> Iterator[list[list[str]]]:
        """Give the rows after the header, without blank lines."""
        reader = self._reader()
        with _long_cells():
            next(row for row in reader if not _is_blank(row))
        number, more = 0, True
        while more:
            line, failed = reader.line_num, None
            chunk: list[list[str]] = []
            try:
                with _long_cells():
                    chunk.extend(islice(reader, most))
            except csv.Error as error:  # the chunk has the rows before it
                failed = error
            more = bool(chunk)
            if not set(map(len, chunk)) <= {len(self.names)}:
                chunk = self._without_blank(chunk, number, line)
            if failed is not None:
                place = f"row {number + len(chunk) + 1} (line {line + _lines(chunk) + 1})"
                raise InputError(f"{self.path}, {place}: {_explain(failed)}") from failed
            number += len(chunk)
            if chunk:
                yield chunk

    def _without_blank(self, chunk: Sequence[list[str]], number: int, line: int) -> list[list[str]]:
        """Keep the rows of a chunk that comes after `number` rows and `line` lines."""
        kept, width = [], len(self.names)
        for position, row in enumerate(chunk):
            if len(row) == width:
                kept.append(row)
            elif not _is_blank(row):
                place = f"row {number + len(kept) + 1} (line {line + _lines(chunk[:position]) + 1})"
                cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
                mark = {"\t": "a tab", NOTHING: "a line break"}.get(self.delimiter, repr(self.delimiter))
                advice = f"A cell that holds {mark} must be in double quotes."
                raise InputError(f"{self.path}, {place} has {cells}, the header has {width}. {advice}")
        return kept

    def _reader(self) -> Any:
        return csv.reader(self.lines, delimiter=self.delimiter, quoting=self.quoting, strict=True)

    def _find_delimiter(self) -> str:
        """Choose the one that makes most columns of the first line; the tab wins a tie in a .tsv."""
        first = next((line for line in self.lines if line.strip()), None)
        if first is None:
            raise InputError(f"{self.path} is empty: a table has a line with the names of its columns, then its rows.")
        candidates = sorted(DELIMITERS, key=lambda mark: mark != "\t") if ".tsv" in self.path.suffixes else DELIMITERS
        with _long_cells():
            widths = {mark: len(next(csv.reader([first], delimiter=mark))) for mark in candidates}
        best = max(widths, key=lambda mark: widths[mark])
        return best if widths[best] > 1 else NOTHING

    def _header(self) -> tuple[str, ...]:
        try:
            with _long_cells():
                row = next(row for row in self._reader() if not _is_blank(row))
        except csv.Error as error:
            raise InputError(f"{self.path}, header: {_explain(error)}") from error
        except StopIteration as error:
            raise InputError(f"{self.path} has no header: its lines hold only empty cells.") from error
        if max(map(len, row)) > LONGEST_NAME:
            raise InputError(f"{self.path} has no header: its first line holds texts of over {LONGEST_NAME} characters. {ADVICE}")
        if all(parse_number(cell) is not None for cell in row):
            shown = self.delimiter.join(row[:4])
            raise InputError(f"{self.path} has no header: its first line holds numbers ({shown} …). {ADVICE} {SERIES}")
        names = tuple(cell.strip() or f"Unnamed: {position}" for position, cell in enumerate(row))
        refuse_twice(names, str(self.path))
        return names

    def _can_read(self, quoting: Literal[0, 3] = csv.QUOTE_MINIMAL) -> bool:
        """Tell whether the first rows can be read so."""
        before, self.quoting = self.quoting, quoting
        try:
            next(self._chunks(TRIED_ROWS), None)
            return True
        except InputError:
            return False
        finally:
            self.quoting = before


def read_columns(path: Path) -> dict[str, list[str]]:
    """Read all cells of a CSV or TSV as text, by the name of their column."""
    file = Delimited(path)
    pieces = list(file.pieces(file.names, CELLS))
    return {name: [str(cell) for piece in pieces for cell in piece[name]] for name in file.names}


@contextmanager
def _long_cells() -> Iterator[None]:
    """Allow long cells: the csv module refuses those over 128 KiB, and its limit holds for all readers."""
    before = csv.field_size_limit(LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _is_blank(row: Sequence[str]) -> bool:
    return len(row) <= 1 and not "".join(row).strip()


def _lines(rows: Sequence[Sequence[str]]) -> int:
    """Count the lines of the file that rows take."""
    return len(rows) + sum(len(LINE_END.findall(cell)) for row in rows for cell in row)


def _explain(error: csv.Error) -> str:
    said = str(error)
    if "unexpected end of data" in said:
        return "a cell starts with a double quote that is never closed."
    if "expected after" in said:
        return "a quoted cell continues after its closing quote. Within a quoted cell, write a quote twice."
    if "field limit" in said:
        return f"a cell has more than {LONGEST_CELL:,} characters: most likely a double quote is never closed."
    return f"{said}."
