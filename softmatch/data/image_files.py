"""Images that stay in their files until a worker process decodes them, because they do not fit into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image
from torch import Tensor

from softmatch.data.pictures import read_image


@dataclass(frozen=True)
class ImageFiles:
    """The paths of N images, used where a tensor (N, channels, side, side) would be.

    Attributes:
        paths: one file for each image.
        side: the images' size once cropped.
        resize: the size they are resized to before; if it equals `side`, they are not cropped.
        channels: 3: RGB; 1: grey.
        upright: turned by their EXIF orientation, which ImageNet's protocol does not do.
    """

    paths: Sequence[Path]
    side: int = 224
    resize: int = 256
    channels: int = 3
    upright: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, channels, side, side), the shape of the tensor that these files replace."""
        return (len(self.paths), self.channels, self.side, self.side)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, chosen: Tensor) -> ImageFiles:
        """Take the images at these positions."""
        return replace(self, paths=[self.paths[position] for position in chosen.tolist()])

    def open(self, path: Path) -> Image.Image:
        """Decode one of the images, resized but not cropped.

        Raises:
            InputError: it cannot be read.
        """
        return read_image(path, self.resize, self.channels, self.upright)
