"""CIFAR's python batches: pickled dictionaries of rows (3,072 bytes: a red, a green and a blue plane) and labels."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np

from softmatch.data.sources import pickles
from softmatch.data.sources.originals import File, damaged
from softmatch.data.sources.pieces import Data, Piece
from softmatch.errors import InputError

SHAPE = (3, 32, 32)


def read(files: Mapping[str, File]) -> Data:
    """Every file is a part of the training set, but for the one whose name begins with "test"."""
    pieces = {name: _read_batch(file) for name, file in files.items()}
    test = [piece for name, piece in pieces.items() if name.startswith("test")]
    return Data([piece for name, piece in pieces.items() if not name.startswith("test")], test)


def _read_batch(file: File) -> Piece:
    try:
        found = pickles.load(file.array().tobytes())
    except pickle.UnpicklingError as error:
        raise damaged(file.name, error) from error
    if not isinstance(found, dict):
        raise InputError(f"{file.name} must hold a dictionary, it holds a {type(found).__name__}.")
    batch = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in found.items()}
    rows, labels = _field(batch, file, "data"), _field(batch, file, "fine_labels", "labels")
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.shape[1] != 3 * 32 * 32:
        raise InputError(f"{file.name}: 'data' must be rows of 3,072 bytes, one for each image.")
    try:
        numbers = np.asarray(labels, dtype=np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{file.name}: labels must be whole numbers.") from error
    return Piece(rows.reshape(-1, *SHAPE), numbers.reshape(-1), file.name)


def _field(batch: Mapping[str, Any], file: File, *names: str) -> Any:
    for name in names:
        if name in batch:
            return batch[name]
    raise InputError(f"{file.name} lacks {' or '.join(map(repr, names))}; it holds {', '.join(map(repr, batch))}.")
