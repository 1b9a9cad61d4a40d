"""Examples: the items of a source with their labels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from softmatch.data.pictures import ImageFiles
from softmatch.data.preparations import Preparation
from softmatch.data.shards.streamed import Streamed
from softmatch.errors import InputError
from softmatch.formatting import series_of

UNLABELED = -1
Kind = Literal["array", "image", "series", "text", "vector"]
ROWS = 65536


@dataclass(frozen=True)
class Examples:
    """Items with their labels, −1 where there is none.

    Attributes:
        items: uint8 images (N, C, H, W), float vectors (N, D), float series (N, C, T), other floats (N, …), tokens of texts
            (N, L), or the files of images too many to hold in memory.
        labels: (N,) int64, positions in `classes` or −1.
        test: a test set that the source brings along, if any.
        statistics: mean and standard deviation per channel, of levels in 0 … 1, where they are known of the dataset.
        names: of the items, where the data are a user's own: a file or the number of a row.
        preparation: made the items of files or rows.
        groups: (N,) equal numbers for items with the same content, where that is known.
        augmented: (N, A, …) other versions of each item for strong views, such as back-translations of a text.
        chosen: (N,) True for items that a model chose to be labelled, on which no error is measured; None: there are none.
        refit: items and augmented items by a preparation that knows only the items at these positions, where words are counted.
        recordings: the files that the items come from, where these are recordings.
        streamed: images in shards, which are too many to be examples; the examples are some of them. None: there are no others.
    """

    items: Tensor | ImageFiles
    labels: Tensor
    classes: tuple[str, ...]
    kind: Kind
    test: "Examples | None" = None
    statistics: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    names: Sequence[str] = ()
    preparation: Preparation | None = None
    groups: Tensor | None = None
    augmented: Tensor | None = None
    chosen: Tensor | None = None
    refit: Callable[[Tensor], tuple[Tensor, Tensor | None]] | None = None
    recordings: Sequence[Path] = ()
    streamed: Streamed | None = None

    def __post_init__(self) -> None:
        if len(self.items) != len(self.labels):
            raise InputError(f"there are {len(self.items)} items but {len(self.labels)} labels.")
        if len(self.classes) < 2:
            raise InputError(f"a classifier needs at least two classes, this source has {len(self.classes)}.")
        found = self.labels if any(self.labels.stride()) else self.labels[:1]  # one value, expanded: a plan's, of any number
        if len(found) and (int(found.max()) >= len(self.classes) or int(found.min()) < UNLABELED):
            raise InputError(f"labels must lie in −1 … {len(self.classes) - 1}.")
        if self.augmented is not None and (
            len(self.augmented) != len(self.items) or self.augmented.shape[2:] != tuple(self.items.shape[1:])
        ):
            raise InputError(
                f"augmented items must be versions of the items: {tuple(self.augmented.shape)} for {tuple(self.items.shape)}."
            )
        if self.kind in ("array", "series", "vector") and isinstance(self.items, Tensor):
            for start in range(0, len(self.items), ROWS):  # `isfinite` of all rows would need a copy of them
                wrong = (~torch.isfinite(self.items[start : start + ROWS])).flatten(1).any(1).nonzero()
                if len(wrong):
                    raise InputError(f"item {start + int(wrong[0])} holds NaN or infinity.")

    def __len__(self) -> int:
        return len(self.items)

    @property
    def number(self) -> int:
        """Number of samples of the source: of the examples, or of all in its shards."""
        return len(self) if self.streamed is None else len(self.streamed)

    def describe(self) -> str:
        """Describe them: '1,797 grey images of 8×8, 10 classes'."""
        count, known = f"{self.number:,}", int((self.labels != UNLABELED).sum())
        if self.kind == "image":
            channels, height, width = self.items.shape[1:]
            what = f"{'grey' if channels == 1 else 'colour'} images of {height}×{width}"
            if self.streamed is not None:
                what += f" in {len(self.streamed.members.shards):,} shards"
            what += " (made of files when needed)" if isinstance(self.items, ImageFiles) else ""
        elif self.preparation is not None and self.preparation.takes == "sound":
            what = "recordings"
        elif self.kind == "series":
            what = series_of(*self.items.shape[1:])
        elif self.kind == "array":
            what = f"arrays of {'×'.join(map(str, self.items.shape[1:]))}"
        elif self.kind == "text":
            what = f"texts of up to {self.items.shape[1]} tokens"
        else:
            what = f"vectors of {self.items.shape[1]} features"
        labelled = "" if known == self.number else f", {known:,} with a label"
        return f"{count} {what}, {len(self.classes)} classes{labelled}"


def refuse_files(name: str, where: Path | None) -> None:
    """Raise InputError for a source that is embedded and was given files to read."""
    if where is not None:
        raise InputError(f"source {name!r} is embedded and reads no files: leave out --data {where}.")
