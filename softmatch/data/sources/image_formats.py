"""File formats of published image datasets: CIFAR, idx (Fashion-MNIST), STL-10, SVHN and .npz. Nothing in them is executed."""

import pickletools
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from softmatch.data.readers.array_files import FAILURES, refuse_unfit
from softmatch.data.sources.originals import Data, File, Images, Piece, damaged, unlabeled
from softmatch.errors import InputError

NPZ_KEYS = ("x_train", "y_train", "x_test", "y_test")


def read_npz(path: Path, shape: tuple[int, ...]) -> Data:
    """Images may be N×H×W×C, N×C×H×W, or N×H×W where `shape` (C, H, W) is grey. Nothing in the file is unpickled."""
    refuse_unfit(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            missing = [key for key in NPZ_KEYS if key not in archive.files]
            if missing:
                raise InputError(f"{path} lacks {', '.join(missing)}; it holds {', '.join(archive.files) or 'nothing'}.")
            found = {key: archive[key] for key in (*NPZ_KEYS, "x_unlabeled") if key in archive.files}
    except InputError:
        raise
    except FAILURES as error:
        raise damaged(path, error) from error

    def images(part: str) -> Images:
        given: Images = found[f"x_{part}"]
        if shape[0] == 1 and given.shape[1:] == shape[1:]:
            return given[:, None]
        return given.transpose(0, 3, 1, 2) if given.shape[1:] == (*shape[1:], shape[0]) else given

    def piece(part: str) -> Piece:
        labels = found[f"y_{part}"]
        flat = labels.reshape(-1) if labels.shape[1:] == (1,) else labels
        return Piece(images(part), flat, f"{path}, x_{part} and y_{part}")

    rest = [unlabeled(images("unlabeled"), f"{path}, x_unlabeled")] if "x_unlabeled" in found else []
    return Data([piece("train"), *rest], [piece("test")])


def read_cifar(files: Mapping[str, File]) -> Data:
    """Read CIFAR's python batches: pickled rows of 3,072 bytes (three planes) with labels; names with "test" are the test set."""
    pieces = {name: _read_batch(file) for name, file in files.items()}
    test = [piece for name, piece in pieces.items() if name.startswith("test")]
    return Data([piece for name, piece in pieces.items() if not name.startswith("test")], test)


def _read_batch(file: File) -> Piece:
    """Look through the instructions of a pickle, without following them: pixels are its longest text, labels follow their key."""
    text, before, labels, pixels, by_columns = b"", "", list[int](), b"", False
    try:
        for instruction, value, _ in pickletools.genops(file.array().tobytes()):
            if isinstance(value, str | bytes) and instruction.name != "GLOBAL":
                text = value if isinstance(value, bytes) else value.encode("latin1")
                if len(text) > len(pixels):
                    pixels, by_columns = text, before == "NEWTRUE"
            elif isinstance(value, int) and text in (b"labels", b"fine_labels") and instruction.name.startswith("BININT"):
                labels.append(value)
            before = instruction.name
    except ValueError as error:
        raise damaged(file.name, error) from error
    if not labels or len(pixels) % 3072:
        raise damaged(file.name, "it does not hold labels and rows of 3,072 bytes")
    rows = np.frombuffer(pixels, np.uint8).reshape((-1, 3072), order="F" if by_columns else "C")
    return Piece(rows.reshape(-1, 3, 32, 32), np.array(labels), file.name)


def read_idx(files: Mapping[str, File]) -> Data:
    """Read the idx files of Fashion-MNIST: type, number of dimensions and sizes (big-endian), then the bytes."""

    def piece(part: str) -> Piece:
        images, labels = files[f"{part}-images-idx3-ubyte.gz"], files[f"{part}-labels-idx1-ubyte.gz"]
        return Piece(_idx_array(images, 3)[:, None], _idx_array(labels, 1).astype(np.int64), images.name)

    return Data([piece("train")], [piece("t10k")])


def _idx_array(file: File, dimensions: int) -> Images:
    content, start = file.array(), 4 + 4 * dimensions
    if len(content) < start:
        raise damaged(file.name, f"it has {len(content)} bytes")
    if content[:4].tolist() != [0, 0, 8, dimensions]:
        raise InputError(f"{file.name} is not an idx file of bytes with {dimensions} dimension{'s' * (dimensions > 1)}.")
    sizes = np.frombuffer(content[4:start].tobytes(), ">u4").astype(int)
    if len(content) - start != sizes.prod():
        wanted = "×".join(map(str, sizes))
        raise damaged(file.name, f"it announces {wanted} bytes and holds {len(content) - start:,}")
    return content[start:].reshape(sizes)


def read_stl10(files: Mapping[str, File]) -> Data:
    """Read STL-10's bare bytes, planes written column by column, labels 1 … 10; the unlabelled images come last."""

    def images(part: str) -> Images:
        file = files[f"{part}_X.bin"]
        content, size = file.array(), 3 * 96 * 96
        if len(content) % size:
            raise damaged(file.name, f"{len(content):,} bytes are not a whole number of images of {size:,}")
        return content.reshape(-1, 3, 96, 96).transpose(0, 1, 3, 2)

    def piece(part: str) -> Piece:
        return Piece(images(part), files[f"{part}_y.bin"].array().astype(np.int64) - 1, files[f"{part}_X.bin"].name)

    return Data([piece("train"), unlabeled(images("unlabeled"), files["unlabeled_X.bin"].name)], [piece("test")])


def read_svhn(files: Mapping[str, File]) -> Data:
    """Read SVHN's MATLAB files, X (H, W, C, N) and y, the digit 0 labelled 10; train and extra are the training set."""
    return Data([_read_mat(files[f"{part}_32x32.mat"]) for part in ("train", "extra")], [_read_mat(files["test_32x32.mat"])])


def _read_mat(file: File) -> Piece:
    from scipy.io import loadmat

    try:
        found = loadmat(file.content, variable_names=["X", "y"])
        images, labels = found["X"].transpose(3, 2, 0, 1), found["y"].reshape(-1).astype(np.int64)
    except Exception as error:  # scipy raises whatever the damaged bytes lead to
        raise damaged(file.name, error) from error
    return Piece(images, np.where(labels == 10, 0, labels), file.name)
