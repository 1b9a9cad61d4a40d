"""Columns of augmented texts: each different sentence or text is made once, and cached as soon as it is finished."""

import hashlib
import random
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from softmatch.augmenting.makers import Entry, Maker, OwnFunction, parse_via
from softmatch.augmenting.sentences import put_together
from softmatch.errors import InputError, SoftmatchError
from softmatch.files.cache import cache_folder
from softmatch.seeds import derive
from softmatch.views.text_statistics import change_words

TABLE = """CREATE TABLE IF NOT EXISTS versions
    (maker TEXT, original TEXT, version TEXT, checksum INTEGER, PRIMARY KEY (maker, original)) WITHOUT ROWID"""
FIND = "SELECT version, checksum FROM versions WHERE maker = ? AND original = ?"
PATIENCE = 60.0
"""Seconds to wait for another process that is writing."""


@dataclass(frozen=True)
class VersionCache:
    """The versions made by one maker, in a file that all commands share. Originals are kept as digests."""

    maker: str
    connection: sqlite3.Connection

    def find(self, originals: Collection[str]) -> dict[str, str]:
        """Cached versions of these texts."""
        found = dict[str, str]()
        for original in originals:
            digest = _digest(original)
            for version, checksum in self.connection.execute(FIND, (self.maker, digest)):
                if not isinstance(version, str) or checksum != _checksum(digest, version):
                    raise sqlite3.DatabaseError("wrong checksum")
                found[original] = version
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
    advice = "Make room, or set SOFTMATCH_CACHE to another folder; finished texts are kept."
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the cache {path} cannot be written: {error.strerror or error}. {advice}") from error
    try:
        # A rollback journal, unlike a write-ahead log, also works in a folder that several machines share.
        with closing(sqlite3.connect(path, timeout=PATIENCE, isolation_level="IMMEDIATE")) as connection:
            with connection:
                connection.execute("BEGIN IMMEDIATE")  # fails if nothing can be written
                connection.execute(TABLE)
            yield VersionCache(maker, connection)
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorname", "SQLITE_CORRUPT")  # without a code: a wrong checksum, or not UTF-8
        if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR")):  # the last: the table is not ours
            message = f"the cache {path} is damaged: {error}. Delete the file and run the same command again."
            raise InputError(message) from error
        raise SoftmatchError(f"the cache {path} cannot be written: {error}. {advice}") from error


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
    interruption, the same call resumes, and calls in several processes share the work.

    `progress` receives the entry, "sentences" or "texts", and the numbers of them that are done, in total and from the cache.
    """

    via: str | Sequence[str]  # comma-separated entries, one for each column: see docs/augmenting.md
    language: str = "en"  # language of the texts
    temperature: float = 0.9  # sampling temperature of translations, as in UDA (Xie et al. 2020); 0: the models' own search
    seed: int = 0
    batch: int = 32  # number of sentences or texts in a batch
    device: str = "auto"  # device for models: auto, cpu, cuda, cuda:1, mps
    progress: Callable[[str, str, int, int, int], None] = lambda *reported: None
    note: Callable[[str], None] = lambda text: None  # findings about a file or dataset, before anything is made

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature < float("inf"):
            raise InputError(f"--temperature {self.temperature}: it must be 0 or more, such as 0.9.")
        if self.batch < 1:
            raise InputError(f"--batch {self.batch}: it must be at least 1.")
        entries = parse_via(self.via, self.language, sampled=self.temperature > 0)
        self.names = [entry.name for entry in entries]
        self.makers = {entry: self._find_maker(entry) for entry in entries}

    def _find_maker(self, entry: Entry) -> Maker | None:
        """Find the maker of a column; None for words, which need no model."""
        if entry.models is None:
            return None if entry.name == "words" else OwnFunction.find(entry.name)
        from softmatch.augmenting.translation import BackTranslation  # imports torch and transformers

        return BackTranslation.find(*entry.models, self.temperature, derive(self.seed, entry.number), self.batch, self.device)

    def __call__(self, texts: Sequence[str]) -> list[list[str]]:
        """Make a column for each entry, with a version of every text."""
        columns = list[list[str]]()
        for entry, maker in self.makers.items():
            if maker is not None:
                columns.append(self._make(texts, maker, partial(self.progress, entry.name, maker.unit)))
                continue
            self.progress(entry.name, "texts", 0, len(texts), 0)
            columns.append(change_words(texts, derive(self.seed, entry.number)))
            self.progress(entry.name, "texts", len(texts), len(texts), 0)
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
            batches = [batch for batch in batches if any(unit not in made for unit in batch)]
            # Long and short ones are mixed, to estimate the remaining time, in another order in each process that is at work.
            random.Random().shuffle(batches)
            make = maker.load() if batches else None
            report(cached, len(units), cached)
            for batch in batches:
                made |= cache.find(batch)  # another process may have been here
                if make and (missing := [unit for unit in batch if unit not in made]):
                    # NUL and lone surrogates cannot be in a text file.
                    versions = (version.replace("\0", "").encode("utf-8", "replace").decode() for version in make(missing))
                    new = dict(zip(missing, versions, strict=True))
                    cache.add(new)
                    made |= new
                report(len(made), len(units), cached)
        # A text none of whose units has a version has none itself.
        whole = {
            text: put_together(each, made) if len(each) == 1 or any(made[unit].strip() for unit in each[1::2]) else ""
            for text, each in parts.items()
        }
        return [whole[text] for text in texts]
