"""Datasets of the Hugging Face hub, folders of Parquet files like its repositories, and datasets in Python (extra `hub`)."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset

from softmatch.data.pictures import EXPORT, EncodedImage
from softmatch.data.readers.array_files import array_labels, open_arrays
from softmatch.data.readers.class_folders import media_kind
from softmatch.data.readers.columns import LABEL_NAMES, choice
from softmatch.data.readers.labels import clean_labels
from softmatch.data.readers.table_source import OpenedTable
from softmatch.data.records import Columns, Finding, Found, InputKind, Opened, Piece, Records, numbered
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


WHERE = "dataset"
"""Name of such a source in messages and in the settings of a run."""
PAIRS = "Each item must be a pair (item, label), with −1 or None for an unlabelled one"
STREAM = "the dataset is a stream, which cannot be split or read twice."
READ_ONCE = "each item was read once: leave random transforms out of the dataset, softmatch makes the views."


def is_dataset(samples: Any) -> bool:
    """Tell whether samples are a dataset that may contain its labels."""
    return isinstance(samples, (Dataset, DataLoader)) or _is_of_hub(samples, "Dataset", "DatasetDict") or _is_stream(samples)


def open_dataset(dataset: Any, columns: Columns, need_label: bool = True) -> Opened:
    """Open a `datasets.Dataset` or `DatasetDict`, or a map-style dataset of torch that gives pairs (item, label)."""
    if _is_stream(dataset):
        advice = "Load it without streaming=True, or give datasets.Dataset.from_list(list(dataset), features=dataset.features)."
        raise InputError(f"{STREAM} {advice}")
    if _is_of_hub(dataset, "Dataset", "DatasetDict"):
        splits = dict(dataset) if isinstance(dataset, Mapping) else {"train": dataset}
        return open_splits(splits, WHERE, _with_missing(next(iter(splits.values())), columns), need_label, None)
    if isinstance(dataset, DataLoader):
        raise InputError("a DataLoader gives batches of one order. Give its dataset: loader.dataset.")
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise InputError(f"{STREAM} Give a map-style dataset, such as torch.utils.data.TensorDataset(items, labels).")
    return _open_pairs(dataset, need_label)


def _is_of_hub(samples: Any, *names: str) -> bool:
    """Tell whether samples have one of these types of the library `datasets`, which is not imported for that."""
    library = sys.modules.get("datasets")
    return any(isinstance(samples, found) for name in names if isinstance(found := getattr(library, name, None), type))


def _is_stream(samples: Any) -> bool:
    return _is_of_hub(samples, "IterableDataset", "IterableDatasetDict")


def _with_missing(part: Any, columns: Columns) -> Columns:
    """Take −1 in a column of whole numbers for a missing label; ClassLabel has its own rule."""
    label = columns.label or next((name for name in part.column_names if name.lower() in LABEL_NAMES), None)
    whole = label in part.column_names and str(getattr(part.features[label], "dtype", "")).startswith("int")
    return replace(columns, unlabeled="-1") if whole and columns.unlabeled is None else columns


def _open_pairs(dataset: Any, need_label: bool) -> Found:
    items, labels, names = list[Any](), list[Any](), _names_in(dataset)
    if not len(dataset):
        raise InputError(f"{WHERE}: there are no items in it.")
    for position in range(len(dataset)):
        try:
            given = dataset[position]
        except InputError:
            raise
        except Exception as error:  # the code of the dataset is the user's own
            raise InputError(f"{WHERE}, item {position}: {type(error).__name__}: {first_line(error)}") from error
        item, label = _pair(given, position, need_label)
        items.append(item)
        is_number = isinstance(label, (int, np.integer)) and not isinstance(label, bool)
        labels.append(names[label] if is_number and 0 <= label < len(names) else label)
    read = array_labels(labels, WHERE)
    found = _open_items(items, read)
    found.findings.append(Finding("note", f"{WHERE}: {READ_ONCE}"))
    return found


def _pair(given: Any, position: int, need_label: bool) -> tuple[Any, Any]:
    if isinstance(given, (tuple, list)) and len(given) == 2:
        item, label = given
        return item, label.tolist() if hasattr(label, "tolist") else label
    if need_label:
        shown = (
            f"a {type(given).__name__} of {len(given)}" if isinstance(given, (tuple, list)) else f"of type {type(given).__name__}"
        )
        raise InputError(f"{WHERE}, item {position} is {shown}. {PAIRS}.")
    return given[0] if isinstance(given, (tuple, list)) and len(given) == 1 else given, None


def _names_in(dataset: Any) -> Sequence[str]:
    """Names of the classes by their numbers, as torchvision's datasets have them, also below a Subset; () without."""
    while not hasattr(dataset, "classes") and hasattr(dataset, "dataset"):
        dataset = dataset.dataset
    names = getattr(dataset, "classes", ())
    return names if isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names) else ()


def _open_items(items: list[Any], labels: Sequence[str | None]) -> Found:
    """Open items by their type: Pillow images, paths of files, texts, else numbers."""
    kinds = {kind.__name__ for item in items for kind in [_kind(item)]}
    if len(kinds) > 1:
        raise InputError(f"{WHERE}: its items are of several types ({', '.join(sorted(kinds))}). Give one type.")
    if kinds == {"Image"}:
        if (held := sum(item.width * item.height * len(item.getbands()) for item in items)) > LIMIT:
            raise InputError(f"{WHERE}: its images take {held / 1e9:.1f} GB of memory. {EXPORT}")
        return Found(WHERE, numbered(items, "image", labels))
    if kinds == {"Path"}:
        if (kind := media_kind(items[0].name)) is None:
            raise InputError(f"{WHERE}: {items[0]} is not called like an image or a recording.")
        return Found(WHERE, numbered(items, kind, labels))
    if kinds & {"dict", "NoneType"}:
        raise InputError(f"{WHERE}: its items are {kinds.pop()}. Give tensors, arrays, Pillow images, paths or texts.")
    opened = open_arrays(items if kinds == {"str"} else [np.asarray(item) for item in items], None, WHERE)
    return Found(WHERE, replace(opened.records, labels=labels))


def _kind(item: Any) -> type:
    return next((kind for kind in (Image.Image, Path, str) if isinstance(item, kind)), type(item))
