"""Image files and their bytes, opened and decoded safely: known formats, bounded sizes, one kind of error."""

import hashlib
import importlib
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from softmatch.data.records import UnreadableFile
from softmatch.data.shards.members import Member
from softmatch.formatting import printable

try:
    simplejpeg: Any = importlib.import_module("simplejpeg")
except ImportError:  # the extra fast
    simplejpeg = None
EXIF = b"Exif\0\0"
MOST_HEADER = 2**17
"""Bytes of a JPEG in which its EXIF data lie, if it has any."""
REDUCED = ("JPEG", "MPO")
"""Formats that can be decoded at a fraction of their size."""
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "PPM", "TIFF", "WEBP")
"""Formats that are read. Of Pillow's others, some start programs (EPS) and none is common for photographs."""
MOST_PIXELS = 100_000_000
"""A decoded pixel takes 4 bytes, and changing the mode as much again."""
MANY_PIXELS = 16_000_000
"""Images larger than this are decoded one at a time, however many threads there are."""
_one_at_a_time = threading.Lock()
LYING = (Image.Transpose.TRANSPOSE, Image.Transpose.ROTATE_270, Image.Transpose.TRANSVERSE, Image.Transpose.ROTATE_90)
"""Turns that exchange width and height."""
TURNS = dict(
    enumerate((Image.Transpose.FLIP_LEFT_RIGHT, Image.Transpose.ROTATE_180, Image.Transpose.FLIP_TOP_BOTTOM, *LYING), start=2)
)
"""By EXIF orientation, 2 … 8. `ImageOps.exif_transpose` also rewrites the other EXIF data, which fails where they are odd."""
EXPORT = "Export them to a folder of files, with one folder for each class, and give that: files are read when they are needed."
"""Advice for images that are not files and take too much memory."""


@dataclass(frozen=True)
class EncodedImage:
    """The bytes of an image file. They are decoded each time they are needed, and no pixels are kept.

    Attributes:
        lack: the reason why there is no content.
    """

    content: bytes = field(repr=False)
    name: str
    lack: str = "the file is empty"

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 digest of the content."""
        return hashlib.sha256(self.content).digest()


Picture = Path | Member | EncodedImage | Image.Image
"""An image in a file, inside a shard, as the bytes of a file, or opened by Pillow."""


class Header(NamedTuple):
    """An image as described by its header, turned upright."""

    width: int
    height: int
    grey: bool
    animated: bool


class UnreadableImage(UnreadableFile):
    """An image that cannot be read."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the image {name}", reason)


def load(path: Path | Member) -> EncodedImage:
    """Read the bytes of an image file or of a part of a shard, so that one read serves digest, header and pixels."""
    try:
        return EncodedImage(path.read_bytes() if isinstance(path, Path) else path.read(), printable(str(path)))
    except OSError as error:
        raise UnreadableImage(printable(str(path)), error.strerror or str(error)) from error


def content_digest(picture: Picture) -> bytes:
    """Compute the SHA-256 digest of the content of a file, or of the pixels of a Pillow image."""
    if isinstance(picture, Image.Image):
        about = (picture.mode, picture.size, picture.getpalette(), picture.info.get("transparency"), orientation(picture))
        return hashlib.sha256(repr(about).encode() + picture.tobytes()).digest()
    return (load(picture) if isinstance(picture, Path | Member) else picture).digest


def read_image(path: Path | Member, side: int, channels: int = 3, upright: bool = False) -> Image.Image:
    """Decode an image file as RGB or grey, resized to side × side whatever its shape was.

    Args:
        channels: 3: RGB; 1: grey.
        upright: turn it by its EXIF orientation. ImageNet's protocol takes the pixels as they are stored.
    """
    with quiet_pillow():
        return decode(path, (side, side), channels, upright)


def decode(source: Picture, size: tuple[int, int], channels: int, upright: bool) -> Image.Image:
    """Do what `read_image` does, for any width and height and for threads: their starter silences Pillow's warnings."""
    if isinstance(source, Member):
        source = load(source)
    if isinstance(source, EncodedImage) and (quick := _decode_jpeg(source.content, size, channels, upright)) is not None:
        return quick
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


def _decode_jpeg(content: bytes, size: tuple[int, int], channels: int, upright: bool) -> Image.Image | None:
    """Decode a plain JPEG with simplejpeg: the same pixels as Pillow's in a tenth of the time. None: Pillow has to do it."""
    if simplejpeg is None or not content.startswith(b"\xff\xd8") or (upright and EXIF in content[:MOST_HEADER]):
        return None
    try:
        height, width, space, _ = simplejpeg.decode_jpeg_header(content)
        if space != "YCbCr" or channels != 3 or max(height, width) >= 4 * max(size):  # Pillow decodes at a fraction
            return None
        image = Image.frombytes("RGB", (width, height), simplejpeg.decode_jpeg(content).tobytes())  # `fromarray` is slower
    except ValueError:  # damaged: Pillow says how
        return None
    return image if image.size == size else image.resize(size, Image.Resampling.BILINEAR)


def look(source: Picture) -> Header:
    """Read the header of an image; no pixel is decoded. For threads, like `decode`."""
    with opened(source) as image:
        if image.format not in REDUCED:
            _refuse_huge(image)
        # Pillow exchanges width and height of a TIFF by itself, and decodes a PNG to find its orientation, which few have.
        lies = image.format not in ("TIFF", "PNG") and TURNS.get(orientation(image)) in LYING
        width, height = image.size[::-1] if lies else image.size
        return Header(width, height, image.mode in ("1", "L", "LA", "La") or _is_16_bit(image), _is_animated(image))


@contextmanager
def opened(source: Picture) -> Iterator[Image.Image]:
    """Open an image and read its header. Anything that goes wrong inside becomes UnreadableImage."""
    try:
        if isinstance(source, Image.Image):
            yield source
        else:
            # Given a path, Pillow 13 maps the pixels of a plain TIFF into memory, and mixes them up where it has to turn them.
            source = load(source) if isinstance(source, Member) else source
            stored = BytesIO(source.content) if isinstance(source, EncodedImage) else source.open("rb")
            with stored as file, Image.open(file, formats=FORMATS) as image:
                yield image
    except Exception as error:  # Pillow has no common class for what damaged files lead to
        name = printable(source) if isinstance(source, Path) else getattr(source, "name", "given")
        raise UnreadableImage(name, _reason(source, error)) from error


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """Silence warnings about large images and damaged EXIF: what matters is an error or is checked here. Not for threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def orientation(image: Image.Image) -> int:
    """Read the EXIF orientation, 1 … 8; 1, upright, where there is none or it is nonsense."""
    try:
        return int(image.getexif().get(0x0112, 1))
    except Exception:  # as above; damaged EXIF says nothing about the pixels
        return 1


def _is_animated(image: Image.Image) -> bool:
    """Tell whether it has frames, of which the first is used. Several pages or a depth preview are not frames."""
    try:
        return image.format in ("GIF", "PNG", "WEBP") and bool(getattr(image, "is_animated", False))
    except Exception:  # as above; a damaged second frame does not matter
        return False


def _refuse_huge(image: Image.Image) -> None:
    if image.width * image.height > MOST_PIXELS:
        raise ValueError(f"it has {image.width:,}×{image.height:,} pixels, more than {MOST_PIXELS // 10**6} million")


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
    """Tell whether it has grey levels 0 … 65535. Mode I has them where the file format has no wider ones."""
    return image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM"))


def _to_rgb(image: Image.Image) -> Image.Image:
    """Convert to 8 bits per channel; transparent pixels become white, the colour of the page such images are made for."""
    if _is_16_bit(image):  # which `convert` would clip to white
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError(f"its pixel values (mode {image.mode}) have no known range")
    if _has_alpha(image):
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def _to_grey(image: Image.Image) -> Image.Image:
    """Convert like `_to_rgb`. Grey levels are unchanged: the weights of red, green and blue add up to one."""
    return image.convert("L") if image.mode in ("1", "L") and not _has_alpha(image) else _to_rgb(image).convert("L")


def _has_alpha(image: Image.Image) -> bool:
    return image.mode.endswith(("A", "a")) or "transparency" in image.info


@dataclass(frozen=True)
class ImageFiles:
    """The paths of N images, used where a tensor (N, channels, side, side) would be.

    Attributes:
        paths: one file for each image, or its place in a shard.
        side: the images' size once cropped.
        resize: the size they are resized to before; if it equals `side`, they are not cropped.
        channels: 3: RGB; 1: grey.
        upright: turned by their EXIF orientation, which ImageNet's protocol does not do.
    """

    paths: Sequence[Path | Member]
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

    def __getitem__(self, chosen: Tensor) -> "ImageFiles":
        """Take the images at these positions."""
        return replace(self, paths=[self.paths[position] for position in chosen.tolist()])

    def open(self, path: Path | Member) -> Image.Image:
        """Decode one of the images, resized but not cropped."""
        return read_image(path, self.resize, self.channels, self.upright)
