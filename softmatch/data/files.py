"""Images that stay in their files until a worker process decodes them: what does not fit into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor


@dataclass(frozen=True)
class ImageFiles:
    """The paths of N images, used where a tensor (N, 3, side, side) would be.

    Attributes:
        paths: one file for each image.
        side: the images' size once cropped.
        resize: the size they are resized to before that.
    """

    paths: Sequence[Path]
    side: int = 224
    resize: int = 256

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, 3, side, side), as of the tensor that these files stand for."""
        return (len(self.paths), 3, self.side, self.side)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, chosen: Tensor) -> ImageFiles:
        """The images at these positions."""
        return ImageFiles([self.paths[position] for position in chosen.tolist()], self.side, self.resize)
