"""Examples: what was understood of a source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from softmatch.errors import InputError

UNLABELED = -1


@dataclass(frozen=True)
class Examples:
    """Items with their labels, −1 where there is none.

    Attributes:
        items: uint8 images (N, C, H, W) or float vectors (N, D).
        labels: (N,) int64, positions in `classes` or −1.
        classes: class names.
        kind: what the items are.
        test: a test set that the source brings along, if any.
    """

    items: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    kind: Literal["image", "vector"]
    test: Examples | None = None

    def __post_init__(self) -> None:
        if len(self.items) != len(self.labels):
            raise InputError(f"there are {len(self.items)} items but {len(self.labels)} labels.")
        if len(self.classes) < 2:
            raise InputError(f"a classifier needs at least two classes, this source has {len(self.classes)}.")
        if len(self.labels) and (int(self.labels.max()) >= len(self.classes) or int(self.labels.min()) < UNLABELED):
            raise InputError(f"labels must lie in −1 … {len(self.classes) - 1}.")
        if self.kind == "vector" and not bool(torch.isfinite(self.items).all()):
            row = int((~torch.isfinite(self.items)).any(1).nonzero()[0])
            raise InputError(f"item {row} holds NaN or infinity.")

    def __len__(self) -> int:
        return len(self.items)

    def describe(self) -> str:
        """'1,797 grey images of 8×8, 10 classes'."""
        count, known = f"{len(self):,}", int((self.labels != UNLABELED).sum())
        if self.kind == "image":
            channels, height, width = self.items.shape[1:]
            what = f"{'grey' if channels == 1 else 'colour'} images of {height}×{width}"
        else:
            what = f"vectors of {self.items.shape[1]} features"
        labelled = "" if known == len(self) else f", {known:,} with a label"
        return f"{count} {what}, {len(self.classes)} classes{labelled}"


def refuse_files(name: str, where: Path | None) -> None:
    """Raise InputError for a source that is embedded and was given files to read."""
    if where is not None:
        raise InputError(f"source {name!r} is embedded and reads no files: leave out --data {where}.")
