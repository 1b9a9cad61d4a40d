"""The samples of a source as the page shows them: numbered, images decoded anew at the size of the screen."""

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

from softmatch.data.fingerprint import sample_digest
from softmatch.data.label_file import Given, locate
from softmatch.data.pictures import Picture, content_digest, decode, load, look
from softmatch.data.preparations.sounds import as_wav, draw_spectrogram
from softmatch.data.readers.open_source import open_source
from softmatch.data.readers.table_source import OpenedTable
from softmatch.data.records import Records
from softmatch.data.shards.shard_source import refuse_shards, shards_in
from softmatch.data.sources import SOURCES
from softmatch.data.understanding import Reading, stop
from softmatch.errors import InputError
from softmatch.files.atomic import write_atomically
from softmatch.files.cache import cache_folder
from softmatch.labeling.label_log import LabelLog

SIDES = (160, 1200)
"""Largest sides in pixels that images are served in: in a grid, and alone."""
LOSSLESS = 256 * 256
"""Images of up to so many pixels are served as PNG: small ones are enlarged on the screen, which shows the flaws of JPEG."""
WHOLE = 2**28
"""Bytes of a table up to which its other columns are kept in memory and shown too."""
LONGEST_TEXT = 20_000
LONGEST_CELL = 500


class ShownSamples:
    """Samples of a source in its order; the position of a sample is its id.

    Attributes:
        where: name of the source.
        column: column of the texts, if any.
        epoch: digest of all names: ids of a page belong to the same samples if it is the same.
        notes: findings about the source.
    """

    def __init__(self, source: str, reading: Reading) -> None:
        if source in SOURCES:
            raise InputError(
                f"{source} is a named dataset, whose labels are known. Give a folder or a table of your own to label."
            )
        refuse_shards(shards_in(source), "`softmatch label`")
        opened = open_source(source, reading.columns, need_label=False)
        if isinstance(opened, OpenedTable) and Path(source).is_file() and Path(source).stat().st_size <= WHOLE:
            read = {
                *(opened.columns.features or ()),
                opened.columns.text,
                opened.columns.label,
                *(opened.columns.augmented or ()),
            }
            opened.columns = replace(opened.columns, kept=tuple(name for name in opened.reader.names if name not in read))
        self.records: Records = opened.read()
        stop(opened.findings)
        if self.records.kind == "array":
            raise InputError(
                f"{opened.where} holds arrays, which cannot be shown. Give a folder of images or recordings, or a table."
            )
        if not len(self.records):
            raise InputError(f"{opened.where} has no samples.")
        self.where, self.column = opened.where, opened.columns.text
        self.notes = [finding.text for finding in opened.findings if finding.level == "warning"]
        self.ids = {name: position for position, name in enumerate(self.records.names)}
        self.epoch = hashlib.blake2b("\n".join(self.records.names).encode("utf-8", "replace"), digest_size=8).hexdigest()
        self._digests: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self.records)

    @property
    def kind(self) -> str:
        return self.records.kind

    @cached_property
    def known(self) -> dict[str, str]:
        """Labels that the source has itself, by name."""
        return {name: label for name, label in zip(self.records.names, self.records.labels, strict=True) if label is not None}

    def follow(self, log: LabelLog) -> tuple[int, set[str]]:
        """Give labels to the names that their samples have now: files were renamed, or rows sorted, while no server ran.

        Returns:
            the number of names that have changed, and the names of samples that are gone, or whose content is another.
        """
        given = [Given(name, name, value.label or "", "", value.digest) for name, value in log.values.items()]
        found, names = locate(given, self.records.names, self.digest, self.where), self.records.names
        now = {row.name: names[position] for position, rows in found.by_position.items() for row in rows}
        moved = {old: new for old, new in now.items() if old != new and (new not in log.values or now.get(new) != new)}
        if moved:
            log.move(uuid.uuid4().hex, moved)
        return len(moved), {name for name in log.values if name not in {*now.values()}}

    def is_there(self, position: int) -> bool:
        """False for a sample whose file was deleted since the source was read."""
        inputs = self.records.inputs
        return not (isinstance(path := inputs[position], Path) and not path.exists()) if isinstance(inputs, list) else True

    def show(self, position: int, brief: bool = False) -> dict[str, Any]:
        """Describe a sample for the page; its image is fetched separately."""
        shown: dict[str, Any] = {"id": position, "name": self.records.names[position]}
        inputs, longest = self.records.inputs, 240 if brief else LONGEST_TEXT
        if self.kind == "text":
            shown["text"] = str(inputs[position])[:longest]  # type: ignore[index]  # as the kind says
        elif isinstance(inputs, Mapping):
            shown["cells"] = _cells(inputs, position, 6 if brief else None)
        if self.records.kept and not brief:
            shown["others"] = _cells(self.records.kept, position)
        return shown

    def digest(self, position: int) -> str:
        """Compute the digest of a sample's content, in hex: training finds the sample by it if it has moved."""
        if position not in self._digests:
            self._digests[position] = sample_digest(self.records, position)
        return self._digests[position]

    def image(self, position: int, side: int) -> tuple[bytes, str]:
        """Decode an image and encode it anew, at most `side` pixels large; also gives its media type. Grids get cached ones.

        The picture of a recording is its spectrogram.
        """
        place = None
        if side == SIDES[0]:
            place = self._cached(position)
            if place is not None and place.is_file():
                return _typed(place.read_bytes())
        picture = self._picture(position)
        if self.kind == "sound":
            assert isinstance(picture, Path)
            made = BytesIO()
            self._digests[position] = content_digest(picture).hex()
            draw_spectrogram(picture).save(made, "PNG")
            return _typed(made.getvalue())
        stored = load(picture) if isinstance(picture, Path) else picture
        self._digests[position] = content_digest(stored).hex()
        header = look(stored)
        scale = min(1.0, side / max(header.width, header.height))
        size = max(1, round(header.width * scale)), max(1, round(header.height * scale))
        made, pixels = BytesIO(), decode(stored, size, 3, upright=True)
        if size[0] * size[1] <= LOSSLESS:
            pixels.save(made, "PNG")
        else:
            pixels.save(made, "JPEG", quality=88)
        place = self._cached(position) if side == SIDES[0] and scale < 1.0 else None  # others are small files already
        if place is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(place, made.getvalue())
        return _typed(made.getvalue())

    def sound(self, position: int) -> bytes:
        """Decode a recording and encode it anew as WAV, which every browser plays."""
        path = self._picture(position)
        assert isinstance(path, Path)
        return as_wav(path)

    def _cached(self, position: int) -> Path | None:
        digest = self._digests.get(position)
        return None if digest is None else cache_folder() / "thumbnails" / digest[:2] / f"{digest}-{SIDES[0]}"

    def _picture(self, position: int) -> Picture:
        found: Picture = self.records.inputs[position]  # type: ignore[index, assignment]  # as the kind says
        return found


def _cells(columns: Mapping[str, Any], position: int, most: int | None = None) -> dict[str, str]:
    """Cells of a row as texts."""
    return {name: str(column[position])[:LONGEST_CELL] for name, column in list(columns.items())[:most]}


def _typed(content: bytes) -> tuple[bytes, str]:
    return content, "image/png" if content.startswith(b"\x89PNG") else "image/jpeg"
