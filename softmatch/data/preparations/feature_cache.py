"""Cache of encoder features on disk: one row for each input, found by its content, so that new labels or files cost nothing."""

import hashlib
import logging
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import numpy as np
import torch
from torch import Tensor

from softmatch.files.cache import cache_folder

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
