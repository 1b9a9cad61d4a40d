"""The lines of a text file of unknown origin: compressed or not, with a byte order mark or without."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from softmatch.errors import InputError

MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}

LONGEST_LINE = 10**9
"""Bytes. A compressed file of a few megabytes can hold a line that takes all memory."""


@contextmanager
def open_lines(path: Path) -> Iterator[TextIO]:
    """A text file as UTF-8 or what its byte order mark says, lines with their ends; `.gz` is unpacked on the way.

    Raises:
        InputError: here or while it is read: for a file that cannot be opened, is damaged, is in another encoding or holds a NUL.
    """
    try:
        with _open(path) as raw:
            encoding = _encoding(raw.read(4))
            raw.seek(0)
            checked = raw if encoding == "utf-16" else cast(BinaryIO, io.BufferedReader(_WithoutNul(raw), 1 << 18))
            with io.TextIOWrapper(checked, encoding=encoding, newline="") as text:
                yield text
    except UnicodeDecodeError as error:
        raise InputError(f"{_undecodable(path, error)} Save the file as UTF-8.") from error
    except _Nul as error:
        raise InputError(
            f"{path}, line {_line_of_nul(path)} holds a NUL: the file is damaged, no text file, or UTF-16 without a byte order "
            "mark. Save it as UTF-8."
        ) from error
    except _Endless as error:
        raise InputError(f"{path} has a line of more than {LONGEST_LINE // 10**6:,} MB: is it a text file at all?") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is damaged: {error}. Compress or copy it anew.") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error


def read_lines(path: Path) -> Iterator[str]:
    """Every line of `open_lines`."""
    with open_lines(path) as text:
        yield from text


class _Nul(Exception):  # noqa: N818  # never leaves this module
    pass


class _Endless(Exception):  # noqa: N818  # never leaves this module
    pass


class _WithoutNul(io.RawIOBase):
    """Refuses a NUL and an endless line a block at a time: to look into every line takes longer than to read it."""

    def __init__(self, raw: BinaryIO) -> None:
        self.raw, self.begun = raw, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self.raw.read(len(buffer))
        if b"\0" in block:
            raise _Nul
        end = max(block.rfind(b"\n"), block.rfind(b"\r"))
        self.begun = len(block) - 1 - end if end >= 0 else self.begun + len(block)
        if self.begun > LONGEST_LINE:
            raise _Endless
        buffer[: len(block)] = block
        return len(block)


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix.lower() == ".gz" else path.open("rb")


def _encoding(start: bytes) -> str:
    return next((encoding for mark, encoding in MARKS.items() if start.startswith(mark)), "utf-8")


def _line_of_nul(path: Path) -> int:
    with _open(path) as raw:
        return next(number for number, line in enumerate(raw, 1) if b"\0" in line)


def _undecodable(path: Path, error: UnicodeDecodeError) -> str:
    """Where the file stops being text: the decoder's own position counts from the part that it was given."""
    if error.encoding.startswith("utf-16"):
        return f"{path} is not UTF-16 throughout, as its byte order mark says ({error.reason})."
    offset = 0
    with _open(path) as raw:
        for number, line in enumerate(raw, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as found:
                return f"{path}, line {number}: byte {offset + found.start} (0x{line[found.start]:02x}) is not UTF-8."
            offset += len(line)
    return f"{path} is not UTF-8 ({error.reason})."
