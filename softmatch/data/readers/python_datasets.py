"""Datasets in Python as sources: those of the library `datasets`, and map-style ones of torch. Each item is read once."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset

from softmatch.data.pictures import EXPORT
from softmatch.data.readers.array_files import array_labels, open_arrays
from softmatch.data.readers.class_folders import media_kind
from softmatch.data.readers.columns import LABEL_NAMES
from softmatch.data.readers.hub_repositories import LIMIT, open_splits
from softmatch.data.records import Columns, Finding, Found, Opened, numbered
from softmatch.errors import InputError, first_line

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
    items, labels, names = list[Any](), list[Any](), _class_names(dataset)
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


def _class_names(dataset: Any) -> Sequence[str]:
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
