"""A published dataset's own files, found and checked, and the formats that they are in."""

import gzip
import hashlib
import pickletools
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from softmatch.data.examples import UNLABELED
from softmatch.data.readers.array_files import FAILURES, refuse_unfit
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
    """

    images: Images
    labels: npt.NDArray[Any]
    name: str


@dataclass(frozen=True)
class Data:
    """The pieces of a dataset, in the order of its samples."""

    train: Sequence[Piece]
    test: Sequence[Piece]


def unlabeled(images: Images, name: str) -> Piece:
    """A piece without labels."""
    return Piece(images, np.full(images.shape[:1], UNLABELED, np.int64), name)


def checked(data: Data, shape: tuple[int, ...], num_classes: int) -> Data:
    """Give the same data; InputError unless all pieces hold uint8 images of `shape` (C, H, W) with labels in range."""
    for piece in (*data.train, *data.test):
        images, labels = piece.images, piece.labels
        if images.dtype != np.uint8:
            raise InputError(f"{piece.name}: images must be uint8 (levels 0 … 255), these are {images.dtype}.")
        if images.shape[1:] != shape:
            raise InputError(f"{piece.name}: images must be {_times(shape)} (C×H×W), these are {_times(images.shape[1:])}.")
        if not np.issubdtype(labels.dtype, np.integer) or labels.ndim != 1:
            raise InputError(
                f"{piece.name}: labels must be a row of whole numbers, they are {_times(labels.shape)} {labels.dtype}."
            )
        if len(images) != len(labels):
            raise InputError(f"{piece.name}: there are {len(images)} images but {len(labels)} labels.")
        if not len(images):
            raise InputError(f"{piece.name}: there are no images in it.")
        wrong = np.flatnonzero((labels < 0) | (labels >= num_classes))
        without = bool((labels == UNLABELED).all()) and not any(piece is other for other in data.test)
        if len(wrong) and not without:
            at = wrong[0]
            raise InputError(f"{piece.name}: label {labels[at]} at position {at}, expected 0 … {num_classes - 1}.")
    return data


def _times(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "single numbers"


def chunks(pieces: Sequence[Piece]) -> Iterator[Images]:
    """The images of the pieces in order, a few thousand at a time and contiguous."""
    for piece in pieces:
        for start in range(0, len(piece.images), CHUNK):
            yield np.ascontiguousarray(piece.images[start : start + CHUNK])


def join_images(pieces: Sequence[Piece]) -> Images:
    """All images as one contiguous, writable array; a single piece that is one already is not copied."""
    if len(pieces) == 1:
        return np.require(pieces[0].images, requirements=["C", "W"])
    joined = np.empty((sum(len(piece.images) for piece in pieces), *pieces[0].images.shape[1:]), np.uint8)
    return np.concatenate([piece.images for piece in pieces], out=joined)


def join_labels(pieces: Sequence[Piece]) -> Labels:
    return np.concatenate([piece.labels for piece in pieces]).astype(np.int64)


def damaged(name: object, reason: object) -> InputError:
    """The error for a file that ends too early or is not what its name says."""
    text = str(reason).strip().rstrip(".")
    return InputError(f"{name} is cut off or damaged{': ' if text else ''}{text}. Fetch it again.")


@dataclass(frozen=True)
class File:
    """One published file: on disk, or in memory where it was a member of an archive. `name` is for messages."""

    name: str
    content: Path | bytes

    def array(self) -> Images:
        """Its bytes, unpacked where the file is a .gz; a plain file on disk is mapped, not read."""
        try:
            if isinstance(self.content, bytes):
                return np.frombuffer(self.content, np.uint8)
            if self.content.suffix == ".gz":
                return np.frombuffer(gzip.decompress(self.content.read_bytes()), np.uint8)
            if self.content.stat().st_size == 0:
                return np.zeros(0, np.uint8)
            return np.memmap(self.content, np.uint8, mode="r")
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise damaged(self.name, error) from error


@dataclass(frozen=True)
class Originals:
    """Published files of a dataset.

    Attributes:
        files: each file that is read, with its md5. Where a name ends in .gz, the unpacked file will do, unchecked.
        read: makes data of the opened files, which have the names above.
        folders: where the files may lie below the folder that the user gives.
        archive: the archive of all files, if there is one, with its md5.
    """

    files: Mapping[str, str]
    read: Callable[[Mapping[str, File]], Data]
    folders: tuple[str, ...] = ("",)
    archive: tuple[str, str] | None = None


@dataclass(frozen=True)
class Found:
    """A user's copy: the path of each file, or that of the archive."""

    originals: Originals
    paths: Mapping[str, Path]

    def verify(self) -> bool:
        """Compare checksums. Returns whether every file has been compared; raises InputError for one that differs."""
        known = {**self.originals.files, **dict([self.originals.archive] if self.originals.archive else [])}
        published = {name: path for name, path in self.paths.items() if path.name == name}
        for name, path in published.items():
            with path.open("rb") as stream:
                found = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
            if found != known[name]:
                raise InputError(
                    f"{path} is damaged or altered: its md5 is {found}, published is {known[name]}. Fetch it again, or give "
                    "a deliberately altered copy as an .npz."
                )
        return len(published) == len(self.paths)

    def read(self) -> Data:
        wanted = self.originals.files
        if self.paths.keys() == wanted.keys():
            return self.originals.read({name: File(str(path), path) for name, path in self.paths.items()})
        (archive,) = self.paths.values()
        return self.originals.read(_members(archive, wanted))


def find(where: Path, originals: Originals) -> Found | None:
    """The published files in a folder, or the archive; None where there is no trace of them."""
    archive = originals.archive[0] if originals.archive else None
    if where.is_file():
        return Found(originals, {where.name: where}) if where.name == archive else None
    best: dict[str, Path] = {}
    for folder in originals.folders:
        paths = {name: (where / folder / name, where / folder / name.removesuffix(".gz")) for name in originals.files}
        found = {name: path for name, either in paths.items() if (path := next(filter(Path.is_file, either), None))}
        best = max(best, found, key=len)
    if len(best) == len(originals.files):
        return Found(originals, best)
    if archive is not None and (where / archive).is_file():
        return Found(originals, {archive: where / archive})
    if best:
        folder_of_best = next(iter(best.values())).parent
        missing = ", ".join(name for name in originals.files if name not in best)
        raise InputError(f"{folder_of_best} has {', '.join(best)} but lacks {missing}.")
    return None


def _members(archive: Path, wanted: Mapping[str, str]) -> dict[str, File]:
    """The wanted files of a tar archive, read in one pass into memory; nothing is ever extracted to disk."""
    found = {}
    try:
        with tarfile.open(archive, "r|*") as tar:
            for member in tar:
                name = PurePosixPath(member.name).name
                if name in wanted and member.isfile() and (stream := tar.extractfile(member)) is not None:
                    found[name] = File(f"{name} in {archive}", stream.read())
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise damaged(archive, error) from error
    missing = [name for name in wanted if name not in found]
    if missing:
        raise InputError(f"{archive} lacks {', '.join(missing)}.")
    return {name: found[name] for name in wanted}


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
