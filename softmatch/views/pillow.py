"""The views of one Pillow image at a time, for worker processes that read files or large images.

Same operations, ranges and switches as `ImageViews`; given the same draws the pixels are the same.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageDraw, ImageEnhance, ImageOps
from torch import Generator, Tensor

from softmatch.views.image import RANDAUGMENT, ImageViews
from softmatch.views.randaugment import cutout_color

Pixels = npt.NDArray[np.uint8]


def _affine(image: Image.Image, *matrix: float) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, matrix)


OPERATIONS: dict[str, Callable[[Image.Image, float], Image.Image]] = {
    "autocontrast": lambda image, _: ImageOps.autocontrast(image),
    "brightness": lambda image, factor: ImageEnhance.Brightness(image).enhance(factor),
    "color": lambda image, factor: ImageEnhance.Color(image).enhance(factor),
    "contrast": lambda image, factor: ImageEnhance.Contrast(image).enhance(factor),
    "equalize": lambda image, _: ImageOps.equalize(image),
    "identity": lambda image, _: image,
    "posterize": lambda image, bits: ImageOps.posterize(image, int(bits)),
    "rotate": lambda image, degrees: image.rotate(degrees),
    "sharpness": lambda image, factor: ImageEnhance.Sharpness(image).enhance(factor),
    "shear_x": lambda image, amount: _affine(image, 1, amount, 0, 0, 1, 0),
    "shear_y": lambda image, amount: _affine(image, 1, 0, 0, amount, 1, 0),
    "solarize": lambda image, threshold: ImageOps.solarize(image, threshold),  # type: ignore[arg-type]  # takes any number
    "translate_x": lambda image, share: _affine(image, 1, 0, share * image.width, 0, 1, 0),
    "translate_y": lambda image, share: _affine(image, 1, 0, 0, 0, 1, share * image.height),
}
"""Pillow's name of each operation of `RANDAUGMENT`."""


class Draw(NamedTuple):
    """Everything random about one view of one image.

    Attributes:
        operations: names and magnitudes, in the order in which they are applied.
        square: side, x and y of the cutout as shares in 0 … 1 of the largest side, the width and the height.
        place: where among the possible shifts or crops this one lies, as shares in 0 … 1 of their number.
        flip: mirror the image.
    """

    operations: Sequence[tuple[str, float]] = ()
    square: tuple[float, float, float] | None = None
    place: tuple[float, float] = (0.5, 0.5)
    flip: bool = False


class PillowViews:
    """ω and Ω of one grey or RGB image, as uint8 (C, H, W); `ImageViews.plain` normalises whole batches of them later.

    Args:
        views: whose settings these are.
        side: an image larger than this is cropped to it, at random or for `plain` in the middle, instead of being shifted
            by up to `views.pad` pixels.
    """

    def __init__(self, views: ImageViews, side: int | None = None) -> None:
        self.views, self.side = views, side

    def plain(self, image: Image.Image) -> Tensor:
        return _as_tensor(self._moved(image, Draw()))

    def weak(self, image: Image.Image, generator: Generator) -> Tensor:
        return _as_tensor(self._moved(image, self.draw_weak(generator)))

    def medium(self, image: Image.Image, generator: Generator) -> Tensor:
        return to_tensor(self.apply(image, self.draw_strong(generator, min(self.views.operations, 1))))

    def strong(self, image: Image.Image, generator: Generator) -> Tensor:
        return to_tensor(self.apply(image, self.draw_strong(generator)))

    def draw_weak(self, generator: Generator) -> Draw:
        x, y, mirror = torch.rand(3, generator=generator).tolist()
        return Draw(place=(x, y), flip=self.views.flip and mirror < 0.5)

    def draw_strong(self, generator: Generator, number: int | None = None) -> Draw:
        """Draws as of `draw_weak`, then operations (`number`, by default of the settings) with their magnitudes, and a square."""
        names, number = self.views.names, self.views.operations if number is None else number
        weak = self.draw_weak(generator)
        chosen = torch.randint(len(names), (number,), generator=generator).tolist()
        *shares, side, x, y = torch.rand(number + 3, generator=generator).tolist()
        choices = [(names[place], RANDAUGMENT[names[place]], share) for place, share in zip(chosen, shares, strict=True)]
        operations = [(name, choice.low + (choice.high - choice.low) * share) for name, choice, share in choices]
        return weak._replace(operations=operations, square=(side, x, y) if self.views.cutout else None)

    def apply(self, image: Image.Image, draw: Draw) -> Image.Image:
        """The image with these changes, in the order of the settings."""
        if self.views.order == "crop-first":
            return self._changed(Image.fromarray(self._moved(image, draw)), draw)
        return Image.fromarray(self._moved(self._changed(image, draw), draw))

    def _changed(self, image: Image.Image, draw: Draw) -> Image.Image:
        for name, magnitude in draw.operations:
            image = OPERATIONS[name](image, magnitude)
        if draw.square is None:
            return image
        side = draw.square[0] * self.views.cutout * image.width
        left, right = _covered(draw.square[1] * image.width, side, image.width)
        top, bottom = _covered(draw.square[2] * image.height, side, image.height)
        image = image.copy()
        color = cutout_color(len(image.getbands()))
        ImageDraw.Draw(image).rectangle((left, top, right, bottom), color if len(color) > 1 else color[0])
        return image

    def _moved(self, image: Image.Image, draw: Draw) -> Pixels:
        """Pixels cropped to `side` where larger, else shifted; place ½, ½ is the middle."""
        pixels, side, pad = np.asarray(image), self.side, self.views.pad
        if side is not None and max(image.size) > side:
            left, top = (int(share * (size - side + 1)) for share, size in zip(draw.place, image.size, strict=True))
            pixels = pixels[top : top + side, left : left + side]
        else:
            dx, dy = (int(share * (2 * pad + 1)) - pad for share in draw.place)
            if dx or dy:
                rows, columns = (_places(*each, self.views.reflect) for each in ((image.height, dy), (image.width, dx)))
                pixels = pixels.take(rows, axis=0, mode="clip").take(columns, axis=1, mode="clip")
                if not self.views.reflect:
                    pixels[rows < 0], pixels[:, columns < 0] = 0, 0
        return np.array(pixels[:, ::-1] if draw.flip else pixels, order="C")


def to_tensor(image: Image.Image) -> Tensor:
    """uint8 (C, H, W); channels lie next to each other in memory, as Pillow has them and channels_last networks want them."""
    return _as_tensor(np.array(image))


def _as_tensor(pixels: Pixels) -> Tensor:
    found = torch.from_numpy(pixels)
    return found.permute(2, 0, 1) if found.ndim == 3 else found[None]


def to_image(item: Tensor) -> Image.Image:
    """The Pillow image of uint8 (C, H, W) with 1 or 3 channels."""
    planes = [Image.fromarray(plane) for plane in item.numpy()]
    return planes[0] if len(planes) == 1 else Image.merge("RGB", planes)


def _covered(center: float, side: float, size: int) -> tuple[int, int]:
    """First and last pixel of the square on one axis, as in `operations.cutout`."""
    start = int(max(0.0, center - side / 2.0))
    return start, int(min(float(size), start + side))


@cache
def _places(size: int, shift: int, reflect: bool) -> npt.NDArray[np.int64]:
    """Where the pixels of an axis come from, moved by whole pixels: mirrored at the edge pixels, or −1 for black."""
    places = np.arange(size) - shift
    if reflect:
        return np.abs((places + size - 1) % max(2 * (size - 1), 1) - (size - 1))
    return np.where((places >= 0) & (places < size), places, -1)
