"""STL-10's binary files: bare bytes, three planes an image, each plane written column by column; labels 1 … 10."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from softmatch.data.sources.originals import File, damaged
from softmatch.data.sources.pieces import Data, Images, Piece, require_range, unlabeled

SHAPE = (3, 96, 96)


def read(files: Mapping[str, File]) -> Data:
    """The labelled images come first, then those that have no label."""
    train = _labeled(files["train_X.bin"], files["train_y.bin"])
    rest = unlabeled(_images(files["unlabeled_X.bin"]), files["unlabeled_X.bin"].name)
    return Data([train, rest], [_labeled(files["test_X.bin"], files["test_y.bin"])])


def _labeled(images: File, labels: File) -> Piece:
    numbers = labels.array().astype(np.int64)
    require_range(numbers, 1, 10, labels.name)
    return Piece(_images(images), numbers - 1, images.name)


def _images(file: File) -> Images:
    content, size = file.array(), SHAPE[0] * SHAPE[1] * SHAPE[2]
    if len(content) % size:
        raise damaged(file.name, f"{len(content):,} bytes are not a whole number of images of {size:,}")
    return content.reshape(-1, *SHAPE).transpose(0, 1, 3, 2)
