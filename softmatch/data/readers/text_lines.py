"""Lines of a text file of unknown origin: compressed or not, with a byte order mark or without."""

import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from softmatch.data.records import Finding, Piece
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
    """Give the lines of a text file with their ends, as UTF-8 or as its byte order mark says; `.gz` is decompressed.

    Raises:
        InputError: the file cannot be opened, is damaged, is in another encoding or holds a NUL.
    """
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
