"""Loading of a published image dataset from the user's files or the hub, through a cache of .npy files, mapped into memory."""

import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from softmatch.data.examples import Examples
from softmatch.data.pictures import ImageFiles
from softmatch.data.readers.array_files import FAILURES
from softmatch.data.sources import hub_datasets as hub
from softmatch.data.sources import originals
from softmatch.data.sources.image_datasets import PUBLISHED, Published
from softmatch.data.sources.originals import Data, Images, Labels, Piece, checked, chunks, join_images, join_labels, read_npz
from softmatch.errors import InputError
from softmatch.files import cache as files_cache
from softmatch.files.paths import expand_home
from softmatch.formatting import quoted

VERIFIED = "verified"
"""Name of an empty file in the cached copy of files with the published checksums: it serves runs without --data, too."""
SUFFIXES = (".jpeg", ".jpg", ".png")

_log = logging.getLogger(__name__)


class Arrays(NamedTuple):
    """A whole dataset: uint8 images (N, C, H, W), int64 labels."""

    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels


def load_entry(path: Path) -> Arrays | None:
    """Map the data of an entry from disk, copy-on-write; None where there are none, or they are damaged."""
    if not path.is_dir():
        return None
    try:
        return Arrays(*(np.load(path / f"{part}.npy", mmap_mode="c", allow_pickle=False) for part in Arrays._fields))
    except FAILURES as error:
        _log.warning("the cached data in %s are damaged (%s) and are made again", path, error)
        shutil.rmtree(path, ignore_errors=True)
        return None


def store_entry(path: Path, data: Data, verified: bool) -> Arrays:
    """Write an entry and map it; where it cannot be written, give the same data in memory."""
    try:
        with files_cache.replacing(path) as scratch:
            for name, pieces in (("train", data.train), ("test", data.test)):
                _write_images(scratch / f"{name}_images.npy", pieces)
                np.save(scratch / f"{name}_labels.npy", join_labels(pieces))
            if verified:
                (scratch / VERIFIED).touch()
    except OSError as error:
        _log.info("the cache %s cannot be written (%s): the data stay in memory", path, error)
    return load_entry(path) or in_memory(data)


def in_memory(data: Data) -> Arrays:
    """Join the pieces of a dataset."""
    return Arrays(join_images(data.train), join_labels(data.train), join_images(data.test), join_labels(data.test))


def _write_images(path: Path, pieces: Sequence[Piece]) -> None:
    """An .npy file, written chunk by chunk; a full disk is an OSError (it would kill a process that wrote into a map)."""
    shape = (sum(len(piece.images) for piece in pieces), *pieces[0].images.shape[1:])
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": shape})
        for chunk in chunks(pieces):
            stream.write(chunk.data)
        stream.flush()
        os.fsync(stream.fileno())  # the entry is only renamed to its place when its pixels are on the disk


def read_tree(where: Path, statistics: tuple[tuple[float, ...], tuple[float, ...]]) -> Examples:
    """The classes are the sorted names of the folders in train/; val/ is the test set and must have the same."""
    found = {part: _scan(where, part) for part in ("train", "val")}
    for having, lacking in (("train", "val"), ("val", "train")):
        if missing := sorted(found[having].keys() - found[lacking].keys()):
            raise InputError(f"{where / lacking} lacks the class {missing[0]}, which {where / having} has.")

    def examples(classes: Mapping[str, Sequence[Path]], test: Examples | None = None) -> Examples:
        labels = torch.arange(len(classes)).repeat_interleave(torch.tensor([len(paths) for paths in classes.values()]))
        files = ImageFiles([path for paths in classes.values() for path in paths])
        return Examples(files, labels, tuple(classes), "image", test, statistics)

    return examples(found["train"], examples(found["val"]))


def _scan(where: Path, part: str) -> dict[str, list[Path]]:
    """The images of each class; a folder without any is an error."""
    expected = f"expected {where / part}/CLASS/*.JPEG (for ImageNet, CLASS is a WordNet id such as n01440764)"
    try:
        names = sorted(entry.name for entry in os.scandir(where / part) if entry.is_dir())
    except OSError as error:
        raise InputError(f"{where / part} cannot be read: {error.strerror or error}; {expected}.") from error
    if not names:
        raise InputError(f"{where / part} has no folders, one for each class: {expected}.")
    found = {}
    for name in names:
        folder = where / part / name
        found[name] = sorted(path for path in folder.iterdir() if path.name.lower().endswith(SUFFIXES))
        if not found[name]:
            raise InputError(f"{folder} has no images ({', '.join(SUFFIXES)}).")
    return found


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
        where = expand_home(where) if where is not None else None
        if dataset.originals is None:
            return _load_tree(dataset, where)
        arrays = _from_hub(dataset, None) if where is None else _from_files(dataset, where, dataset.originals)
    except OSError as error:
        raise InputError(f"{error.filename or where} cannot be read: {error.strerror or error}.") from error
    test = _examples(dataset, arrays.test_images, arrays.test_labels)
    return _examples(dataset, arrays.train_images, arrays.train_labels, test)


def _examples(dataset: Published, images: Images, labels: Labels, test: Examples | None = None) -> Examples:
    statistics = (dataset.mean, dataset.std)
    return Examples(torch.from_numpy(images), torch.from_numpy(labels), dataset.classes, "image", test, statistics)


def _entry(dataset: Published, files: hub.Files | None) -> Path:
    """Find the place in the cache of what is on the hub, or in a local copy of its parquet files."""
    identity: list[Any] = dataset.hub.identity()
    return files_cache.entry(dataset.name, identity if files is None else [identity, files_cache.identity(hub.flat(files))])


def _from_hub(dataset: Published, files: hub.Files | None) -> Arrays:
    entry = _entry(dataset, files)
    verified = files_cache.cache_folder().glob(f"{dataset.name}-{'?' * 16}/{VERIFIED}") if files is None else ()
    for path in (entry, *sorted(each.parent for each in verified)):
        if (cached := load_entry(path)) is not None:
            return cached
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
        return _from_hub(dataset, files)
    archive = f", in the archive {published.archive[0]}" if published.archive else ""
    wanted = f"Expected a folder with {', '.join(published.files)}{archive}, the parquet files of {dataset.hub.id}, or an .npz."
    if where.is_file():
        raise InputError(f"--data {where} is none of the files of {dataset.name}. {wanted}")
    held = quoted(sorted(path.name for path in where.iterdir())) or "nothing"
    raise InputError(f"--data {where} has no files of {dataset.name}; it holds {held}. {wanted}")


def _load_tree(dataset: Published, where: Path | None) -> Examples:
    """ImageNet: a tree on disk as it is; a hub copy is unpacked into a tree in the cache, once."""
    files = None if where is None or (where / "val").is_dir() else hub.find_parquet(where, dataset.hub)
    if where is None or files is not None:
        where = _entry(dataset, files)
        if not where.is_dir():
            try:
                with files_cache.replacing(where) as scratch:
                    hub.write_tree(dataset.hub, files, scratch)
            except OSError as error:
                raise InputError(f"{where} cannot be written: {error.strerror or error}. Set SOFTMATCH_CACHE.") from error
    return read_tree(where, (dataset.mean, dataset.std))
