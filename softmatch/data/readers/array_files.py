"""Arrays and frames as sources: in memory, .npz and .npy. Nothing in a file is unpickled."""

import lzma
import math
import os
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from inspect import getattr_static
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from softmatch.data.readers.labels import are_missing, clean_labels
from softmatch.data.readers.table_source import OpenedTable
from softmatch.data.records import Columns, Finding, Found, Piece, numbered, ragged, refuse_twice
from softmatch.errors import InputError, first_line, nearest

X_KEYS = ("x", "data", "features", "images", "x_train")
Y_KEYS = ("y", "label", "labels", "target", "targets", "y_train")
"""Names of arrays in a .npz, in any case."""
FAILURES = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, EOFError, OSError, KeyError),  # of the archive
    *(ValueError, TypeError, OverflowError, SyntaxError, tokenize.TokenError, MemoryError),  # of an array's header
    RuntimeError,  # of both: encryption, endless nesting
)
"""Errors that reading a damaged file leads to."""


def open_arrays(x: Any, y: Any = None, where: str = "arrays") -> Found:
    """Open arrays, tensors or lists in Python.

    Args:
        x: numbers (n, …), n texts, or a list of n series of different lengths (`uneven_series`).
        y: n labels, text or numbers; None, NaN, "" and the number −1 are unlabelled. None: there are no labels at all.
    """
    inputs = _inputs(x, where)
    labels = [None] * len(inputs) if y is None else array_labels(y, where)
    if len(labels) != len(inputs):
        raise InputError(f"{where}: there are {len(inputs):,} items but {len(labels):,} labels.")
    if inputs.dtype.kind in "UO" and isinstance(inputs[0], str):
        return Found(where, numbered(inputs.tolist(), "text", labels))
    return Found(where, numbered(inputs, "array", labels))


def array_labels(y: Any, where: str = "y") -> list[str | None]:
    """Read labels as text, None where an item has none: see `open_arrays`."""
    y = _readable(y, where) if isinstance(y, np.ndarray) and y.dtype.kind == "U" else y
    values = cells_of(y)
    if not isinstance(values, (list, tuple)):
        raise InputError(f"{where}: the labels must be a list or an array of one dimension, one label for each item.")
    if values and all(isinstance(value, (list, tuple)) and len(value) == 1 for value in values):
        values = [value[0] for value in values]
    if any(isinstance(value, (list, tuple)) and len(value) > 1 for value in values):
        raise InputError(f"{where}: the labels must have one dimension. Of a matrix with one column per class, give argmax(1).")
    missing = are_missing(values)
    return clean_labels([None if none else value for value, none in zip(values, missing, strict=True)], place=where)


def cells_of(column: Any) -> Any:
    """Give the cells of a column of numpy, torch, pandas, polars or arrow as Python objects; anything else as it is."""
    name = next((name for name in ("tolist", "to_list", "to_pylist") if hasattr(column, name)), None)
    return column if name is None else getattr(column, name)()


def _inputs(x: Any, where: str) -> npt.NDArray[Any]:
    if hasattr(x, "toarray") and not isinstance(x, np.ndarray):
        raise InputError(f"{where}: sparse matrices are not read. Give x.toarray().")
    if (series := uneven_series(x)) is not None:
        return series
    try:
        inputs = np.asarray(x)
    except (ValueError, TypeError, RuntimeError) as error:  # ragged lists; tensors that need a gradient or are elsewhere
        raise InputError(f"{where}: cannot be converted to an array: {first_line(error)}") from error
    if inputs.dtype.kind == "O" and not (inputs.ndim == 1 and all(isinstance(value, str) for value in inputs)):
        try:
            inputs = inputs.astype(np.float64)
        except (ValueError, TypeError) as error:
            reason = f"holds Python objects that are not numbers ({error}). Give numbers, texts, or a frame of columns."
            raise InputError(f"{where}: {reason}") from error
    if inputs.dtype.kind not in "biufUO":
        raise InputError(f"{where}: holds {inputs.dtype}, not numbers or texts.")
    if inputs.ndim == 0 or len(inputs) == 0:
        raise InputError(f"{where}: there are no items in it.")
    if inputs.dtype.kind == "U" and inputs.ndim != 1:
        raise InputError(f"{where}: texts must have one dimension. Give a frame of columns instead.")
    return _readable(inputs, where) if inputs.dtype.kind == "U" else inputs


def uneven_series(x: Any, equal: bool = False) -> npt.NDArray[Any] | None:
    """Take a list of arrays (T,) or (channels, T) of different lengths as series; None: it is something else.

    Args:
        equal: also take series of one length.
    """
    if not isinstance(x, (list, tuple)) and getattr(getattr(x, "dtype", None), "kind", "") != "O":
        return None
    if not len(x) or not all(isinstance(one, np.ndarray) and one.ndim in (1, 2) and one.dtype.kind in "if" for one in x):
        return None
    same_channels = len({(one.ndim, *one.shape[:-1]) for one in x}) == 1
    return ragged(x) if same_channels and (equal or len({one.shape for one in x}) > 1) else None


def _readable(texts: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
    """Replace half of a pair that is one character by "?": it cannot be written. Numpy itself takes any number for a letter."""
    if not texts.dtype.itemsize:
        return texts
    whole = np.ascontiguousarray(texts)
    codes = whole.view(np.dtype(np.uint32).newbyteorder(whole.dtype.byteorder))
    if codes.size and int(codes.max()) > sys.maxunicode:
        raise InputError(f"{where} is damaged: its texts hold characters that do not exist.")
    halves = (codes >= 0xD800) & (codes <= 0xDFFF)
    return np.where(halves, ord("?"), codes).astype(codes.dtype).view(whole.dtype) if halves.any() else texts


def open_npz(path: Path, columns: Columns) -> Found:
    """Open the arrays of a .npz: x and y, or x_train and y_train with x_unlabeled, x_test and y_test.

    The label and features of `columns` name other arrays for y and x.
    """
    refuse_unfit(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            return _from_archive(archive, path, columns)
    except InputError:
        raise
    except FAILURES as error:
        raise _unreadable(path, error) from error


def _from_archive(archive: Any, path: Path, columns: Columns) -> Found:
    keys = list(archive.files)
    if columns.features is not None and len(columns.features) != 1:
        raise InputError(f"{path}: --features must name one of its arrays: {', '.join(keys)}.")
    x_key = _key(keys, X_KEYS, columns.features[0] if columns.features else None, path, "--features")
    y_key = _key(keys, Y_KEYS, columns.label, path, "--label")
    if x_key is None:
        there = ", ".join(keys) or "it has none"
        raise InputError(f"{path}: cannot tell which array holds the items ({there}). Choose one with --features.")

    def labels(key: str) -> list[str | None]:
        place = f"{path}, {key}"
        return clean_labels(array_labels(archive[key], place), columns.unlabeled, place)

    x, given = archive[x_key], None if y_key is None else labels(y_key)
    opened = open_arrays(x, given, f"{path}, {x_key}")
    by_name = {key.lower(): key for key in keys}
    if (further := by_name.get("x_unlabeled")) not in (None, x_key):
        more = archive[further]
        if more.shape[1:] != x.shape[1:] or more.dtype != x.dtype:
            kinds = f"{further} holds {_shape(more)} items, {x_key} {_shape(x)} items"
            raise InputError(f"{path}: {kinds}: they must have the same type and shape.")
        opened = open_arrays(np.concatenate([x, more]), [*opened.records.labels, *[None] * len(more)], f"{path}, {further}")
    opened.where = str(path)
    opened.columns = replace(columns, text=None, augmented=None)
    if "x_test" in by_name and "y_test" in by_name and by_name["x_test"] != x_key:
        opened.test = open_arrays(archive[by_name["x_test"]], labels(by_name["y_test"]), f"{path}, x_test")
    return opened


def _key(keys: Sequence[str], known: Sequence[str], given: str | None, path: Path, option: str) -> str | None:
    """Find the one array with a known name; None: there is none."""
    if given is not None:
        if given not in keys:
            raise InputError(f"{path} has no array {given!r}. {nearest(given, keys)}")
        return given
    found = [key for key in keys if key.lower() in known]
    if len(found) > 1:
        raise InputError(f"{path}: cannot tell which array is meant ({' or '.join(found)}). Choose one with {option}.")
    return found[0] if found else None


def _shape(array: npt.NDArray[Any]) -> str:
    return f"{array.dtype} {'×'.join(map(str, array.shape[1:])) or 'single'}"


def open_npy(path: Path) -> Found:
    """Open the items of a .npy, which has no labels; they are read from the file as they are used."""
    try:
        x = np.load(path, mmap_mode="r", allow_pickle=False)
    except FAILURES as error:
        raise _unreadable(path, error) from error
    if not isinstance(x, np.ndarray):
        raise InputError(f"{path} is an archive of arrays: rename it to .npz.")
    opened = open_arrays(x, None, str(path))
    advice = "For training, save them with their labels: np.savez('data.npz', x=x, y=y)."
    opened.findings.append(Finding("note", f"{path} holds items without labels. {advice}"))
    return opened


def refuse_unfit(path: Path) -> None:
    """Raise InputError for a file that is not a zip archive, or that decompresses to more than the machine can hold."""
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is cut off or damaged: it is not a complete .npz archive.")
    try:
        with zipfile.ZipFile(path) as archive:
            largest = max((member.file_size for member in archive.infolist()), default=0)
    except FAILURES as error:
        raise InputError(f"{path} is cut off or damaged: {error}.") from error
    there = _memory()
    if largest > there:
        raise InputError(f"{path} decompresses to {largest / 1e9:,.1f} GB; this machine has {there / 1e9:,.1f} GB of memory.")


def _memory() -> float:
    """Bytes of memory; without a limit where the system does not tell."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else math.inf


def _unreadable(path: Path, error: Exception) -> InputError:
    if "allow_pickle" in str(error) or "Python objects" in str(error):
        return InputError(f"{path} holds Python objects, which are not read. Save numbers, or texts with astype('U').")
    return InputError(f"{path} cannot be read: {first_line(error).rstrip('.')}.")


def is_frame(samples: Any) -> bool:
    """Tell whether samples are a frame of pandas, or like one. A lazy one is not asked for its columns, which may take long."""
    return getattr_static(samples, "columns", None) is not None and hasattr(samples, "__getitem__")


def open_frame(frame: Any, columns: Columns, y: Any = None, need_label: bool = True) -> OpenedTable:
    """Open a frame of pandas or of another library; `y` are the labels, if they are not in the frame: see `open_arrays`."""
    labels = None if y is None else array_labels(y)
    reader = FrameTable(frame, labels)
    if labels is None:
        return OpenedTable(reader, "frame", columns, need_label)
    return OpenedTable(reader, "frame", replace(columns, label=reader.names[-1]), need_label=True)


class FrameTable:
    """A frame as a table, with the labels as its last column where they are given beside it."""

    def __init__(self, frame: Any, labels: Sequence[str | None] | None = None) -> None:
        self.frame, self.labels = frame, labels
        self.findings: list[Finding] = []
        if hasattr(type(frame), "collect"):
            raise InputError("frame: it is lazy, and its cells are not known yet. Give frame.collect().")
        columns = frame.column_names if hasattr(type(frame), "column_names") else frame.columns  # arrow's are not the names
        self.own = {str(name): name for name in columns}
        names = [str(name) for name in columns]
        refuse_twice(names, "frame")
        if not names:
            raise InputError("frame: it has no columns.")
        if labels is not None:
            if len(labels) != len(frame):
                raise InputError(f"frame: there are {len(frame):,} rows but {len(labels):,} labels.")
            names.append("y" + "_" * max((len(name) for name in names if name.strip("_") == "y"), default=0))
        self.names = tuple(names)

    def pieces(self, wanted: Sequence[str], rows: int) -> Iterator[Piece]:
        """Give these columns, up to `rows` rows at a time."""
        columns = {name: self._cells(name) for name in wanted}
        for start in range(0, len(self.frame), rows):
            yield {name: cells[start : start + rows] for name, cells in columns.items()}

    def _cells(self, name: str) -> Any:
        if name not in self.own:
            return self.labels
        column = self.frame[self.own[name]]
        dtype = getattr(column, "dtype", None)
        if isinstance(dtype, np.dtype) and dtype.kind in "iuf":
            return column.to_numpy()
        return cells_of(column)
