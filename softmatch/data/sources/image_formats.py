"""File formats of published image datasets: CIFAR, idx (Fashion-MNIST), STL-10, SVHN and .npz. Nothing in them is executed."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from softmatch.data.readers.array_files import FAILURES, refuse_unfit
from softmatch.data.sources.originals import Data, File, Images, Labels, Piece, damaged, require_range, unlabeled
from softmatch.errors import InputError


def _encode(text: str, encoding: str) -> bytes:
    """Decode bytes as Python 3 writes them in the old protocols; `codecs.encode` itself could do much more."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"encoding {encoding!r} is not allowed")
    return text.encode("latin1")


class _Type:
    """Numbers, in either byte order, instead of numpy's types, which can be told to take any bytes for objects in memory."""

    def __init__(self, name: object, *rest: object) -> None:
        self.found = np.dtype(name.decode("latin1") if isinstance(name, bytes) else str(name))
        if self.found.kind not in "biuf" or self.found.subdtype is not None:
            raise pickle.UnpicklingError(f"arrays of {self.found} are not allowed")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order: Any = state[1].decode("latin1") if isinstance(state[1], bytes) else state[1]
        self.found = self.found.newbyteorder(order)


class _Array(np.ndarray[Any, Any]):
    """Replacement of numpy's arrays, whose content follows, with its shape and type."""

    def __new__(cls, *given: object) -> _Array:
        return np.zeros(0, np.uint8).view(cls)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, content = state
        if not isinstance(kind, _Type) or not isinstance(content, bytes):
            raise pickle.UnpicklingError("its arrays are not of numbers")
        super().__setstate__((1, shape, kind.found, fortran, content))


def _from_buffer(content: Any, kind: Any, shape: Any, order: Any) -> np.ndarray[Any, Any]:
    """Replace numpy's `_frombuffer`."""
    if not isinstance(kind, _Type):
        raise pickle.UnpicklingError("its arrays are not of numbers")
    return np.frombuffer(content, kind.found).reshape(shape, order=order)


_MODULES = ("numpy.core", "numpy._core")  # before and since numpy 2
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encode,
    **{(f"{module}.multiarray", "_reconstruct"): _Array for module in _MODULES},
    **{(f"{module}.numeric", "_frombuffer"): _from_buffer for module in _MODULES},
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no file of arrays needs")
        return _ALLOWED[module, name]


def load_pickle(content: bytes) -> Any:
    """Load a pickle that holds arrays, numbers, bytes, text and plain containers; strings of Python 2 become bytes.

    Raises:
        pickle.UnpicklingError: the pickle asks for anything else, or is damaged.
    """
    try:
        return _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # damaged bytes are arbitrary instructions: any error may come of them
        raise pickle.UnpicklingError(f"{type(error).__name__}: {error}") from error


NPZ_KEYS = ("x_train", "y_train", "x_test", "y_test")


def read_npz(path: Path, shape: tuple[int, ...]) -> Data:
    """Images may be N×H×W×C, N×C×H×W, or N×H×W where `shape` (C, H, W) is grey. Nothing in the file is unpickled."""
    found = _load_npz(path)
    pieces = {
        part: Piece(
            _npz_images(found, path, f"x_{part}", shape), _npz_labels(found, path, f"y_{part}"), f"{path}, x_{part} and y_{part}"
        )
        for part in ("train", "test")
    }
    train = [pieces["train"]]
    if "x_unlabeled" in found:
        train.append(unlabeled(_npz_images(found, path, "x_unlabeled", shape), f"{path}, x_unlabeled"))
    return Data(train, [pieces["test"]])


def _load_npz(path: Path) -> dict[str, Any]:
    refuse_unfit(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            missing = [key for key in NPZ_KEYS if key not in archive.files]
            if missing:
                raise InputError(f"{path} lacks {', '.join(missing)}; it holds {', '.join(archive.files) or 'nothing'}.")
            return {key: archive[key] for key in (*NPZ_KEYS, "x_unlabeled") if key in archive.files}
    except InputError:
        raise
    except FAILURES as error:
        raise damaged(path, error) from error


def _npz_images(found: Mapping[str, Any], path: Path, key: str, shape: tuple[int, ...]) -> Images:
    """Give the images as N×C×H×W."""
    images: Images = found[key]
    channels, height, width = shape
    if images.dtype != np.uint8:
        raise InputError(f"{path}: {key} must be uint8 (levels 0 … 255), it is {images.dtype}.")
    if images.shape[1:] == (height, width, channels):
        return images.transpose(0, 3, 1, 2)
    if images.shape[1:] == (height, width) and channels == 1:
        return images[:, None]
    if images.shape[1:] != shape:
        layouts = f"N×{height}×{width}" if channels == 1 else f"N×{height}×{width}×{channels} or N×{channels}×{height}×{width}"
        raise InputError(f"{path}: {key} must be {layouts}, it is {'×'.join(map(str, images.shape)) or 'a single number'}.")
    return images


def _npz_labels(found: Mapping[str, Any], path: Path, key: str) -> Labels:
    labels = found[key]
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"{path}: {key} must be whole numbers, it is {labels.dtype}.")
    if labels.ndim != 1 and labels.shape[1:] != (1,):
        raise InputError(f"{path}: {key} must have one dimension, it is {'×'.join(map(str, labels.shape)) or 'a single number'}.")
    flat: Labels = labels.reshape(-1).astype(np.int64)
    return flat


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
        found = load_pickle(file.array().tobytes())
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
