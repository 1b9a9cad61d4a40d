"""Columns of augmented texts: each different sentence or text is made once, and cached as soon as it is finished."""

from __future__ import annotations

import hashlib
import random
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from softmatch.augmenting.makers import Entry, Maker, OwnFunction, parse_via
from softmatch.augmenting.sentences import Parts, put_together
from softmatch.augmenting.worker_pool import make_batches
from softmatch.errors import InputError, SoftmatchError
from softmatch.files.cache import cache_folder
from softmatch.seeds import derive
from softmatch.views.text_statistics import change_words

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


def augment_texts(texts: Sequence[str], via: str | Sequence[str], **options: Any) -> list[list[str]]:
    """Make a column for each entry of `via`, with a version of every text; the options are those of `Augmenter`."""
    return Augmenter(via, **options)(texts)


@dataclass
class Augmenter:
    """Makes columns of augmented texts; raises InputError for anything that cannot work, before any version is made.

    A version is empty if its text is, or if nothing could be made of it. Versions are cached at once by content: after an
    interruption, the same call resumes. In a program of your own, several processes need the usual
    `if __name__ == "__main__":` around the call.
    """

    via: str | Sequence[str]  # comma-separated entries, one for each column: see docs/augmenting.md
    language: str = "en"  # language of the texts
    temperature: float = 0.9  # sampling temperature of translations, as in UDA (Xie et al. 2020); 0: the models' own search
    seed: int = 0
    batch: int = 32  # number of sentences or texts in a batch
    device: str = "auto"  # device for models: auto, cpu, cuda, cuda:1, mps
    processes: int = 1  # number of worker processes; each loads its own copy of the models
    progress: Callable[[str, str, int, int, int], None] = lambda *reported: (
        None
    )  # entry, "sentences" or "texts", done, total, cached
    note: Callable[[str], None] = lambda text: None  # findings about a file or dataset, before anything is made

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature < float("inf"):
            raise InputError(f"--temperature {self.temperature}: it must be 0 or more, such as 0.9.")
        for name, number in (("--batch", self.batch), ("--processes", self.processes)):
            if number < 1:
                raise InputError(f"{name} {number}: it must be at least 1.")
        entries = parse_via(self.via, self.language, sampled=self.temperature > 0)
        self.names = [entry.name for entry in entries]
        self.makers = {entry: self._find_maker(entry) for entry in entries}

    def _find_maker(self, entry: Entry) -> Maker | None:
        """Find the maker of a column; None for words, which need no model."""
        if entry.kind == "words":
            return None
        if entry.kind == "function":
            return OwnFunction.find(entry.name)
        from softmatch.augmenting.translation import BackTranslation  # imports torch and transformers

        return BackTranslation.find(*entry.models, self.temperature, derive(self.seed, entry.number), self.batch, self.device)

    def __call__(self, texts: Sequence[str]) -> list[list[str]]:
        """Make a column for each entry, with a version of every text."""
        columns = list[list[str]]()
        for entry, maker in self.makers.items():
            report = partial(self.progress, entry.name, "texts" if maker is None else maker.unit)
            if maker is not None:
                columns.append(self._make(texts, maker, report))
                continue
            report(0, len(texts), 0)
            columns.append(change_words(texts, derive(self.seed, entry.number)))
            report(len(texts), len(texts), 0)
        return columns

    def _make(self, texts: Sequence[str], maker: Maker, report: Callable[[int, int, int], None]) -> list[str]:
        """Make a column from cached and new versions.

        Batches are formed by length from all units, cached or not, so that a resumed run translates a unit in the same batch.
        """
        parts = {text: maker.split(text) for text in dict.fromkeys(texts)}
        units = sorted(set(chain.from_iterable(each[1::2] for each in parts.values())), key=lambda unit: (len(unit), unit))
        with open_cache(maker.fingerprint) as cache:
            made = cache.find(units)
            cached = len(made)
            batches = [units[start : start + self.batch] for start in range(0, len(units), self.batch)]
            left = [missing for each in batches if (missing := [unit for unit in each if unit not in made])]
            random.Random(0).shuffle(left)  # long and short ones mixed, to estimate the remaining time
            report(cached, len(units), cached)
            with closing(make_batches(maker, left, self.processes)) as finished:
                for batch, versions in finished:
                    new = dict(zip(batch, map(_writable, versions), strict=True))
                    cache.add(new)
                    made |= new
                    report(len(made), len(units), cached)
        whole = {text: put_together(each, made) if _has_version(each, made) else "" for text, each in parts.items()}
        return [whole[text] for text in texts]


def _has_version(parts: Parts, made: Mapping[str, str]) -> bool:
    """Return whether a unit of a text has a version, or the text has no units."""
    return len(parts) == 1 or any(made[unit].strip() for unit in parts[1::2])


def _writable(text: str) -> str:
    """Remove what no text file can hold: NUL and lone surrogates."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
