"""The views of one Pillow image at a time, for worker processes that read files or large images.

Same operations, ranges and switches as `ImageViews`; given the same draws the pixels are the same.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageEnhance, ImageOps, UnidentifiedImageError
from torch import Generator, Tensor

from softmatch.errors import InputError
from softmatch.views.image import RANDAUGMENT, ImageViews
from softmatch.views.operations import cutout_color
from softmatch.views.pictures import EncodedImage, Picture

Operation = Callable[[Image.Image, float], Image.Image]

REDUCED = ("JPEG", "MPO")
"""Formats that can be decoded at a fraction of their size."""
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "PPM", "TIFF", "WEBP")
"""What a file may hold, whatever its name. Of Pillow's others, some start programs (EPS) and none is common for photographs."""
MOST_PIXELS = 100_000_000
"""A decoded pixel takes 4 bytes, and changing the mode as much again."""
MANY_PIXELS = 16_000_000
"""Images larger than this are decoded one at a time, however many threads there are."""
_one_at_a_time = threading.Lock()
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""By EXIF orientation. `ImageOps.exif_transpose` writes the other EXIF data anew too, which fails where these are odd."""
LYING = (Image.Transpose.TRANSPOSE, Image.Transpose.ROTATE_270, Image.Transpose.TRANSVERSE, Image.Transpose.ROTATE_90)
"""Turns that exchange width and height."""


def _affine(matrix: Callable[[float, int, int], tuple[float, ...]]) -> Operation:
    def apply(image: Image.Image, magnitude: float) -> Image.Image:
        return image.transform(image.size, Image.Transform.AFFINE, matrix(magnitude, *image.size))

    return apply


OPERATIONS: dict[str, Operation] = {
    "autocontrast": lambda image, _: ImageOps.autocontrast(image),
    "brightness": lambda image, factor: ImageEnhance.Brightness(image).enhance(factor),
    "color": lambda image, factor: ImageEnhance.Color(image).enhance(factor),
    "contrast": lambda image, factor: ImageEnhance.Contrast(image).enhance(factor),
    "equalize": lambda image, _: ImageOps.equalize(image),
    "identity": lambda image, _: image,
    "posterize": lambda image, bits: ImageOps.posterize(image, int(bits)),
    "rotate": lambda image, degrees: image.rotate(degrees),
    "sharpness": lambda image, factor: ImageEnhance.Sharpness(image).enhance(factor),
    "shear_x": _affine(lambda amount, width, height: (1, amount, 0, 0, 1, 0)),
    "shear_y": _affine(lambda amount, width, height: (1, 0, 0, amount, 1, 0)),
    "solarize": lambda image, threshold: ImageOps.solarize(image, threshold),  # type: ignore[arg-type]  # takes any number
    "translate_x": _affine(lambda share, width, height: (1, 0, share * width, 0, 1, 0)),
    "translate_y": _affine(lambda share, width, height: (1, 0, 0, 0, 1, share * height)),
}
"""What Pillow calls each operation of `RANDAUGMENT`."""


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
        return to_tensor(self._placed(image, (0.5, 0.5)))

    def weak(self, image: Image.Image, generator: Generator) -> Tensor:
        return to_tensor(self.apply(image, self.draw_weak(generator)))

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
        operations = [(names[c], _magnitude(names[c], share)) for c, share in zip(chosen, shares, strict=True)]
        return weak._replace(operations=operations, square=(side, x, y) if self.views.cutout else None)

    def apply(self, image: Image.Image, draw: Draw) -> Image.Image:
        """The image with these changes, in the order of the settings."""
        if self.views.order == "crop-first":
            return self._changed(self._moved(image, draw), draw)
        return self._moved(self._changed(image, draw), draw)

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

    def _moved(self, image: Image.Image, draw: Draw) -> Image.Image:
        image = self._placed(image, draw.place)
        return ImageOps.mirror(image) if draw.flip else image

    def _placed(self, image: Image.Image, place: tuple[float, float]) -> Image.Image:
        """Cropped to `side` where larger, else shifted; place ½, ½ is the middle."""
        if self.side is not None and max(image.size) > self.side:
            left, top = (int(share * (size - self.side + 1)) for share, size in zip(place, image.size, strict=True))
            return image.crop((left, top, left + self.side, top + self.side))
        dx, dy = (int(share * (2 * self.views.pad + 1)) - self.views.pad for share in place)
        return _shifted(image, dx, dy, self.views.reflect) if dx or dy else image


class Header(NamedTuple):
    """An image as its header has it, turned upright."""

    width: int
    height: int
    grey: bool
    animated: bool


class UnreadableImage(InputError):  # noqa: N818  # says what it is
    """An image that cannot be read; `reason` is the part of the message that says why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the image {name} cannot be read: {reason}. Replace it by an intact one, or remove it and start again.")
        self.reason = reason


def read_image(path: Path, side: int, channels: int = 3, upright: bool = False) -> Image.Image:
    """The image in a file as RGB or grey, resized to side × side whatever its shape was.

    Args:
        channels: 3: RGB; 1: grey.
        upright: turned as its EXIF orientation says. ImageNet's protocol takes the pixels as they are stored.

    Raises:
        UnreadableImage: an InputError.
    """
    with quiet_pillow():
        return decode(path, (side, side), channels, upright)


def decode(source: Picture, size: tuple[int, int], channels: int, upright: bool) -> Image.Image:
    """`read_image` for any width and height, and for threads: Pillow's warnings are left to whoever starts these."""
    with opened(source) as image:
        if not isinstance(source, Image.Image):
            # A large JPEG is decoded at half, a quarter or an eighth of its size. It may be turned later: hence the larger side.
            image.draft(None, (2 * max(size), 2 * max(size)))
        _refuse_huge(image)
        with _one_at_a_time if image.width * image.height > MANY_PIXELS else nullcontext():
            image.load()  # before the orientation is asked for: Pillow turns TIFF files by itself while it loads them
            turn = TURNS.get(orientation(image)) if upright else None
            plain = _to_rgb(image) if channels == 3 else _to_grey(image)
            plain = plain.resize(size if turn not in LYING else size[::-1], Image.Resampling.BILINEAR)
            return plain if turn is None else plain.transpose(turn)


def look(source: Picture) -> Header:
    """What the header of an image says; no pixel is decoded. For threads, as `decode`.

    Raises:
        UnreadableImage: there is no such image, or it is too large to be decoded.
    """
    with opened(source) as image:
        if image.format not in REDUCED:
            _refuse_huge(image)
        # Pillow exchanges width and height of a TIFF by itself, and decodes a PNG to find its orientation, which few have.
        lies = image.format not in ("TIFF", "PNG") and TURNS.get(orientation(image)) in LYING
        width, height = image.size[::-1] if lies else image.size
        return Header(width, height, image.mode in ("1", "L", "LA", "La") or _is_16_bit(image), _is_animated(image))


@contextmanager
def opened(source: Picture) -> Iterator[Image.Image]:
    """An image of which only the header has been read. Whatever goes wrong with it inside becomes UnreadableImage."""
    try:
        if isinstance(source, Image.Image):
            yield source
        else:
            # Given a path, Pillow 13 maps the pixels of a plain TIFF into memory, and mixes them up where it has to turn them.
            stored = BytesIO(source.content) if isinstance(source, EncodedImage) else source.open("rb")
            with stored as file, Image.open(file, formats=FORMATS) as image:
                yield image
    except Exception as error:  # Pillow has no common class for what damaged files lead to
        raise UnreadableImage(_name(source), _reason(source, error)) from error


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """Without warnings about large images and damaged EXIF: what matters is an error or is checked here. Not for threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def printable(path: Path | str) -> str:
    """A path in characters that can be written anywhere: bytes that are no UTF-8 become \\xff."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def orientation(image: Image.Image) -> int:
    """1 … 8 as EXIF has it; 1, upright, where it says nothing or nonsense."""
    try:
        return int(image.getexif().get(0x0112, 1))
    except Exception:  # as above; damaged EXIF says nothing about the pixels
        return 1


def _is_animated(image: Image.Image) -> bool:
    """Whether it has frames, of which the first is taken. Several pages or a preview for depth are no frames."""
    try:
        return image.format in ("GIF", "PNG", "WEBP") and bool(getattr(image, "is_animated", False))
    except Exception:  # as above; a damaged second frame does not matter
        return False


def _refuse_huge(image: Image.Image) -> None:
    if image.width * image.height > MOST_PIXELS:
        raise ValueError(f"it has {image.width:,}×{image.height:,} pixels, more than {MOST_PIXELS // 10**6} million")


def _name(source: Picture) -> str:
    if isinstance(source, EncodedImage):
        return source.name
    return printable(source) if isinstance(source, Path) else "given"


def _reason(source: Picture, error: Exception) -> str:
    if isinstance(error, Image.DecompressionBombError):
        return "it has more pixels than Pillow decodes, or claims so"
    if isinstance(source, EncodedImage) and not source.content:
        return source.lack
    if isinstance(error, UnidentifiedImageError):
        empty = isinstance(source, Path) and source.stat().st_size == 0
        return "the file is empty" if empty else "not an image that Pillow knows"
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(said).rstrip(".")


def _is_16_bit(image: Image.Image) -> bool:
    """Grey levels 0 … 65535. Mode I has them where the file format has no wider ones."""
    return image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM"))


def _to_rgb(image: Image.Image) -> Image.Image:
    """8 bits per channel; what is transparent becomes white, the colour of the page that such images are made for."""
    if _is_16_bit(image):  # which `convert` would clip to white
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError(f"its pixel values (mode {image.mode}) have no known range")
    if _has_alpha(image):
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def _to_grey(image: Image.Image) -> Image.Image:
    """As `_to_rgb`. Grey levels come through as they are: the weights of red, green and blue add up to one."""
    return image.convert("L") if image.mode in ("1", "L") and not _has_alpha(image) else _to_rgb(image).convert("L")


def _has_alpha(image: Image.Image) -> bool:
    return image.mode.endswith(("A", "a")) or "transparency" in image.info


def to_tensor(image: Image.Image) -> Tensor:
    """uint8 (C, H, W); channels lie next to each other in memory, as Pillow has them and channels_last networks want them."""
    pixels = torch.from_numpy(np.array(image))
    return pixels.permute(2, 0, 1) if pixels.ndim == 3 else pixels[None]


def to_image(item: Tensor) -> Image.Image:
    """The Pillow image of uint8 (C, H, W) with 1 or 3 channels."""
    planes = [Image.fromarray(plane) for plane in item.numpy()]
    return planes[0] if len(planes) == 1 else Image.merge("RGB", planes)


def _magnitude(name: str, share: float) -> float:
    low, high = RANDAUGMENT[name].low, RANDAUGMENT[name].high
    return low + (high - low) * share


def _covered(center: float, side: float, size: int) -> tuple[int, int]:
    """First and last pixel of the square on one axis, as in `operations.cutout`."""
    start = int(max(0.0, center - side / 2.0))
    return start, int(min(float(size), start + side))


def _shifted(image: Image.Image, dx: int, dy: int, reflect: bool) -> Image.Image:
    """Moved by whole pixels; what comes in is a reflection, or black."""
    if not reflect:
        return image.transform(image.size, Image.Transform.AFFINE, (1, 0, -dx, 0, 1, -dy))
    pixels = np.asarray(image)
    pixels = pixels.take(_reflected(image.height, dy), axis=0).take(_reflected(image.width, dx), axis=1)
    return Image.fromarray(pixels)


def _reflected(size: int, shift: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Which position each of 0 … size − 1 comes from, mirrored at the edge pixels."""
    period = max(2 * (size - 1), 1)
    position = (np.arange(size) - shift) % period
    return np.minimum(position, period - position)
