"""Datasets as uint8 .npy files, ready to be mapped into memory: made once, checked at every use, made again if damaged."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from softmatch.data.readers.array_files import FAILURES
from softmatch.data.sources.originals import Data, Images, Labels, Piece, chunks, join_images, join_labels
from softmatch.errors import InputError
from softmatch.files.cache import FORMAT, cache_folder, replacing
from softmatch.files.untrusted import parse_json, read_text

BLOCK, BLOCKS = 4096, 256

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Arrays:
    """A whole dataset: uint8 images (N, C, H, W), int64 labels."""

    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels


def find_verified(name: str) -> Arrays | None:
    """Find a cached copy that was made of files with the published checksums."""
    for path in sorted(cache_folder().glob(f"{name}-{'?' * 16}")):
        if _read_notes(path).get("verified") is True and (found := load(path)) is not None:
            return found
    return None


def load(path: Path) -> Arrays | None:
    """Map the data of an entry from disk; None where there are none, or they are damaged."""
    if not path.is_dir():
        return None
    try:
        notes = _read_notes(path).get("files")
        if not isinstance(notes, dict):
            raise ValueError("cache.json is missing or cannot be read")
        return Arrays(*(_map(path / f"{part}.npy", notes.get(part)) for part in Arrays.__dataclass_fields__))
    except (OSError, ValueError) as error:
        _log.warning("the cached data in %s are damaged (%s) and are made again", path, error)
        _discard(path)
        return None


def store(path: Path, data: Data, verified: bool) -> Arrays:
    """Write an entry and map it; where it cannot be written, give the same data in memory."""
    try:
        with replacing(path) as scratch:
            for name, pieces in (("train", data.train), ("test", data.test)):
                _write_images(scratch / f"{name}_images.npy", pieces)
                np.save(scratch / f"{name}_labels.npy", join_labels(pieces))
            files = {part: _describe(scratch / f"{part}.npy") for part in Arrays.__dataclass_fields__}
            notes = {"format": FORMAT, "verified": verified, "files": files}
            (scratch / "cache.json").write_text(json.dumps(notes, indent=1), encoding="utf-8")
    except OSError as error:
        _log.info("the cache %s cannot be written (%s): the data stay in memory", path, error)
    return load(path) or in_memory(data)


def in_memory(data: Data) -> Arrays:
    """Join the pieces of a dataset."""
    return Arrays(join_images(data.train), join_labels(data.train), join_images(data.test), join_labels(data.test))


def _discard(path: Path) -> None:
    with suppress(OSError):
        scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        try:
            path.rename(scratch / "old")
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _read_notes(path: Path) -> dict[str, Any]:
    try:
        notes = parse_json(read_text(path / "cache.json"), path)
    except InputError:
        return {}
    return notes if isinstance(notes, dict) else {}


def _write_images(path: Path, pieces: Sequence[Piece]) -> None:
    """An .npy file, written chunk by chunk; a full disk is an OSError (it would kill a process that wrote into a map)."""
    shape = (sum(len(piece.images) for piece in pieces), *pieces[0].images.shape[1:])
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": shape})
        for chunk in chunks(pieces):
            stream.write(chunk.data)


def _describe(path: Path) -> dict[str, Any]:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    with path.open("rb") as stream:
        fingerprint = _fingerprint(stream, path.stat().st_size)
    return {"shape": list(array.shape), "dtype": str(array.dtype), "bytes": path.stat().st_size, "fingerprint": fingerprint}


def _fingerprint(stream: BinaryIO, size: int) -> str:
    """sha256 of 256 blocks spread evenly over the file, all of a file up to 1 MB: quick, and enough for lost or zeroed pages."""
    digest = hashlib.sha256()
    for number in range(BLOCKS):
        stream.seek(max(size - BLOCK, 0) * number // (BLOCKS - 1))
        digest.update(stream.read(BLOCK))
    return digest.hexdigest()


def _map(path: Path, noted: object) -> npt.NDArray[Any]:
    """The array of a file that is as it was noted; mapped copy-on-write, which torch can share without a warning."""
    try:
        found = _describe(path)
    except FAILURES as error:
        raise ValueError(f"{path.name} cannot be read") from error
    if found != noted:
        raise ValueError(f"{path.name} is not as it was written")
    array: npt.NDArray[Any] = np.load(path, mmap_mode="c", allow_pickle=False)
    return array
