"""The index of a tar shard, made once and kept in the cache: where each image lies, its key and its label.

Files of one sample follow each other and have the same name up to the first dot: 000/17.jpg and 000/17.cls.
"""

import json
import os
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from softmatch.data.readers.class_folders import SUFFIXES
from softmatch.data.readers.labels import clean_label
from softmatch.data.shards.members import ROW, index_folder
from softmatch.data.shards.remote import File, on_disk
from softmatch.errors import InputError
from softmatch.files.cache import replacing
from softmatch.files.untrusted import parse_json, read_text
from softmatch.formatting import printable

LONGEST_LABEL = 100
"""Characters of a label; a longer text beside an image is a caption."""
LABELS = (".cls", ".json", ".txt")
"""Files that may hold the label of an image, the first of them counts."""


class ShardIndex(NamedTuple):
    """Contents of a shard.

    Attributes:
        samples: number of images.
        labels: different labels.
        others: files by suffix of samples without an image.
    """

    samples: int
    labels: list[str]
    others: dict[str, int]


class _Entry(NamedTuple):
    key: str
    suffix: str
    offset: int
    size: int


def open_index(shard: File) -> ShardIndex:
    """Read the index of a shard. It is made first where there is none, for which the whole shard is read once.

    Raises:
        InputError: the shard is damaged, or is no tar file.
    """
    folder = index_folder(shard)
    if not (folder / "shard.json").is_file():
        with replacing(folder) as made:
            _make_index(shard, made)
    about = json.loads(read_text(folder / "shard.json"))
    return ShardIndex(about["samples"], about["labels"], about["others"])


def keys_of(shard: File) -> list[str]:
    """The key of each sample of a shard: its name up to the first dot."""
    return read_text(index_folder(shard) / "keys.txt").split("\n")[:-1]


def _make_index(shard: File, folder: Path) -> None:
    rows, keys, labels, others = list[tuple[int, int, int]](), list[str](), dict[str, int](), Counter[str]()
    with on_disk(shard).open("rb") as file:
        for key, files in groupby(_entries(shard, file), key=lambda each: each.key):
            found = {each.suffix: each for each in files}
            image = next((each for suffix, each in found.items() if suffix in SUFFIXES), None)
            if image is None:
                others.update(list(found))
                continue
            label = _label(shard, file, found)
            rows.append((image.offset, image.size, -1 if label is None else labels.setdefault(label, len(labels))))
            keys.append(printable(key))
    np.array(rows, dtype=ROW).tofile(folder / "members.bin")
    (folder / "keys.txt").write_text("".join(f"{key}\n" for key in keys), encoding="utf-8")
    about = {"samples": len(rows), "labels": list(labels), "others": dict(others.most_common(20))}
    (folder / "shard.json").write_text(json.dumps(about), encoding="utf-8")


def _entries(shard: File, file: BinaryIO) -> Iterator[_Entry]:
    """Give the plain files of a tar file in order."""
    try:
        with tarfile.open(fileobj=file, mode="r:") as tar:
            while (member := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # it would keep them all
                folder, _, name = member.name.rpartition("/")
                stem, _, suffix = name.partition(".")
                if member.isreg() and not member.issparse() and stem:
                    yield _Entry(f"{folder}/{stem}" if folder else stem, f".{suffix.lower()}", member.offset_data, member.size)
    except tarfile.TarError as error:
        with on_disk(shard).open("rb") as start:
            packed = start.read(2) == b"\x1f\x8b"
        advice = "It is compressed: unpack it with gunzip." if packed else "Copy it again, or leave it out."
        raise InputError(f"{shard.place} cannot be read as a tar file: {error}. {advice}") from error


def _label(shard: File, file: BinaryIO, found: Mapping[str, _Entry]) -> str | None:
    """The label beside an image: the text of .cls or of a short .txt, or "label" in .json."""
    source = next((found[suffix] for suffix in LABELS if suffix in found), None)
    if source is None:
        return None
    text = os.pread(file.fileno(), source.size, source.offset).decode("utf-8", "replace")
    where = f"{shard.place}, {source.key}{source.suffix}"
    if source.suffix == ".json":
        about = parse_json(text, where)
        value = about.get("label") if isinstance(about, dict) else None
    else:
        value = text
    try:
        label = clean_label(value)
    except TypeError as error:
        raise InputError(f"{where}: the label is {error}. A label is a text or a number.") from error
    return None if label is None or len(label) > LONGEST_LABEL or "\n" in label else label
