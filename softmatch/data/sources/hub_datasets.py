"""Datasets of the Hugging Face hub, from the hub itself or from a local copy of its parquet files (extra `hub`)."""

import io
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from softmatch.data.examples import UNLABELED
from softmatch.data.pictures import FORMATS, quiet_pillow
from softmatch.data.readers.hub_repositories import fetch, library
from softmatch.data.records import Finding
from softmatch.data.sources.originals import Data, Images, Piece, damaged
from softmatch.errors import InputError, first_line

ROWS = 1000
COPY = "Or give a copy of the dataset's own files with --data PATH."


@dataclass(frozen=True)
class Repository:
    """A dataset on the hub, and the names of its splits and columns.

    Attributes:
        train: the splits that make up the training set.
        unlabeled: a split whose labels are not used.
        image, label: columns; texts have others for their inputs.
    """

    id: str
    config: str | None = None
    train: tuple[str, ...] = ("train",)
    unlabeled: str | None = None
    test: str = "test"
    image: str = "image"
    label: str = "label"

    @property
    def splits(self) -> tuple[str, ...]:
        return (*self.train, *([self.unlabeled] if self.unlabeled else []), self.test)

    def identity(self) -> list[object]:
        return ["hub", self.id, self.config, *self.splits]


Files = Mapping[str, Sequence[Path]]
"""The parquet files of each split of a local copy."""


def find_parquet(where: Path, hub: Repository) -> Files | None:
    """Find the parquet files in a folder, as `hf download` or `git clone` leave them; None where there are none."""
    found = [path for depth in ("", "*/", "*/*/") for path in sorted(where.glob(f"{depth}*.parquet"))]
    if not found:
        return None
    found = [path for path in found if hub.config in path.relative_to(where).parts] or found
    files = {split: [path for path in found if _split_of(path) == split] for split in hub.splits}
    missing = [split for split in hub.splits if not files[split]]
    if missing:
        known = ", ".join(sorted({_split_of(path) for path in found}))
        raise InputError(f"{where} has no parquet file of the split {missing[0]!r} of {hub.id}; it has: {known}.")
    for path in flat(files):
        with path.open("rb") as stream:
            start = stream.read(12)
            stream.seek(max(path.stat().st_size - 4, 0))
            end = stream.read()
        if start == b"version http":
            raise InputError(f"{path} is a pointer of Git LFS, not the data: run `git lfs pull` in its folder.")
        if start[:4] != b"PAR1" or end != b"PAR1":
            raise damaged(path, "it is not a complete parquet file")
    return files


def flat(files: Files) -> list[Path]:
    return [path for paths in files.values() for path in paths]


def _split_of(path: Path) -> str:
    """train-00000-of-00002.parquet, svhn-train.parquet and train/0000.parquet are of the split train."""
    name = re.sub(r"-\d+-of-\d+.*$", "", path.stem)
    return path.parent.name if name.isdigit() else name.rpartition("-")[2]


def read(hub: Repository, files: Files | None, shape: tuple[int, ...], classes: Sequence[str]) -> Data:
    """Decode all images, as pieces of a thousand rows.

    Args:
        files: those of a local copy; None: from the hub, through the hub library's own cache.
        shape: (C, H, W) that every image must have; C is 1 (grey) or 3.
        classes: where the hub names the same classes in another order, labels are renumbered to this one.
    """

    def pieces(split: str) -> Iterator[Piece]:
        rows = _rows(hub, split, files, classes=classes)
        while part := list(islice(rows, ROWS)):
            images = np.stack([_decode(row.image, shape, row.place) for row in part])
            yield Piece(images, np.array([row.label for row in part]), part[0].origin)

    return Data([piece for split in hub.splits[:-1] for piece in pieces(split)], list(pieces(hub.test)))


def write_tree(hub: Repository, files: Files | None, target: Path) -> None:
    """Write the still encoded images as target/train/CLASS/ROW.JPEG and target/val/…, for images too many to hold decoded."""
    for split, part in ((hub.train[0], "train"), (hub.test, "val")):
        for number, row in enumerate(_rows(hub, split, files, streaming=True)):
            name = re.sub(r"[^a-z0-9]+", "-", row.name.split(",")[0].lower())
            folder = target / part / f"{row.label:04d}-{name}".rstrip("-")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number:07d}.JPEG").write_bytes(_encoded(row.image, row.place))


class _Row(NamedTuple):
    """A row of a split: an encoded image, its label, and the hub's name of the class, if it has any."""

    image: Any
    label: int
    name: str
    origin: str
    place: str


class HubRows:
    """A split on the hub as a table: see `softmatch.data.records.TableReader`. It stays in the hub library's own cache."""

    def __init__(self, hub: Repository, split: str) -> None:
        library(hub.id, COPY)
        self.origin = f"split {split!r} of {hub.id}"
        self.findings: list[Finding] = []
        with _explained(self.origin):
            self.table = fetch(hub.id, hub.config, split=split)
        self.names: tuple[str, ...] = tuple(self.table.column_names)

    def pieces(self, wanted: Sequence[str], rows: int) -> Iterator[Mapping[str, Sequence[object]]]:
        """Give these columns, `rows` rows at a time."""
        with _explained(self.origin):
            yield from self.table.select_columns(list(wanted)).iter(rows)


def _rows(
    hub: Repository, split: str, files: Files | None, streaming: bool = False, classes: Sequence[str] = ()
) -> Iterator[_Row]:
    """Give the rows of a split. A local copy is streamed, or the library would write all of it into a cache of its own."""
    datasets = library(hub.id, COPY)
    origin = f"split {split!r} " + (f"of {hub.id}" if files is None else f"in {files[split][0].parent}")
    with _explained(origin, local=files is not None), tempfile.TemporaryDirectory() as scratch:
        if files is None:
            table = fetch(hub.id, hub.config, split=split, streaming=streaming)
        else:  # locks go to a folder that can be written, which the user's own cache may not be
            paths = {split: [str(path) for path in files[split]]}
            table = datasets.load_dataset("parquet", data_files=paths, split=split, streaming=True, cache_dir=scratch)
        for column in (hub.image, hub.label):
            if table.column_names is not None and column not in table.column_names:
                raise InputError(f"{origin} has no column {column!r}; it has: {', '.join(table.column_names)}.")
        names = getattr((table.features or {}).get(hub.label), "names", None) or ()
        renumbered = sorted(names) == sorted(classes)
        batches = table.cast_column(hub.image, datasets.Image(decode=False)).iter(ROWS)
        cells = (pair for batch in batches for pair in zip(batch[hub.image], batch[hub.label], strict=True))
        for number, (image, label) in enumerate(cells):
            name, place = "", f"{origin}, row {number}"
            if split == hub.unlabeled:
                label = UNLABELED
            elif not isinstance(label, int) or label < 0:
                raise InputError(f"{place}: the label must be a whole number from 0, it is {label!r}.")
            elif names:
                name = names[label]
                label = classes.index(name) if renumbered else label
            yield _Row(image, label, name, origin, place)


@contextmanager
def _explained(origin: str, local: bool = False) -> Iterator[None]:
    """Turn any error of the hub or of a copy of its files into an InputError."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # the network, the hub, its libraries: each has errors of its own
        reason = first_line(error).rstrip(".")
        if local:
            raise damaged(origin, reason) from error
        raise InputError(
            f"{origin} cannot be fetched from the Hugging Face hub: {reason}. Give a local copy with --data PATH."
        ) from error


def _encoded(cell: Any, name: str) -> bytes:
    if not isinstance(cell, Mapping) or not isinstance(cell.get("bytes"), bytes):
        raise InputError(f"{name} holds no image.")
    content: bytes = cell["bytes"]
    return content


def _decode(cell: Any, shape: tuple[int, ...], name: str) -> Images:
    content = _encoded(cell, name)
    try:
        with quiet_pillow(), Image.open(io.BytesIO(content), formats=FORMATS) as image:
            if (image.height, image.width) != shape[1:]:  # before it is decoded: a few bytes may encode any number of pixels
                raise InputError(f"{name}: the image must be {shape[1]}×{shape[2]}, it is {image.height}×{image.width}.")
            pixels = np.asarray(image.convert("L" if shape[0] == 1 else "RGB"))
    except InputError:
        raise
    except Exception as error:  # Pillow has no common class for what damaged files lead to
        raise InputError(f"{name}: the image is cut off or damaged: {error}.") from error
    return pixels[None] if shape[0] == 1 else pixels.transpose(2, 0, 1)
