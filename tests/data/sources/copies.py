"""Small copies of published datasets, written in their own formats with random pixels."""

import gzip
import hashlib
import io
import pickle
import struct
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image

from softmatch.data import Examples, find_source
from softmatch.data.sources.image_datasets import PUBLISHED


@dataclass(frozen=True)
class Set:
    """Images (N, C, H, W) and labels from 0."""

    images: np.ndarray
    labels: np.ndarray


def draw(number: int, shape: tuple[int, ...], seed: int, num_classes: int = 10) -> Set:
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (number, *shape), dtype=np.uint8)
    return Set(images, (np.arange(number) + seed) % num_classes)


def publish(monkeypatch: pytest.MonkeyPatch, name: str, folder: Path) -> None:
    """Let the checksums of the files in `folder` be those that were published."""
    dataset = PUBLISHED[name]
    originals = dataset.originals
    assert originals is not None
    sums = {path.name: hashlib.md5(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}
    files = {file: sums.get(file, md5) for file, md5 in originals.files.items()}
    archive = originals.archive and (originals.archive[0], sums.get(originals.archive[0], originals.archive[1]))
    changed = replace(dataset, originals=replace(originals, files=files, archive=archive))
    monkeypatch.setitem(PUBLISHED, name, changed)


def load(name: str, where: Path | None) -> tuple[Examples, Examples]:
    """Training and test set."""
    examples = find_source(name).load(0, where)
    assert examples.test is not None
    return examples, examples.test


def same(examples: Examples, *sets: Set) -> bool:
    """Whether the examples are these sets, one after the other, pixel for pixel."""
    images, labels = np.concatenate([s.images for s in sets]), np.concatenate([s.labels for s in sets])
    assert examples.items.shape == images.shape
    return np.array_equal(np.asarray(examples.items), images) and examples.labels.tolist() == labels.tolist()


class Python2Pickler(pickle._Pickler):  # type: ignore[name-defined]  # the pure Python one
    """Writes what Python 2 wrote in 2009: strings without an encoding, and numpy under its old name."""

    dispatch: ClassVar[dict[type, Any]] = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]  # the pure Python one

    def save_bytes(self, content: bytes) -> None:
        short = len(content) < 256
        size = pickle.SHORT_BINSTRING + bytes([len(content)]) if short else pickle.BINSTRING + struct.pack("<i", len(content))
        self.write(size + content)

    dispatch[bytes] = save_bytes
    dispatch[str] = lambda self, text: self.save_bytes(text.encode("latin1"))

    def save_global(self, thing: Any, name: str | None = None) -> None:
        module = thing.__module__.replace("numpy._core", "numpy.core")
        self.write(pickle.GLOBAL + f"{module}\n{thing.__name__}\n".encode())
        self.memoize(thing)


def python2(content: object) -> bytes:
    stream = io.BytesIO()
    Python2Pickler(stream, 2).dump(content)
    return stream.getvalue()


def batch(data: Set, key: bytes = b"labels") -> dict[bytes, object]:
    """A CIFAR batch as the file holds it."""
    rows = np.ascontiguousarray(data.images.reshape(len(data.images), 3072))
    return {b"batch_label": b"a batch", b"data": rows, key: data.labels.tolist()}


def write_cifar10(folder: Path) -> tuple[list[Set], Set]:
    """Five batches of 4 images and a test batch of 6, in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    train, test = [draw(4, (3, 32, 32), seed) for seed in range(5)], draw(6, (3, 32, 32), 9)
    for number, part in enumerate(train, 1):
        (folder / f"data_batch_{number}").write_bytes(python2(batch(part)))
    (folder / "test_batch").write_bytes(python2(batch(test)))
    return train, test


def pack(archive: Path, folder: Path, name: str | None = None) -> None:
    """A .tar.gz of the folder."""
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, name or folder.name)


def write_svhn(folder: Path, compress: bool = False) -> dict[str, Set]:
    from scipy.io import savemat

    folder.mkdir(parents=True, exist_ok=True)
    parts = {
        part: draw(size, (3, 32, 32), seed) for seed, (part, size) in enumerate({"train": 12, "extra": 15, "test": 11}.items())
    }
    for part, data in parts.items():
        labels = np.where(data.labels == 0, 10, data.labels).astype(np.uint8)
        content = {"X": data.images.transpose(2, 3, 1, 0), "y": labels[:, None]}
        savemat(folder / f"{part}_32x32.mat", content, do_compression=compress)
    return parts


def write_stl10(folder: Path) -> dict[str, Set]:
    folder.mkdir(parents=True, exist_ok=True)
    parts = {
        part: draw(size, (3, 96, 96), seed) for seed, (part, size) in enumerate({"train": 10, "unlabeled": 7, "test": 11}.items())
    }
    for part, data in parts.items():
        columns = bytearray()
        for image in data.images:
            for plane in image:
                columns += plane.tobytes(order="F")
        (folder / f"{part}_X.bin").write_bytes(columns)
        if part != "unlabeled":
            (folder / f"{part}_y.bin").write_bytes(bytes((data.labels + 1).tolist()))
    return {**parts, "unlabeled": Set(parts["unlabeled"].images, np.full(7, -1))}


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(np.uint8).tobytes()


def write_fashion(folder: Path, packed: bool = True) -> dict[str, Set]:
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"train": draw(20, (1, 28, 28), 0), "t10k": draw(10, (1, 28, 28), 1)}
    for part, data in parts.items():
        for name, array in ((f"{part}-images-idx3-ubyte", data.images[:, 0]), (f"{part}-labels-idx1-ubyte", data.labels)):
            content = idx(array)
            (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(content, mtime=0) if packed else content)
    return parts


def write_parquet(path: Path, data: Set, columns: tuple[str, str], names: list[str] | None, kind: str = "PNG") -> None:
    """A parquet file as the hub has them: encoded images, and labels that may have names."""
    import datasets

    datasets.disable_progress_bars()
    path.parent.mkdir(parents=True, exist_ok=True)
    encoded = [{"bytes": encode(image, kind), "path": None} for image in data.images]
    label = datasets.ClassLabel(names=names) if names else datasets.Value("int64")
    features = datasets.Features({columns[0]: datasets.Image(), columns[1]: label})
    table = datasets.Dataset.from_dict({columns[0]: encoded, columns[1]: data.labels.tolist()}, features=features)
    table.to_parquet(str(path))


def encode(image: np.ndarray, kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)).save(stream, kind)
    return stream.getvalue()


def write_tree(folder: Path, sizes: Mapping[str, Mapping[str, int]]) -> None:
    """{"train": {"n01": 3}}: three JPEG files in train/n01."""
    for part, classes in sizes.items():
        for name, size in classes.items():
            (folder / part / name).mkdir(parents=True)
            for number in range(size):
                content = encode(draw(1, (3, 20, 30), number).images[0], "JPEG")
                (folder / part / name / f"{name}_{number}.JPEG").write_bytes(content)
