"""Datasets of the Hugging Face hub, and folders of Parquet files like its repositories (extra `hub`)."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from softmatch.data.pictures import EXPORT, EncodedImage
from softmatch.data.readers.columns import LABEL_NAMES, choice
from softmatch.data.readers.labels import clean_labels
from softmatch.data.readers.table_source import OpenedTable
from softmatch.data.records import Columns, Finding, InputKind, Opened, Piece, Records, numbered
from softmatch.errors import InputError, first_line, nearest

SECONDS = 10.0
"""Seconds to wait for an answer of the hub."""


def library(name: str, otherwise: str = "") -> Any:
    """Import the library `datasets`, for a dataset of this name.

    Args:
        otherwise: alternative to installing it, for the message.
    """
    try:
        import datasets
    except ImportError as error:
        needed = f"{name} needs the library of the Hugging Face hub: pip install 'softmatch[hub]'."
        raise InputError(f"{needed} {otherwise}".strip()) from error
    return datasets


def fetch(name: str, *config: str | None, **options: Any) -> Any:
    """Load a dataset of the hub; where the hub does not answer, load what was fetched before.

    Raises:
        ConnectionError: the hub does not answer, and nothing was fetched before.
        Exception: any error of the library.
    """
    load_dataset, reason = library(name).load_dataset, why_out_of_reach()
    if reason is None:
        return load_dataset(name, *config, **options)
    try:
        with _offline():
            return load_dataset(name, *config, **options)
    except Exception as error:
        raise ConnectionError(f"it does not answer ({reason}), and {name} was not fetched before") from error


@cache
def why_out_of_reach() -> str | None:
    """Ask the hub once, and give the reason why it cannot be reached; None where it answers."""
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=SECONDS)
    except Exception as error:  # the hub's library uses several libraries for the network
        return first_line(error).rstrip(".")
    return None


@contextmanager
def _offline() -> Iterator[None]:
    """Let the libraries look only into their caches."""
    from datasets import config
    from huggingface_hub import constants

    former = config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = former


UNLABELED_SPLITS = ("unlabeled", "unsupervised")
TEST_SPLITS = ("test", "validation")
ROWS = 1000
LIMIT = 2 * 2**30
"""Bytes of encoded images to hold in memory."""


def open_hub(name: str, columns: Columns, need_label: bool = True) -> Opened:
    """Open the splits of owner/name, or of a folder of Parquet files with the splits in their names.

    The source are the training split and those without labels, `opened.test` the test or else the validation split.
    """
    return open_splits(_load(name), name, columns, need_label, _folders(name))


def open_splits(
    splits: Mapping[str, Any], name: str, columns: Columns, need_label: bool, folders: tuple[Path, ...] | None
) -> Opened:
    """Open splits that were loaded: see `open_hub`.

    Args:
        folders: that files of images may be in; None: anywhere, for a dataset that the user has made.
    """
    train = [splits[split] for split in ("train", *UNLABELED_SPLITS) if split in splits]
    if not train:
        if len(splits) > 1:
            raise InputError(f"{name} has no split called train; it has {', '.join(splits)}.")
        train = list(splits.values())
    tests = next(([splits[split]] for split in TEST_SPLITS if split in splits and splits[split] not in train), None)
    opened = _open(train, name, columns, need_label, folders)
    if tests is not None:
        opened.test = _open(tests, f"{name}, its test split", opened.columns, need_label, folders)
    return opened


def _load(name: str) -> dict[str, Any]:
    load = library(name).load_dataset if Path(name).is_dir() else fetch
    try:
        return dict(load(name))
    except InputError:
        raise
    except Exception as error:  # the network, the hub, its libraries: each has errors of its own
        reason = first_line(error).rstrip(".")
        raise InputError(f"the dataset {name} cannot be loaded: {reason}.") from error


def _folders(name: str) -> tuple[Path, ...]:
    """Folders that files of a dataset may be in: its own, or what was downloaded and unpacked from the hub."""
    if Path(name).is_dir():
        found = [Path(name)]
    else:
        from datasets import config
        from huggingface_hub.constants import HF_HUB_CACHE

        fetched = Path(HF_HUB_CACHE) / f"datasets--{name.replace('/', '--')}"
        found = [fetched, Path(config.DOWNLOADED_DATASETS_PATH) / config.EXTRACTED_DATASETS_DIR]
    return tuple(Path(os.path.realpath(folder)) for folder in found)


def _open(
    parts: Sequence[Any], name: str, columns: Columns, need_label: bool, folders: tuple[Path, ...] | None
) -> "OpenedTable | _HubImages":
    image = next((key for key, kind in parts[0].features.items() if type(kind).__name__ == "Image"), None)
    if image is None or columns.text is not None or columns.features is not None:
        return OpenedTable(_Rows(parts, name), name, columns, need_label)
    there = parts[0].column_names
    named = [columns.label] if columns.label else [key for key in there if key.lower() in LABEL_NAMES]
    label = named[0] if len(named) == 1 else None
    if label is None and (need_label or named):
        shown = choice(named or there)
        raise InputError(f"{name}: cannot tell which column holds the labels ({shown}). Choose one with --label.")
    if label is not None and label not in there:
        raise InputError(f"{name} has no column {label!r}. {nearest(label, there)}")
    if label is not None and _is_decoded(parts[0], label):
        raise InputError(f"{name}: the column {label!r} holds images or sounds, not labels. Choose another with --label.")
    found = Finding("note", f"{name}: images in the column {image!r}, labels in {label!r}.")
    return _HubImages(name, parts, image, Columns(label=label, unlabeled=columns.unlabeled), folders, [found])


def _is_decoded(part: Any, column: str) -> bool:
    """Tell whether the hub's library would decode a column when it is read, as images in any format that Pillow has."""
    from datasets.features.features import require_decoding

    return bool(require_decoding(part.features[column]))


class _Rows:
    """Rows of some splits as a table, without columns of images or sounds. Classes are names; the number −1 is unlabelled."""

    def __init__(self, parts: Sequence[Any], name: str) -> None:
        self.parts, self.name = parts, name
        self.names = tuple(column for column in parts[0].column_names if not _is_decoded(parts[0], column))
        if not self.names:
            raise InputError(f"{name} has no column of texts or numbers.")
        self.findings: list[Finding] = []

    def pieces(self, wanted: Sequence[str], rows: int) -> Iterator[Piece]:
        """Give these columns, up to `rows` rows at a time."""
        for part in self.parts:
            for batch in _selected(part, wanted, self.name).iter(rows):
                yield {column: _class_names(part, column, batch[column]) for column in wanted}


def _selected(part: Any, wanted: Sequence[str], name: str) -> Any:
    """Select these columns of a split and no others: reading one would open the images that are in it."""
    missing = [column for column in wanted if column not in part.column_names]
    if missing:
        raise InputError(f"{name}: a split has no column {missing[0]!r}; it has {', '.join(part.column_names)}.")
    return part.select_columns(list(wanted))


def _class_names(part: Any, column: str, cells: Sequence[Any]) -> Sequence[Any]:
    names = getattr(part.features[column], "names", None)
    return cells if names is None else [None if cell is None or cell < 0 else names[cell] for cell in cells]


@dataclass
class _HubImages:
    """Images of the hub, still encoded, or files in these folders. See `records.Opened`."""

    where: str
    parts: Sequence[Any]
    image: str
    columns: Columns
    folders: tuple[Path, ...] | None
    findings: list[Finding] = field(default_factory=list)
    test: Opened | None = None
    kind: InputKind = "image"

    def read(self) -> Records:
        """Read all of them; InputError where they are too large to be held in memory."""
        pictures, labels, held = list[Any](), list[str | None](), 0
        for piece in self.stream(ROWS):
            pictures += piece.inputs
            labels += piece.labels
            held += sum(len(each.content) for each in pictures[-len(piece) :] if isinstance(each, EncodedImage))
            if held > LIMIT:
                raise InputError(f"{self.where}: its images take more than {LIMIT / 1e9:.1f} GB of memory. {EXPORT}")
        return numbered(pictures, self.kind, labels)

    def stream(self, rows: int) -> Iterator[Records]:
        """Give the same in pieces, in order."""
        from datasets import Image as ImageFeature

        first = 1
        for part in self.parts:
            label = self.columns.label if self.columns.label in part.column_names else None
            chosen = _selected(part, [self.image] if label is None else [self.image, label], self.where)
            for batch in chosen.cast_column(self.image, ImageFeature(decode=False)).iter(rows):
                cells = batch[self.image]
                pictures = [_picture(cell, f"{self.where}, row {row}", self.folders) for row, cell in enumerate(cells, first)]
                names = [str(row) for row in range(first, first + len(cells))]
                labels: list[str | None] = [None] * len(cells)
                if label is not None:
                    labels = clean_labels(_class_names(part, label, batch[label]), self.columns.unlabeled, self.where, first)
                yield Records(self.kind, pictures, names, labels)  # type: ignore[arg-type]  # as `fit_images` takes them
                first += len(cells)


def _picture(cell: Any, name: str, folders: Sequence[Path] | None) -> Path | EncodedImage:
    """Take the image of a row: bytes, or else a file, which must be in one of the folders if there are any."""
    content, path = (cell.get("bytes"), cell.get("path")) if isinstance(cell, Mapping) else (None, None)
    if isinstance(content, bytes):
        return EncodedImage(content, name, "it is empty")
    if not isinstance(path, str):
        return EncodedImage(b"", name, "the row has no image")
    if folders is None:
        return Path(path.replace("\0", ""))
    for folder in folders:
        file = Path(os.path.realpath(folder / path.replace("\0", "")))
        if file.is_relative_to(folder) and file.is_file():
            return file
    return EncodedImage(b"", name, f"{path!r} is not a file of this dataset")
