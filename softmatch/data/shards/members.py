"""Samples inside tar shards: an index of each shard on disk, and the bytes of any sample by its position alone."""

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from softmatch.data.shards.remote import File, on_disk
from softmatch.files.cache import entry

KEPT = 64
"""Shards whose file and index a process keeps open: those that were used last."""
TRIES = 3
ROW = np.dtype([("offset", "<i8"), ("size", "<i4"), ("label", "<i4")])
"""A sample in the index of a shard; the label is a position in the labels of the shard, −1: none."""


class Member(NamedTuple):
    """The bytes of a sample inside a shard."""

    shard: File
    offset: int
    size: int

    def read(self) -> bytes:
        """Read them; a remote shard is fetched into the cache first.

        Raises:
            OSError: the shard is not there, or shorter than it was.
        """
        handle = _handle(self.shard)
        content = os.pread(handle.number, self.size, self.offset)
        if len(content) != self.size:
            raise OSError(f"the shard has become shorter than {self.offset + self.size:,} bytes")
        return content

    def __str__(self) -> str:
        return f"{self.shard.place}, byte {self.offset:,}"


class _Handle:
    """An open file, which is closed when nobody uses it any more: threads share those that were opened last."""

    def __init__(self, path: Path) -> None:
        self.number = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)


@lru_cache(maxsize=KEPT)
def _handle(shard: File) -> _Handle:
    for _ in range(TRIES):
        with suppress(FileNotFoundError):  # another process may have made room for its own shards just now
            return _Handle(on_disk(shard))
    return _Handle(on_disk(shard))


def index_folder(shard: File) -> Path:
    """Folder of the index of a shard; see `tar_index`."""
    return entry("shards/index", shard.identity)


@lru_cache(maxsize=KEPT)
def _rows(shard: File) -> npt.NDArray[np.void]:
    return read_rows(shard)


def read_rows(shard: File) -> npt.NDArray[np.void]:
    """Read the place and label of every sample of a shard, in order."""
    return np.fromfile(index_folder(shard) / "members.bin", dtype=ROW)


class Members(Sequence[Member]):
    """All samples of some shards, in order. In memory are a few numbers for each shard, and the indexes used last."""

    def __init__(self, shards: Sequence[File], counts: Sequence[int]) -> None:
        self.shards, self.counts = tuple(shards), np.asarray(counts, dtype=np.int64)
        self.stops = self.counts.cumsum()

    def __len__(self) -> int:
        return int(self.stops[-1]) if len(self.stops) else 0

    def __getitem__(self, position: int) -> Member:  # type: ignore[override]  # no slices
        if not 0 <= position < len(self):
            raise IndexError(position)
        number = int(np.searchsorted(self.stops, position, "right"))
        shard = self.shards[number]
        row = _rows(shard)[position - int(self.stops[number] - self.counts[number])]
        return Member(shard, int(row["offset"]), int(row["size"]))
