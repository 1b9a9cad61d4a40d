"""Caches on disk of what encoders make: features, and activations inside them; found by content, safe to kill while they grow."""

import hashlib
import logging
import shutil
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from softmatch.errors import InputError
from softmatch.files.cache import cache_folder
from softmatch.files.locks import held

_log = logging.getLogger(__name__)
TABLE = "CREATE TABLE IF NOT EXISTS features (content BLOB PRIMARY KEY, numbers BLOB, checksum INTEGER)"
PATIENCE = 60.0
"""Seconds to wait for another process that is writing."""
AT_ONCE = 500
"""Rows that one query asks for."""


class FeatureCache:
    """Features that one maker has made, in a file of its own. Without a usable file, nothing is found and nothing is kept."""

    def __init__(self, maker: str) -> None:
        self.path = cache_folder() / "features" / f"{hashlib.sha256(maker.encode()).hexdigest()[:32]}.sqlite"

    def find(self, contents: Sequence[bytes]) -> dict[bytes, Tensor]:
        """Features (D) of the inputs with these SHA-256 digests, as far as they are known."""
        found = dict[bytes, Tensor]()
        if not self.path.is_file():
            return found
        with self._tolerant(), closing(self._open()) as connection:
            for start in range(0, len(contents), AT_ONCE):
                part = contents[start : start + AT_ONCE]
                marks = ", ".join("?" * len(part))
                for content, numbers, checksum in connection.execute(f"SELECT * FROM features WHERE content IN ({marks})", part):
                    if checksum == zlib.crc32(content + numbers):
                        found[content] = torch.from_numpy(np.frombuffer(numbers, dtype="<f4").copy())
                    else:
                        _log.warning("a damaged row in the cached features of %s is computed again", self.path)
        return found

    def add(self, contents: Sequence[bytes], features: Tensor) -> None:
        """Keep the features (n, D) of the inputs with these digests, all or none."""
        pairs = zip(contents, features.float().contiguous().numpy().astype("<f4"), strict=True)
        rows = [(content, row.tobytes(), zlib.crc32(content + row.tobytes())) for content, row in pairs]
        with self._tolerant(), closing(self._open()) as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO features VALUES (?, ?, ?)", rows)

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level="IMMEDIATE")
        try:
            connection.execute(TABLE)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    @contextmanager
    def _tolerant(self) -> Iterator[None]:
        """End the block with a message if there is a problem with the file. A damaged file is removed."""
        try:
            yield
        except sqlite3.OperationalError as error:  # locked, read-only, full
            _log.info("the cache %s cannot be used (%s): the features are not kept", self.path, error)
        except sqlite3.DatabaseError as error:
            _log.warning("the cached features in %s cannot be used (%s) and are computed again", self.path, error)
            self.path.unlink(missing_ok=True)
        except OSError as error:
            _log.info("the cache %s cannot be written (%s): the features are not kept", self.path.parent, error)


ROW = np.dtype([("content", "u1", 32), ("start", "<u8"), ("number", "<u4"), ("checksum", "<u4")])
"""Entry of the index: SHA-256 digest of an input, first and number of its positions, CRC-32 of their activations."""
MOST_WAIT = 600.0
"""Seconds to wait for another process that is writing."""


class ActivationCache:
    """Activations (T, D) of inputs, as float16, one after the other. New ones are appended: the values first, then the index."""

    def __init__(self, maker: str, width: int) -> None:
        self.folder = cache_folder() / "activations" / hashlib.sha256(f"{maker} {width}".encode()).hexdigest()[:32]
        self.width = width
        self._values, self._index = self.folder / "values.f16", self.folder / "index"
        self._known: dict[bytes, tuple[int, int, int]] | None = None
        self._mapped = self.values()

    def find(self, content: bytes) -> tuple[int, int] | None:
        """First position and number of positions of the input with this SHA-256 digest; None if unknown or damaged."""
        if self._known is None:
            rows = self._rows()
            contents = rows["content"].tobytes()
            places = zip(*(rows[name].tolist() for name in ("start", "number", "checksum")), strict=True)
            self._known = {contents[32 * number : 32 * number + 32]: place for number, place in enumerate(places)}
            self._mapped = self.values()
        if content not in self._known:
            return None
        start, number, checksum = self._known[content]
        return (start, number) if zlib.crc32(self._mapped[start : start + number].tobytes()) == checksum else None

    def __len__(self) -> int:
        return len(self._rows())

    def add(self, contents: Sequence[bytes], activations: Sequence[npt.NDArray[Any]]) -> None:
        """Append the activations (T, D) of inputs with these digests."""
        limit = float(np.finfo(np.float16).max)
        parts = [np.clip(each, -limit, limit).astype("<f2") for each in activations]
        with self._writing():
            rows = self._rows()
            start = int(rows[-1]["start"] + rows[-1]["number"]) if len(rows) else 0
            ends = start + np.cumsum([len(each) for each in parts])
            new = np.zeros(len(parts), ROW)
            new["content"] = np.frombuffer(b"".join(contents), np.uint8).reshape(-1, 32)
            new["number"] = [len(each) for each in parts]
            new["start"] = ends - new["number"]
            new["checksum"] = [zlib.crc32(each.tobytes()) for each in parts]
            for path, size, content in (
                (self._values, start * 2 * self.width, b"".join(each.tobytes() for each in parts)),
                (self._index, len(rows) * ROW.itemsize, new.tobytes()),
            ):
                with path.open("r+b" if path.exists() else "w+b") as file:
                    file.truncate(size)  # what a killed process has left
                    file.seek(size)
                    file.write(content)
        self._known = None

    def values(self) -> npt.NDArray[np.float16]:
        """All activations (P, D), mapped into memory."""
        number = self._values.stat().st_size // (2 * self.width) if self._values.exists() else 0
        if not number:
            return np.zeros((0, self.width), np.float16)
        return np.memmap(self._values, "<f2", "r", shape=(number, self.width))

    def require_space(self, size: int, what: str) -> None:
        """Raise InputError if the disk has no room for this many bytes."""
        there = next(each for each in (self.folder, *self.folder.parents) if each.exists())
        if (free := shutil.disk_usage(there).free) < size:
            raise InputError(
                f"{what} needs {size / 1e9:.1f} GB in {cache_folder()}, where {free / 1e9:.1f} GB are free. Free some space, or "
                "name a folder on another disk in the environment variable SOFTMATCH_CACHE."
            )

    def _rows(self) -> npt.NDArray[Any]:
        """Complete entries of the index whose values are there."""
        if not self._index.exists():
            return np.zeros(0, ROW)
        stored = self._index.read_bytes()
        rows = np.frombuffer(stored[: len(stored) // ROW.itemsize * ROW.itemsize], ROW)
        last = np.searchsorted(rows["start"] + rows["number"], len(self.values()), side="right")
        return rows[:last]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            busy = f"another process has been writing to {self.folder} for {MOST_WAIT / 60:.0f} minutes. Wait for it, or end it."
            with held(self.folder / "lock", MOST_WAIT, busy):
                yield
        except OSError as error:
            raise InputError(
                f"activations cannot be cached in {self.folder}: {error.strerror or error}. Name another folder in the "
                "environment variable SOFTMATCH_CACHE."
            ) from error


def content_of(item: npt.NDArray[Any]) -> bytes:
    """SHA-256 digest of the token ids of a text, or of the pixels of an image."""
    return hashlib.sha256(f"{item.shape} {item.dtype}".encode() + item.tobytes()).digest()
