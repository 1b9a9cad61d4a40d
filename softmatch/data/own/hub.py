"""Datasets of the Hugging Face hub, and folders of parquet files as its repositories are (extra `hub`)."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from softmatch.data.own.columns import LABEL_NAMES
from softmatch.data.own.labels import clean_label
from softmatch.data.own.piece import Piece
from softmatch.data.own.tables import OpenedTable
from softmatch.data.records import Columns, Finding, InputKind, Opened, Records
from softmatch.errors import InputError, nearest

UNLABELED_SPLITS = ("unlabeled", "unsupervised")
TEST_SPLITS = ("test", "validation")


def open_hub(name: str, columns: Columns, need_label: bool = True) -> Opened:
    """The training split and what there is without labels; the test split, or else the validation split, as `opened.test`.

    Args:
        name: owner/name, or a folder of parquet files with the splits in their names.
    """
    splits = _load(name)
    train = [splits[split] for split in ("train", *UNLABELED_SPLITS) if split in splits]
    if not train:
        if len(splits) > 1:
            raise InputError(f"{name} has no split called train; it has {', '.join(splits)}.")
        train = list(splits.values())
    tests = next(([splits[split]] for split in TEST_SPLITS if split in splits and splits[split] not in train), None)
    opened = _open(train, name, columns, need_label)
    if tests is not None:
        opened.test = _open(tests, f"{name}, its test split", opened.columns, need_label)  # type: ignore[attr-defined]  # read_own looks for it
    return opened


def _load(name: str) -> dict[str, Any]:
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise InputError(f"{name} needs the library of the Hugging Face hub: pip install 'softmatch[hub]'.") from error
    try:
        return dict(load_dataset(name))
    except Exception as error:  # the network, the hub, its libraries: each has errors of its own
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(f"the dataset {name} cannot be had: {reason}.") from error


def _open(parts: Sequence[Any], name: str, columns: Columns, need_label: bool) -> Opened:
    image = next((key for key, kind in parts[0].features.items() if type(kind).__name__ == "Image"), None)
    if image is None or columns.text is not None or columns.features is not None:
        return OpenedTable(_Rows(parts, name), name, columns, need_label)
    label = columns.label or next((key for key in parts[0].column_names if key.lower() in LABEL_NAMES), None)
    if label is None and need_label:
        raise InputError(f"{name}: which column has the labels? Give --label; there are {', '.join(parts[0].column_names)}.")
    if label is not None and label not in parts[0].column_names:
        raise InputError(f"{name} has no column {label!r}. {nearest(label, parts[0].column_names)}")
    found = Finding("note", f"{name}: images in the column {image!r}, labels in {label!r}.")
    return _HubImages(name, parts, image, Columns(label=label, unlabeled=columns.unlabeled), [found])


class _Rows:
    """The rows of some splits as a table. Classes are given by their names; the number −1 is unlabelled."""

    def __init__(self, parts: Sequence[Any], name: str) -> None:
        self.parts, self.name = parts, name
        self.names = tuple(parts[0].column_names)
        self.findings: list[Finding] = []

    def pieces(self, wanted: Sequence[str], rows: int) -> Iterator[Piece]:
        """These columns, so many rows at a time."""
        for part in self.parts:
            missing = [column for column in wanted if column not in part.column_names]
            if missing:
                raise InputError(f"{self.name}: a split has no column {missing[0]!r}; it has {', '.join(part.column_names)}.")
            for batch in part.select_columns(list(wanted)).iter(rows):
                yield {column: _class_names(part, column, batch[column]) for column in wanted}


def _class_names(part: Any, column: str, cells: Sequence[Any]) -> Sequence[Any]:
    names = getattr(part.features[column], "names", None)
    return cells if names is None else [None if cell is None or cell < 0 else names[cell] for cell in cells]


@dataclass
class _HubImages:
    """Images of the hub, still encoded. See `records.Opened`."""

    where: str
    parts: Sequence[Any]
    image: str
    columns: Columns
    findings: list[Finding] = field(default_factory=list)
    test: Opened | None = None
    kind: InputKind = "image"

    def read(self) -> Records:
        """All of them."""
        pieces = list(self.stream(1000))
        return Records(
            self.kind,
            [picture for piece in pieces for picture in piece.inputs],  # type: ignore[arg-type]  # as `fit_images` takes them
            [name for piece in pieces for name in piece.names],
            [label for piece in pieces for label in piece.labels],
        )

    def stream(self, rows: int) -> Iterator[Records]:
        """Some at a time, in order."""
        from datasets import Image as ImageFeature

        first = 1
        for part in self.parts:
            for batch in part.cast_column(self.image, ImageFeature(decode=False)).iter(rows):
                pictures = [_picture(cell, f"{self.where}, row {first + i}") for i, cell in enumerate(batch[self.image])]
                names = [str(first + i) for i in range(len(pictures))]
                yield Records(self.kind, pictures, names, self._labels(part, batch, len(pictures)))  # type: ignore[arg-type]  # as `fit_images` takes them
                first += len(pictures)

    def _labels(self, part: Any, batch: Mapping[str, Sequence[Any]], number: int) -> list[str | None]:
        label = self.columns.label
        if label is None or label not in batch:
            return [None] * number
        found = [clean_label(cell) for cell in _class_names(part, label, batch[label])]
        return [None if cell == self.columns.unlabeled else cell for cell in found]


def _picture(cell: Any, place: str) -> Image.Image:
    """Opened, not yet decoded."""
    try:
        if isinstance(cell.get("bytes"), bytes):
            return Image.open(io.BytesIO(cell["bytes"]))
        return Image.open(Path(cell["path"]))
    except (AttributeError, KeyError, TypeError, OSError) as error:
        raise InputError(f"{place} holds no image that Pillow knows.") from error
