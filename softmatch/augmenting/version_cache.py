"""SQLite cache of augmented texts, keyed by maker and content: nothing is made twice, and an interruption loses nothing."""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from softmatch.errors import InputError, SoftmatchError
from softmatch.files.cache import cache_folder

TABLE = """CREATE TABLE IF NOT EXISTS versions
    (maker TEXT, original TEXT, version TEXT, checksum INTEGER, PRIMARY KEY (maker, original)) WITHOUT ROWID"""
PATIENCE = 60.0
"""Seconds to wait for another process that is writing."""


@dataclass(frozen=True)
class VersionCache:
    """The versions made by one maker, in a file that all commands share. Originals are kept as digests."""

    path: Path
    maker: str
    connection: sqlite3.Connection

    def find(self, originals: Collection[str]) -> dict[str, str]:
        """Cached versions of these texts."""
        wanted, found = {_digest(original): original for original in originals}, dict[str, str]()
        rows = self.connection.execute("SELECT original, version, checksum FROM versions WHERE maker = ?", (self.maker,))
        for digest, version, checksum in rows:
            if not isinstance(version, str) or checksum != _checksum(digest, version):
                raise _damaged(self.path, "wrong checksum")
            if digest in wanted:
                found[wanted[digest]] = version
        return found

    def add(self, made: Mapping[str, str]) -> None:
        """Write new versions to disk in one transaction. A version that is already there stays."""
        pairs = [(_digest(original), version) for original, version in made.items()]
        rows = [(self.maker, digest, version, _checksum(digest, version)) for digest, version in pairs]
        with self.connection:
            self.connection.executemany("INSERT OR IGNORE INTO versions VALUES (?, ?, ?, ?)", rows)


@contextmanager
def open_cache(maker: str) -> Iterator[VersionCache]:
    """Open the cache for the maker with this fingerprint. Errors of SQLite, in the block too, become messages for the user."""
    path = cache_folder() / "augmented" / "versions.sqlite"
    unwritable = (
        "the cache {} cannot be written: {}. Make room, or set SOFTMATCH_CACHE to another folder; finished texts are kept."
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(unwritable.format(path, error.strerror or error)) from error
    try:
        # A rollback journal, unlike a write-ahead log, also works in a folder that several machines share.
        with closing(sqlite3.connect(path, timeout=PATIENCE, isolation_level="IMMEDIATE")) as connection:
            with connection:
                connection.execute("BEGIN IMMEDIATE")  # fails if nothing can be written
                connection.execute(TABLE)
            yield VersionCache(path, maker, connection)
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorname", "SQLITE_CORRUPT")  # without a code: text that is not UTF-8
        if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR")):  # the last: the table is not ours
            raise _damaged(path, str(error)) from error
        raise SoftmatchError(unwritable.format(path, error)) from error


def _damaged(path: Path, reason: str) -> InputError:
    return InputError(f"the cache {path} is damaged: {reason}. Delete the file and run the same command again.")


def _digest(original: str) -> str:
    return hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()


def _checksum(digest: str, version: str) -> int:
    return zlib.crc32(f"{digest}{version}".encode())
