"""What every reader of a published dataset gives: pieces of uint8 images with their labels, checked in one place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from softmatch.data.examples import UNLABELED
from softmatch.errors import InputError

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]

CHUNK = 4096


@dataclass(frozen=True)
class Piece:
    """Images with their labels, as one file gave them.

    Attributes:
        images: (n, C, H, W), with any strides: most are a view of the file's own layout.
        labels: (n,), every one −1 where the piece has no labels.
        name: the file, for messages.
    """

    images: Images
    labels: Labels
    name: str


@dataclass(frozen=True)
class Data:
    """The pieces of a dataset, in the order of its samples."""

    train: Sequence[Piece]
    test: Sequence[Piece]


def unlabeled(images: Images, name: str) -> Piece:
    """A piece without labels."""
    return Piece(images, np.full(len(images), UNLABELED, np.int64), name)


def check(data: Data, shape: tuple[int, ...], num_classes: int) -> None:
    """Raise InputError for the first piece that does not hold uint8 images of `shape` (C, H, W) with labels in range."""
    for piece in (*data.train, *data.test):
        if piece.images.dtype != np.uint8:
            raise InputError(f"{piece.name}: images must be uint8 (levels 0 … 255), these are {piece.images.dtype}.")
        if piece.images.shape[1:] != shape:
            found = "×".join(map(str, piece.images.shape[1:]))
            raise InputError(f"{piece.name}: images must be {'×'.join(map(str, shape))} (C×H×W), these are {found}.")
        if len(piece.images) != len(piece.labels):
            raise InputError(f"{piece.name}: there are {len(piece.images)} images but {len(piece.labels)} labels.")
        if not len(piece.images):
            raise InputError(f"{piece.name}: there are no images in it.")
        without = bool((piece.labels == UNLABELED).all()) and not any(piece is other for other in data.test)
        if not without:
            require_range(piece.labels, 0, num_classes - 1, piece.name)


def require_range(labels: Labels, low: int, high: int, name: str) -> None:
    """Raise InputError that names the first label outside low … high."""
    wrong = np.flatnonzero((labels < low) | (labels > high))
    if len(wrong):
        raise InputError(f"{name}: label {labels[wrong[0]]} at position {wrong[0]}, expected {low} … {high}.")


def chunks(pieces: Sequence[Piece]) -> Iterator[Images]:
    """The images of the pieces in order, a few thousand at a time and contiguous."""
    for piece in pieces:
        for start in range(0, len(piece.images), CHUNK):
            yield np.ascontiguousarray(piece.images[start : start + CHUNK])


def join_images(pieces: Sequence[Piece]) -> Images:
    """All images as one contiguous array; a single piece that is one already is not copied."""
    if len(pieces) == 1:
        return np.ascontiguousarray(pieces[0].images)
    joined = np.empty((sum(len(piece.images) for piece in pieces), *pieces[0].images.shape[1:]), np.uint8)
    start = 0
    for chunk in chunks(pieces):
        joined[start : start + len(chunk)] = chunk
        start += len(chunk)
    return joined


def join_labels(pieces: Sequence[Piece]) -> Labels:
    return np.concatenate([piece.labels for piece in pieces])
