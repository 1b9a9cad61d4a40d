"""What was made before, by what and of what: so that nothing is made twice, in whatever file it stands, and nothing is lost.

Every maker has a folder, every command that adds something a file of its own in it: two commands at once do not meet, and one
that is killed leaves at most half a line, which is not read. A line is a JSON list: sha256 of the original, what was made of it,
and a checksum of both.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from softmatch.augmenting.probing import probe
from softmatch.errors import InputError, SoftmatchError
from softmatch.files.cache import cache_folder as folder

__all__ = ["Cache"]

_log = logging.getLogger(__name__)


class Cache:
    """The folder of a maker. As a context, it closes the file that it writes.

    Args:
        maker: fingerprint of what makes new texts, with all its settings.
    """

    def __init__(self, maker: str) -> None:
        self.folder = folder() / "augmented" / maker[:32]
        self._file: IO[str] | None = None
        self.added = 0

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close()

    def find(self, originals: Collection[str]) -> dict[str, str]:
        """What was made of these before. A damaged line is as if it were not there."""
        wanted = {_digest(original): original for original in originals}
        found, damaged = dict[str, str](), 0
        for path in sorted(self.folder.glob("*.jsonl")) if wanted else ():
            for line in _lines(path):
                entry = _read(line)
                if entry is None:
                    damaged += 1
                elif entry[0] in wanted:
                    original = wanted[entry[0]]  # of two commands at once, both may have made it: the choice must stay the same
                    found[original] = min(entry[1], found.get(original, entry[1]))
        if damaged:
            _log.info("%d lines of the cache %s are damaged: what they held is made again", damaged, self.folder)
        return found

    def add(self, made: Mapping[str, str]) -> None:
        """Keep what was made, at once.

        Raises:
            SoftmatchError: it cannot be written, as on a full disk.
        """
        lines = []
        for original, new in made.items():
            digest = _digest(original)
            lines.append(json.dumps([digest, new, _checksum(digest, new)]) + "\n")
        try:
            if self._file is None:
                self._file = (self.folder / f"{secrets.token_hex(8)}.jsonl").open("x", encoding="ascii")
            self._file.writelines(lines)
            self._file.flush()
        except OSError as error:
            self._close()
            raise SoftmatchError(
                f"the cache {self.folder} cannot be written: {error.strerror or error}. What was made until then is kept: make "
                "room and start the same command again."
            ) from error
        self.added += len(made)

    def _close(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # of what could not be written before either
                self._file.close()
            self._file = None

    def prepare(self) -> None:
        """Make the folder, before anything takes time.

        Raises:
            InputError: it cannot be made or written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe(self.folder)
        except OSError as error:
            raise InputError(
                f"the cache {self.folder} cannot be written: {error.strerror or error}. Set SOFTMATCH_CACHE to a folder that can."
            ) from error


def _digest(original: str) -> str:
    return hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()


def _checksum(digest: str, made: str) -> int:
    return zlib.crc32(digest.encode() + made.encode("utf-8", "surrogatepass"))


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            yield from file
    except OSError as error:
        _log.info("the cache %s cannot be read (%s): what it held is made again", path, error)


def _read(line: str) -> tuple[str, str] | None:
    """Digest and text of a line that is as it was written."""
    try:
        digest, made, checksum = json.loads(line)
        whole = isinstance(made, str) and isinstance(digest, str) and checksum == _checksum(digest, made)
    except (ValueError, TypeError, RecursionError):
        return None
    return (digest, made) if whole else None
