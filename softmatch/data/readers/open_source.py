"""Open a user's data, whatever they are: folders of images or recordings, tables, arrays, frames, datasets of the hub."""

import re
from pathlib import Path
from typing import Any

from softmatch.data.readers.array_files import FrameTable, is_frame, open_arrays, open_frame, open_npy, open_npz
from softmatch.data.readers.class_folders import MediaKind, media_kind, walk
from softmatch.data.readers.csv_files import TextLines
from softmatch.data.readers.hub_repositories import is_dataset, open_dataset, open_hub
from softmatch.data.readers.image_folder import open_file_table, open_folder, open_single
from softmatch.data.readers.readings import open_readings
from softmatch.data.readers.series_files import SUFFIXES as SERIES_SUFFIXES
from softmatch.data.readers.series_files import has_series_rows, open_series_file
from softmatch.data.readers.table_source import is_delimited, is_table, open_table, read_table
from softmatch.data.records import Columns, Opened, TableReader
from softmatch.data.shards.remote import fetch, is_remote
from softmatch.data.shards.shard_source import open_shards, shards_in
from softmatch.errors import InputError
from softmatch.files.paths import expand_home

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
HUB = "hub:"
"""Prefix that makes it clear that owner/name is a dataset of the hub."""
HEAD = 20
"""Rows that are looked at to find a column of files."""


class NotThere(InputError):  # noqa: N818  # says what is wrong
    """A source, called `where`, that is neither a file, a folder nor an id of the hub."""

    def __init__(self, where: str | Path) -> None:
        super().__init__(f"there is no file or folder {where}, and a dataset of the Hugging Face hub is given as owner/name.")
        self.where = str(where)


def open_source(where: Any, columns: Columns | None = None, need_label: bool = True) -> Opened:
    """Find out what a source is, and open it.

    Args:
        where: path of a folder or file, an id of the hub, a frame, a dataset, an array, or a pair of arrays (X, y).
        need_label: a table without a column of labels is an error.
    """
    columns = columns or Columns()
    if columns.series is not None or columns.time is not None:
        return _open_readings(where, columns, need_label)
    if isinstance(where, tuple) and len(where) == 2:
        return open_frame(where[0], columns, where[1]) if is_frame(where[0]) else open_arrays(*where)
    if is_dataset(where):
        return open_dataset(where, columns, need_label)
    if is_frame(where):
        return open_frame(where, columns, need_label=need_label)
    if not isinstance(where, (str, Path)):
        return open_arrays(where, None)
    if isinstance(where, str) and HUB_ID.fullmatch(where.removeprefix(HUB)) and where.startswith(HUB):
        return open_hub(where.removeprefix(HUB), columns, need_label)
    told = columns.text is not None or columns.features is not None
    if not (told and is_table(Path(where))) and (pattern := shards_in(where)) is not None:
        return open_shards(pattern, columns)
    if is_remote(where):
        found = open_source(fetch(str(where)), columns, need_label)
        found.where = str(where)
        return found
    path = expand_home(where)
    if path.is_dir():
        if path.resolve() == path.resolve().parent:
            raise InputError(f"{where} is the whole file system: give the folder of your data.")
        walked = walk(path)
        if not walked.samples and any(path.rglob("*.parquet")):
            return open_hub(str(path), columns, need_label)
        return open_folder(path, columns, walked)
    if path.is_file():
        return _open_file(path, columns, need_label)
    known = is_table(path) or path.suffix.lower() in (".npz", ".npy", *SERIES_SUFFIXES) or media_kind(path.name) is not None
    if HUB_ID.fullmatch(str(where)) and not known and not path.parent.exists():
        return open_hub(str(where), columns, need_label)
    raise NotThere(where)


def _open_file(path: Path, columns: Columns, need_label: bool) -> Opened:
    if (kind := media_kind(path.name)) is not None:
        return open_single(path, kind)
    if path.suffix.lower() == ".npz":
        return open_npz(path, columns)
    if path.suffix.lower() == ".npy":
        return open_npy(path)
    if path.suffix.lower() in SERIES_SUFFIXES or (columns.series_rows and is_delimited(path) and has_series_rows(path)):
        return open_series_file(path, columns)
    if not is_table(path):
        raise InputError(
            f"{path} is not a file that softmatch reads: give a folder of images or recordings, or a .csv, .tsv, .jsonl, "
            ".parquet, .npz, .ts, .arff, image or sound file."
        )
    reader = read_table(path)
    told = columns.text is not None or columns.features is not None or isinstance(reader, TextLines)
    files = None if told else _column_of_files(reader)
    return open_table(path, columns, need_label, reader) if files is None else open_file_table(path, columns, *files, reader)


def _open_readings(where: Any, columns: Columns, need_label: bool) -> Opened:
    if columns.series is None:
        raise InputError("--time is the time of the readings of a series: also name the column of the series with --series.")
    if is_frame(where):
        return open_readings(FrameTable(where), "frame", columns, need_label)
    path = expand_home(where) if isinstance(where, (str, Path)) else None
    if path is None or not path.is_file() or not is_table(path) or isinstance(reader := read_table(path), TextLines):
        shown = where if path is not None else "this source"
        advice = "a .csv, .tsv, .jsonl or .parquet file, or a frame"
        raise InputError(f"--series is for a table with one row per reading: {advice}. {shown} is not one.")
    return open_readings(reader, str(path), columns, need_label)


def _column_of_files(reader: TableReader) -> tuple[str, MediaKind] | None:
    """Find a column whose first cells are names of image files, or of recordings."""
    for name, cells in next(reader.pieces(reader.names, HEAD), {}).items():
        named = [str(cell) for cell in cells if str(cell).strip()]
        kinds = {media_kind(cell) for cell in named}
        if len(kinds) == 1 and (kind := kinds.pop()) is not None:
            return name, kind
    return None
