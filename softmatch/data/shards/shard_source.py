"""Shards of images (tar, Parquet) as a source: the samples with a label, which are read, and a pool of all, which is streamed."""

import os
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from softmatch.data.preparations.file_reading import by_threads
from softmatch.data.readers.class_folders import media_kind
from softmatch.data.readers.labels import clean_label
from softmatch.data.records import Columns, Finding, InputKind, Records, about
from softmatch.data.shards.lanes import LANES, WINDOW
from softmatch.data.shards.members import Member, Members, read_rows
from softmatch.data.shards.parquet_images import PARQUET, as_tar, holds_images, label_column
from softmatch.data.shards.remote import LIMIT, File, cache_limit, expand, find, is_remote
from softmatch.data.shards.tar_index import ShardIndex, keys_of, open_index
from softmatch.errors import InputError
from softmatch.files.paths import expand_home

SUFFIX = ".tar"


def shards_in(where: object) -> str | None:
    """Give the pattern of the shards that a source names: itself, or all tar files in a folder without images; None: none."""
    if not isinstance(where, (str, Path)):
        return None
    text = str(where)
    if text.endswith(SUFFIX) or holds_images(text):
        return text if is_remote(text) else os.path.abspath(expand_home(text))  # noqa: PTH100  # links stay as they are
    folder = expand_home(text)
    if is_remote(text) or not folder.is_dir():
        return None
    inside = list(folder.iterdir())
    others = any(path.is_dir() or media_kind(path.name) is not None for path in inside)
    return str(folder.absolute() / f"*{SUFFIX}") if not others and any(path.suffix == SUFFIX for path in inside) else None


def refuse_shards(found: object, what: str) -> None:
    """Raise InputError if there are shards, which hold too many samples for some uses."""
    if found is not None:
        raise InputError(f"{what} needs samples in memory, and shards are streamed. Give a folder with some of the images.")


@dataclass
class OpenedShards:
    """Tar shards whose indexes are there; see `softmatch.data.records.Opened`."""

    where: str
    shards: list[File]
    indexes: list[ShardIndex]
    columns: Columns = field(default_factory=Columns)
    findings: list[Finding] = field(default_factory=list)
    test: None = None

    @property
    def kind(self) -> InputKind:
        """Images: other shards are refused."""
        return "image"

    @cached_property
    def members(self) -> Members:
        """All images."""
        return Members(self.shards, [index.samples for index in self.indexes])

    def read(self, named: Collection[str] = ()) -> Records:
        """Give the images that have a label, and those with these names; all of them are the pool."""
        positions, names, labels, start = list[int](), list[str](), list[str | None](), 0
        for shard, index, count in zip(self.shards, self.indexes, self.members.counts.tolist(), strict=True):
            codes, words = read_rows(shard)["label"], self._words(index)
            used = np.array([word is not None for word in words] + [False])[codes] if words else np.zeros(count, dtype=bool)
            keys = keys_of(shard) if named or used.any() else []
            found = [k for k in range(count) if used[k] or keys[k] in named] if named else used.nonzero()[0].tolist()
            positions += [start + k for k in found]
            names += [keys[k] for k in found]
            labels += [words[codes[k]] if used[k] else None for k in found]
            start += count
        twice = [repr(name) for name, count in Counter(names).items() if count > 1 and name in named]
        text = f"{self.where} has several samples of a name that is to be labelled"
        self.findings += about("stop", text, twice, "Names must differ, also between shards.")
        members = [self.members[position] for position in positions]
        return Records("image", members, names, labels, pool=self.members, places=positions)

    def stream(self, rows: int) -> Iterator[Records]:
        """Give all images in pieces, shard by shard."""
        for shard, index in zip(self.shards, self.indexes, strict=True):
            found, keys, words = read_rows(shard), keys_of(shard), [*self._words(index), None]
            for start in range(0, len(found), rows):
                part = slice(start, start + rows)
                members = [Member(shard, int(row["offset"]), int(row["size"])) for row in found[part]]
                yield Records("image", members, keys[part], [words[code] for code in found[part]["label"]])

    def _words(self, index: ShardIndex) -> list[str | None]:
        word = clean_label(self.columns.unlabeled)
        return [None if label == word else label for label in index.labels]


def open_shards(pattern: str, columns: Columns) -> OpenedShards:
    """Open tar or Parquet files; the index of each is made where there is none yet.

    Raises:
        InputError: a file is not there or damaged, or there is no image in them.
    """
    if columns.text is not None or columns.features is not None:
        raise InputError("--text and --features are for tables; shards hold images.")
    files = [each for each in by_threads(find, expand(pattern)) if isinstance(each, File)]
    if pattern.endswith(PARQUET):
        label = label_column(files[0], columns.label)
        files = [each for each in by_threads(partial(as_tar, label=label), files) if isinstance(each, File)]
    indexes = [each for each in by_threads(open_index, files) if isinstance(each, ShardIndex)]
    others = sum((Counter(index.others) for index in indexes), Counter[str]())
    kinds = ", ".join(f"{suffix} ({count:,})" for suffix, count in others.most_common(5))
    if not any(index.samples for index in indexes):
        what = f" but files of other kinds: {kinds}. Give texts as a table, recordings as a folder" if others else ""
        raise InputError(f"{pattern} holds no images{what}.")
    found = OpenedShards(pattern, files, indexes, replace(columns, label=None))
    if columns.label is not None and not pattern.endswith(PARQUET):
        found.findings.append(
            Finding("note", f"--label {columns.label} is not used: labels lie beside the images (.cls, .json).")
        )
    needed = 2 * WINDOW * LANES * max(each.size for each in files)
    if is_remote(files[0].place) and cache_limit() < min(needed, sum(each.size for each in files)):
        text = f"shards are fetched again and again: {needed / 1e9:.2g} GB are in use at a time. Raise {LIMIT}."
        found.findings.append(Finding("warning", text))
    if others:
        found.findings.append(Finding("note", f"files without an image of the same name are left out: {kinds}."))
    return found
