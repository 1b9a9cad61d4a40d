"""The original files of published image datasets: CIFAR, idx (Fashion-MNIST), STL-10, SVHN."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np

from softmatch.data.sources import pickles
from softmatch.data.sources.originals import File, damaged
from softmatch.data.sources.pieces import Data, Images, Piece, require_range, unlabeled
from softmatch.errors import InputError

CIFAR_SHAPE = (3, 32, 32)
STL10_SHAPE = (3, 96, 96)
UBYTE = 8


def read_cifar(files: Mapping[str, File]) -> Data:
    """Read CIFAR's python batches: pickled rows of 3,072 bytes (three planes) with labels; names with "test" are the test set."""
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
    return Piece(rows.reshape(-1, *CIFAR_SHAPE), numbers.reshape(-1), file.name)


def _field(batch: Mapping[str, Any], file: File, *names: str) -> Any:
    for name in names:
        if name in batch:
            return batch[name]
    raise InputError(f"{file.name} lacks {' or '.join(map(repr, names))}; it holds {', '.join(map(repr, batch))}.")


def read_idx(files: Mapping[str, File]) -> Data:
    """Read the idx files of Fashion-MNIST: type, number of dimensions and sizes (big-endian), then the bytes."""

    def piece(part: str) -> Piece:
        images, labels = files[f"{part}-images-idx3-ubyte.gz"], files[f"{part}-labels-idx1-ubyte.gz"]
        return Piece(_idx_array(images, 3)[:, None], _idx_array(labels, 1).astype(np.int64), images.name)

    return Data([piece("train")], [piece("t10k")])


def _idx_array(file: File, dimensions: int) -> Images:
    content = file.array()
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise damaged(file.name, f"it has {len(content)} bytes")
    if content[:4].tolist() != [0, 0, UBYTE, dimensions]:
        raise InputError(f"{file.name} is not an idx file of bytes with {dimensions} dimension{'s' * (dimensions > 1)}.")
    sizes = np.frombuffer(content[4:start].tobytes(), ">u4").astype(int)
    if len(content) - start != sizes.prod():
        wanted = "×".join(map(str, sizes))
        raise damaged(file.name, f"it announces {wanted} bytes and holds {len(content) - start:,}")
    return content[start:].reshape(sizes)


def read_stl10(files: Mapping[str, File]) -> Data:
    """Read STL-10's bare bytes, planes written column by column, labels 1 … 10; the unlabelled images come last."""
    train = _stl10_piece(files["train_X.bin"], files["train_y.bin"])
    rest = unlabeled(_stl10_images(files["unlabeled_X.bin"]), files["unlabeled_X.bin"].name)
    return Data([train, rest], [_stl10_piece(files["test_X.bin"], files["test_y.bin"])])


def _stl10_piece(images: File, labels: File) -> Piece:
    numbers = labels.array().astype(np.int64)
    require_range(numbers, 1, 10, labels.name)
    return Piece(_stl10_images(images), numbers - 1, images.name)


def _stl10_images(file: File) -> Images:
    content, size = file.array(), STL10_SHAPE[0] * STL10_SHAPE[1] * STL10_SHAPE[2]
    if len(content) % size:
        raise damaged(file.name, f"{len(content):,} bytes are not a whole number of images of {size:,}")
    return content.reshape(-1, *STL10_SHAPE).transpose(0, 1, 3, 2)


def read_svhn(files: Mapping[str, File]) -> Data:
    """Read SVHN's MATLAB files, X (H, W, C, N) and y, the digit 0 labelled 10; train and extra are the training set."""
    pieces = {name: _read_mat(file) for name, file in files.items()}
    return Data([pieces["train_32x32.mat"], pieces["extra_32x32.mat"]], [pieces["test_32x32.mat"]])


def _read_mat(file: File) -> Piece:
    from scipy.io import loadmat

    try:
        found = loadmat(file.content, variable_names=["X", "y"])
    except Exception as error:  # scipy raises whatever the damaged bytes lead to
        raise damaged(file.name, error) from error
    for name in ("X", "y"):
        if name not in found:
            raise InputError(f"{file.name} lacks the variable {name!r}.")
    images, labels = found["X"], found["y"].reshape(-1).astype(np.int64)
    if images.ndim != 4:
        raise InputError(f"{file.name}: X must be H×W×C×N, it has {images.ndim} dimensions.")
    require_range(labels, 1, 10, f"{file.name}, y")
    return Piece(images.transpose(3, 2, 0, 1), labels % 10, file.name)
