"""A user's own data: folders of images, tables, arrays, frames, datasets of the hub. Which of them it is, is found out here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from softmatch.data.own.arrays import open_arrays, open_frame, open_npy, open_npz
from softmatch.data.own.folder import SUFFIXES, open_folder, open_image, open_image_table
from softmatch.data.own.hub import open_hub
from softmatch.data.own.tables import is_table, open_table, read_head
from softmatch.data.own.walk import walk
from softmatch.data.records import Columns, Opened
from softmatch.data.samples import is_frame
from softmatch.data.sources import SOURCES
from softmatch.errors import InputError, nearest
from softmatch.files.paths import expand_home

__all__ = ["open_source"]

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def open_source(where: Any, columns: Columns | None = None, need_label: bool = True) -> Opened:
    """Find out what a source is, and open it.

    Args:
        where: the path of a folder or file, an id of the hub, a frame, an array, or a pair of arrays (X, y).
        columns: which columns are what, where the user says so.
        need_label: whether a table without a column of labels is an error.
    """
    columns = columns or Columns()
    if isinstance(where, tuple) and len(where) == 2:
        return open_frame(where[0], columns, where[1]) if is_frame(where[0]) else open_arrays(*where)
    if is_frame(where):
        return open_frame(where, columns, need_label=need_label)
    if not isinstance(where, (str, Path)):
        return open_arrays(where, None)
    path = expand_home(where)
    if path.is_dir():
        if path.resolve() == path.resolve().parent:
            raise InputError(f"{where} is the whole file system: give the folder of your images.")
        if any(path.rglob("*.parquet")) and not walk(path).images:
            return open_hub(str(path), columns, need_label)
        return open_folder(path, columns)
    if path.is_file():
        return _open_file(path, columns, need_label)
    known = is_table(path) or path.suffix.lower() in (".npz", ".npy", *SUFFIXES)
    if HUB_ID.fullmatch(str(where)) and not known and not path.parent.exists():
        return open_hub(str(where), columns, need_label)
    raise InputError(
        f"there is no file or folder {where}, and no source of that name. {nearest(str(where), SOURCES)} "
        "A dataset of the Hugging Face hub is given as owner/name."
    )


def _open_file(path: Path, columns: Columns, need_label: bool) -> Opened:
    suffix = path.suffix.lower()
    if suffix in SUFFIXES:
        return open_image(path)
    if suffix == ".npz":
        return open_npz(path, columns)
    if suffix == ".npy":
        return open_npy(path)
    if is_table(path):
        files = _column_of_images(path, columns)
        return open_table(path, columns, need_label) if files is None else open_image_table(path, columns, files)
    raise InputError(
        f"{path} is not a kind of file that softmatch reads: give a folder of images, or a .csv, .tsv, .jsonl, .parquet, .npz or "
        "image file."
    )


def _column_of_images(path: Path, columns: Columns) -> str | None:
    """The column of a table whose first cells name image files beside the table."""
    if columns.text is not None or columns.features is not None:
        return None
    for name, cells in read_head(path, 20).items():
        named = [str(cell) for cell in cells if str(cell).strip()]
        if named and all(Path(cell).suffix.lower() in SUFFIXES for cell in named):
            return name
    return None
