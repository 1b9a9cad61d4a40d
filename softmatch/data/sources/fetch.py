"""Loading of a published image dataset from the user's files or the hub, through a cache of .npy files, mapped into memory."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import torch

from softmatch.data.examples import Examples
from softmatch.data.pictures import ImageFiles
from softmatch.data.readers.array_files import FAILURES
from softmatch.data.sources import hub_datasets as hub
from softmatch.data.sources import originals
from softmatch.data.sources.image_datasets import PUBLISHED, Published
from softmatch.data.sources.image_formats import read_npz
from softmatch.data.sources.originals import Data, Images, Labels, Piece, checked, chunks, join_images, join_labels
from softmatch.errors import InputError
from softmatch.files import cache as files_cache
from softmatch.files.cache import FORMAT, cache_folder, replacing
from softmatch.files.paths import expand_home
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
        if _read_notes(path).get("verified") is True and (found := load_entry(path)) is not None:
            return found
    return None


def load_entry(path: Path) -> Arrays | None:
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


def store_entry(path: Path, data: Data, verified: bool) -> Arrays:
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
    return load_entry(path) or in_memory(data)


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


SUFFIXES = (".jpeg", ".jpg", ".png")


def read_tree(where: Path, statistics: tuple[tuple[float, ...], tuple[float, ...]]) -> Examples:
    """The classes are the sorted names of the folders in train/; val/ is the test set and must have the same."""
    train, test = _scan(where, "train"), _scan(where, "val")
    for name in (*train, *test):
        if name not in test or name not in train:
            lacking, having = ("val", "train") if name in train else ("train", "val")
            raise InputError(f"{where / lacking} lacks the class {name}, which {where / having} has.")
    return _tree_examples(train, statistics, _tree_examples(test, statistics))


def _scan(where: Path, part: str) -> dict[str, list[Path]]:
    """The images of each class; a folder without any is an error."""
    expected = f"expected {where / part}/CLASS/*.JPEG (for ImageNet, CLASS is a WordNet id such as n01440764)"
    try:
        names = sorted(entry.name for entry in os.scandir(where / part) if entry.is_dir())
    except OSError as error:
        raise InputError(f"{where / part} cannot be read: {error.strerror or error}; {expected}.") from error
    if not names:
        raise InputError(f"{where / part} has no folders, one for each class: {expected}.")
    return {name: _images(where / part / name) for name in names}


def _images(folder: Path) -> list[Path]:
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.lower().endswith(SUFFIXES))
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror or error}.") from error
    if not names:
        raise InputError(f"{folder} has no images ({', '.join(SUFFIXES)}).")
    return [folder / name for name in names]


def _tree_examples(
    found: Mapping[str, Sequence[Path]], statistics: tuple[tuple[float, ...], tuple[float, ...]], test: Examples | None = None
) -> Examples:
    classes = tuple(sorted(found))
    paths = [path for name in classes for path in found[name]]
    labels = torch.arange(len(classes)).repeat_interleave(torch.tensor([len(found[name]) for name in classes]))
    return Examples(ImageFiles(paths), labels, classes, "image", test, statistics)


def load(name: str, seed: int, where: Path | None = None) -> Examples:
    """Load the dataset of that name; the data are fixed, so the seed is not used.

    Args:
        where: a folder with the dataset's own files or a local copy of its hub repository, the archive, or an .npz.
            None: the cache, then the hub.
    """
    dataset = PUBLISHED[name]
    try:
        if where is not None and not expand_home(where).exists():
            raise InputError(f"--data {where}: there is no such file or folder.")
        return _load(dataset, expand_home(where) if where is not None else None)
    except OSError as error:
        raise InputError(f"{error.filename or where} cannot be read: {error.strerror or error}.") from error


def _load(dataset: Published, where: Path | None) -> Examples:
    if dataset.originals is None:
        return _load_tree(dataset, where)
    arrays = _from_hub(dataset) if where is None else _from_files(dataset, where, dataset.originals)
    test = _examples(dataset, arrays.test_images, arrays.test_labels)
    return _examples(dataset, arrays.train_images, arrays.train_labels, test)


def _from_hub(dataset: Published) -> Arrays:
    entry = files_cache.entry(dataset.name, dataset.hub.identity())
    return load_entry(entry) or find_verified(dataset.name) or _store_hub(dataset, entry, None)


def _store_hub(dataset: Published, entry: Path, files: hub.Files | None) -> Arrays:
    data = hub.read(dataset.hub, files, dataset.shape, dataset.classes)
    return store_entry(entry, checked(data, dataset.shape, len(dataset.classes)), verified=False)


def _from_files(dataset: Published, where: Path, published: originals.Originals) -> Arrays:
    if where.suffix == ".npz":  # already bytes: a cached copy would hardly be faster
        return in_memory(checked(read_npz(where, dataset.shape), dataset.shape, len(dataset.classes)))
    found = originals.find(where, published)
    if found is not None:
        entry = files_cache.entry(dataset.name, files_cache.identity(found.paths.values()))
        if (cached := load_entry(entry)) is not None:
            return cached
        verified = found.verify()
        return store_entry(entry, checked(found.read(), dataset.shape, len(dataset.classes)), verified)
    files = hub.find_parquet(where, dataset.hub) if where.is_dir() else None
    if files is not None:
        entry = files_cache.entry(dataset.name, [dataset.hub.identity(), files_cache.identity(hub.flat(files))])
        return load_entry(entry) or _store_hub(dataset, entry, files)
    raise _nothing_found(dataset, where, published)


def _load_tree(dataset: Published, where: Path | None) -> Examples:
    """ImageNet: a tree on disk as it is; a hub copy is unpacked into a tree in the cache, once."""
    statistics = (dataset.mean, dataset.std)
    files = None
    if where is not None:
        files = None if (where / "val").is_dir() else hub.find_parquet(where, dataset.hub)
        if files is None:
            return read_tree(where, statistics)
    identity = dataset.hub.identity() if files is None else [dataset.hub.identity(), files_cache.identity(hub.flat(files))]
    target = files_cache.entry(dataset.name, identity)
    if not target.is_dir():
        try:
            with files_cache.replacing(target) as scratch:
                hub.write_tree(dataset.hub, files, scratch)
        except OSError as error:
            raise InputError(f"{target} cannot be written: {error.strerror or error}. Set SOFTMATCH_CACHE.") from error
    return read_tree(target, statistics)


def _nothing_found(dataset: Published, where: Path, published: originals.Originals) -> InputError:
    wanted = ", ".join(published.files)
    archive = f", in the archive {published.archive[0]}" if published.archive else ""
    expected = f"Expected a folder with {wanted}{archive}, the parquet files of {dataset.hub.id}, or an .npz"
    if where.is_file():
        return InputError(f"--data {where} is none of the files of {dataset.name}. {expected}.")
    held = sorted(path.name for path in where.iterdir())
    some = ", ".join(held[:6]) + (" …" if len(held) > 6 else "")
    return InputError(f"--data {where} has no files of {dataset.name}; it holds {some or 'nothing'}. {expected}.")


def _examples(dataset: Published, images: Images, labels: Labels, test: Examples | None = None) -> Examples:
    statistics = (dataset.mean, dataset.std)
    return Examples(torch.from_numpy(images), torch.from_numpy(labels), dataset.classes, "image", test, statistics)
