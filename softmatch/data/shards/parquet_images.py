"""Parquet files with a column of images: each is written into the cache as a tar shard, which stays there."""

import io
import tarfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from softmatch.data.readers.columns import LABEL_NAMES, choice
from softmatch.data.readers.labels import clean_labels
from softmatch.data.readers.table_source import Parquet
from softmatch.data.shards.remote import File, expand, find, is_remote, on_disk
from softmatch.errors import InputError, nearest
from softmatch.files.atomic import replacing_file
from softmatch.files.cache import entry
from softmatch.files.paths import expand_home
from softmatch.files.untrusted import parse_json

PARQUET = ".parquet"
IMAGE_NAMES = frozenset({"image", "images", "img", "jpg", "jpeg", "png", "picture", "photo"})
"""Names by which a column of plain bytes is known to hold images."""
ROWS = 1000


def holds_images(pattern: str) -> bool:
    """Tell whether a source is one or several Parquet files, the first of which has a column of images."""
    if not pattern.endswith(PARQUET):
        return False
    if not is_remote(pattern) and not any(sign in pattern for sign in "*?{") and not expand_home(pattern).is_file():
        return False
    return _has_images(find(expand(pattern)[0]))


@lru_cache
def _has_images(shard: File) -> bool:
    return _image_column(Parquet(on_disk(shard))) is not None


def label_column(shard: File, given: str | None) -> str:
    """Find the column of labels; "" where there is none."""
    names = Parquet(on_disk(shard)).names
    found = [given] if given else [name for name in names if name.lower() in LABEL_NAMES]
    if len(found) > 1:
        raise InputError(f"{shard.place}: cannot tell which column holds the labels ({choice(found)}). Choose one with --label.")
    if given and given not in names:
        raise InputError(f"{shard.place} has no column {given!r}. {nearest(given, names)}")
    return found[0] if found else ""


def as_tar(shard: File, label: str) -> File:
    """Give a tar shard with the images of a Parquet file, and with their labels if there is a column of them."""
    copy = entry("shards/parquet", [*shard.identity, label]).with_suffix(".tar")
    if not copy.is_file():
        copy.parent.mkdir(parents=True, exist_ok=True)
        _unpack(shard, label, copy)
    return find(str(copy))


def _unpack(shard: File, label_column: str, copy: Path) -> None:
    table, folder, row = Parquet(on_disk(shard)), Path(shard.place).stem.replace(".", "_"), 0
    image = _image_column(table)
    wanted = [name for name in (image, label_column) if name]
    if image is None or not set(wanted) <= set(table.names):
        raise InputError(f"{shard.place} lacks columns of the first file: {', '.join(wanted)}. Give files of one kind.")
    classes = _about(table, label_column).get("names")
    with replacing_file(copy) as file, tarfile.open(fileobj=file, mode="w") as tar:
        for piece in table.pieces(wanted, ROWS):
            cells: Any = piece[image]
            labels = _labels(list(piece[label_column]), classes, shard.place, row + 1) if label_column else [None] * len(cells)
            for cell, label in zip(cells, labels, strict=True):
                row += 1
                content = cell.get("bytes") if isinstance(cell, Mapping) else cell
                if not content:
                    raise InputError(f"{shard.place}, row {row} holds no image in the column {image!r}. Leave the row out.")
                _add(tar, f"{folder}/{row}.jpg", content)  # decoded by its content, whatever its format
                if label is not None:
                    _add(tar, f"{folder}/{row}.cls", label.encode())


def _labels(cells: Sequence[Any], classes: Sequence[str] | None, place: str, first: int) -> list[str | None]:
    """Give names of classes instead of their numbers; −1 is unlabelled."""
    found: list[Any] = []
    for row, cell in enumerate(cells, first):
        if classes is not None and cell is not None and not -1 <= cell < len(classes):
            raise InputError(f"{place}, row {row}: there is no class {cell}: the file names {len(classes)}.")
        found.append(None if cell is None or cell == -1 else cell if classes is None else classes[cell])
    return clean_labels(found, None, place, first)


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    about = tarfile.TarInfo(name)
    about.size = len(content)
    tar.addfile(about, io.BytesIO(content))


def _image_column(table: Parquet) -> str | None:
    """The first column that holds files of images: those of the library `datasets`, or bytes under a common name."""
    for name in table.names:
        kind, about = table.file.schema_arrow.field(name).type, _about(table, name).get("_type", "Image")
        if table.types.is_struct(kind) and "bytes" in {kind.field(k).name for k in range(kind.num_fields)} and about == "Image":
            return name
        if (table.types.is_binary(kind) or table.types.is_large_binary(kind)) and name.lower() in IMAGE_NAMES:
            return name
    return None


def _about(table: Parquet, column: str) -> Mapping[str, Any]:
    """Find what the library `datasets` has noted about a column in the file."""
    noted = (table.file.schema_arrow.metadata or {}).get(b"huggingface", b"{}")
    found: Any = parse_json(noted.decode("utf-8", "replace"), f"{table.path}, the note of its columns")
    for name in ("info", "features", column):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}
