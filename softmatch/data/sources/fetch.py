"""Loading of a published image dataset from the user's files, the cache or the hub."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from softmatch.data.examples import Examples
from softmatch.data.pictures import ImageFiles
from softmatch.data.sources import array_cache as cache
from softmatch.data.sources import hub_datasets as hub
from softmatch.data.sources import originals
from softmatch.data.sources.image_datasets import PUBLISHED, Published
from softmatch.data.sources.image_formats import read_npz
from softmatch.data.sources.originals import Images, Labels, checked
from softmatch.errors import InputError
from softmatch.files import cache as files_cache
from softmatch.files.paths import expand_home

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


def _from_hub(dataset: Published) -> cache.Arrays:
    entry = files_cache.entry(dataset.name, dataset.hub.identity())
    return cache.load(entry) or cache.find_verified(dataset.name) or _store_hub(dataset, entry, None)


def _store_hub(dataset: Published, entry: Path, files: hub.Files | None) -> cache.Arrays:
    data = hub.read(dataset.hub, files, dataset.shape, dataset.classes)
    return cache.store(entry, checked(data, dataset.shape, len(dataset.classes)), verified=False)


def _from_files(dataset: Published, where: Path, published: originals.Originals) -> cache.Arrays:
    if where.suffix == ".npz":  # already bytes: a cached copy would hardly be faster
        return cache.in_memory(checked(read_npz(where, dataset.shape), dataset.shape, len(dataset.classes)))
    found = originals.find(where, published)
    if found is not None:
        entry = files_cache.entry(dataset.name, files_cache.identity(found.paths.values()))
        if (cached := cache.load(entry)) is not None:
            return cached
        verified = found.verify()
        return cache.store(entry, checked(found.read(), dataset.shape, len(dataset.classes)), verified)
    files = hub.find_parquet(where, dataset.hub) if where.is_dir() else None
    if files is not None:
        entry = files_cache.entry(dataset.name, [dataset.hub.identity(), files_cache.identity(hub.flat(files))])
        return cache.load(entry) or _store_hub(dataset, entry, files)
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
