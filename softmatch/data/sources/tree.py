"""A tree of image files, train/CLASS/*.JPEG and val/CLASS/*.JPEG, as ImageNet is kept on disk: only paths are read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from softmatch.data.examples import Examples
from softmatch.data.image_files import ImageFiles
from softmatch.errors import InputError

SUFFIXES = (".jpeg", ".jpg", ".png")


def read(where: Path, statistics: tuple[tuple[float, ...], tuple[float, ...]]) -> Examples:
    """The classes are the sorted names of the folders in train/; val/ is the test set and must have the same."""
    train = _scan(where, "train")
    classes = tuple(train)
    test = _scan(where, "val")
    for name in (*train, *test):
        if name not in test or name not in train:
            lacking, having = ("val", "train") if name in train else ("train", "val")
            raise InputError(f"{where / lacking} lacks the class {name}, which {where / having} has.")
    return _examples(train, classes, statistics, _examples(test, classes, statistics))


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


def _examples(
    found: Mapping[str, Sequence[Path]],
    classes: tuple[str, ...],
    statistics: tuple[tuple[float, ...], tuple[float, ...]],
    test: Examples | None = None,
) -> Examples:
    paths = [path for name in classes for path in found[name]]
    labels = torch.arange(len(classes)).repeat_interleave(torch.tensor([len(found[name]) for name in classes]))
    return Examples(ImageFiles(paths), labels, classes, "image", test, statistics)
