"""Images become uint8 pixels of one size."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softmatch.data.pictures import (
    EXPORT,
    EncodedImage,
    Header,
    ImageFiles,
    Picture,
    content_digest,
    decode,
    load,
    look,
    quiet_pillow,
)
from softmatch.data.preparations import Prepared
from softmatch.data.preparations.file_reading import by_threads, unreadable
from softmatch.data.records import Finding, InputKind, Inputs, Progress, UnreadableFile
from softmatch.data.shards.members import Member
from softmatch.errors import InputError
from softmatch.formatting import printable, some
from softmatch.views.pillow import to_tensor

LIMIT = 2 * 2**30
"""Bytes of pixels to hold in memory."""
HELD = 2**29
"""Bytes of encoded files to hold between their headers and their pixels; files beyond this are opened a second time."""
SMALLEST = 8
"""Pixels per side, below which networks have nothing to see."""
AS_THEY_ARE = 128
LARGEST, LARGEST_ACCELERATED = 64, 224
WIDE = 2.0
"""Ratio between the aspect ratios of the widest and the narrowest twentieth of images, above which it is worth a note."""


class ImagePreparation:
    """Images resized to width × height whatever their shape, upright, RGB or grey; transparent pixels become white.

    Args:
        channels: 3: RGB; 1: grey.
        resize: resize to this side first, then take the middle, as ImageNet's protocol does for evaluation.
        upright: turn photographs by their EXIF orientation.
    """

    takes: InputKind = "image"
    columns: tuple[str, ...] = ()

    def __init__(self, channels: int, height: int, width: int, resize: int | None = None, upright: bool = True) -> None:
        if resize is not None and resize < max(height, width):
            raise InputError(f"images resized to {resize} cannot be cropped to {height}×{width}.")
        self.channels, self.height, self.width, self.resize, self.upright = channels, height, width, resize, upright

    @classmethod
    def from_saved(cls, saved: Any, tensors: Mapping[str, Tensor]) -> "ImagePreparation":
        """Invert `settings`; there are no tensors."""
        return cls(saved.channels, saved.height, saved.width, saved.resize, saved.upright)

    @classmethod
    def of_files(cls, files: ImageFiles) -> "ImagePreparation":
        """Give the preparation of these files for evaluation."""
        resize = None if files.resize == files.side else files.resize
        return cls(files.channels, files.side, files.side, resize, files.upright)

    def settings(self) -> dict[str, Any]:
        return {"kind": "image", **vars(self)}

    def tensors(self) -> dict[str, Tensor]:
        return {}

    def describe(self) -> str:
        what = "grey" if self.channels == 1 else "colour"
        if self.resize is None:
            return f"{what} images resized to {self.height}×{self.width}"
        return f"{what} images resized to {self.resize}×{self.resize}, their middle {self.height}×{self.width}"

    def __call__(self, inputs: Inputs | Sequence[Picture]) -> Tensor:
        """Make uint8 (n, C, H, W) of image files, images in memory, or Pillow images."""
        items, _, failed = self.read_part(_pictures(inputs))
        if failed:
            raise next(iter(failed.values()))
        return items

    def read(
        self, inputs: Inputs | Sequence[Picture], names: Sequence[str] | None = None, progress: Progress | None = None
    ) -> Prepared:
        """Make items of all images that can be read, and report the others. Each file is opened once."""
        pictures = _pictures(inputs)
        items, contents, failed = self.read_part(pictures, progress)
        kept = [position for position in range(len(pictures)) if position not in failed]
        return Prepared(self, items, kept, unreadable(failed, picture_names(pictures, names)), contents)

    def read_part(
        self, pictures: Sequence[Picture], progress: Progress | None = None
    ) -> tuple[Tensor, list[bytes], dict[int, UnreadableFile]]:
        """Give the pixels of all images that can be read, the digest of each, and by position why others cannot be read."""
        items = torch.empty(len(pictures), self.channels, self.height, self.width, dtype=torch.uint8)
        contents, failed = list[bytes](), dict[int, UnreadableFile]()
        with quiet_pillow():
            for position, made in enumerate(by_threads(self._pixels_and_digest, pictures, progress)):
                if isinstance(made, UnreadableFile):
                    failed[position] = made
                else:
                    items[len(contents)] = made[0]  # closing the gaps at once: afterwards, that would be a second copy
                    contents.append(made[1])
        return items[: len(contents)], contents, failed

    def _pixels_and_digest(self, picture: Picture) -> tuple[Tensor, bytes]:
        picture = load(picture) if isinstance(picture, Path | Member) else picture
        size = (self.width, self.height) if self.resize is None else (self.resize, self.resize)
        image = decode(picture, size, self.channels, self.upright)
        left, top = (image.width - self.width + 1) // 2, (image.height - self.height + 1) // 2  # as `PillowViews.plain` does
        return to_tensor(image.crop((left, top, left + self.width, top + self.height))), content_digest(picture)


def fit_images(
    paths: Sequence[Picture],
    size: int | None,
    limit_bytes: int = LIMIT,
    progress: Progress | None = None,
    names: Sequence[str] | None = None,
) -> Prepared:
    """Choose colour and size by looking at all headers, and read everything that can be read.

    Args:
        paths: image files, images in memory, or Pillow images.
        size: side that they are resized to; None: their own where all are equal, square and small, else by their sizes.
        limit_bytes: files that would take more memory than this are not read but stay files.
    """
    names = picture_names(paths, names)
    headers, contents, failed, held = dict[int, Header](), list[bytes](), dict[int, UnreadableFile](), 0
    stored: list[Picture] = list(paths)
    with quiet_pillow():
        for position, looked in enumerate(by_threads(_look, paths)):
            if isinstance(looked, UnreadableFile):
                failed[position] = looked
                continue
            headers[position], picture, digest = looked
            contents.append(digest)
            held += len(picture.content) if isinstance(picture, EncodedImage) else 0
            if held <= HELD:
                stored[position] = picture  # to be decoded without opening the file again
    if not headers:
        nothing = ImagePreparation(3, size or SMALLEST, size or SMALLEST)
        return Prepared(nothing, nothing(()), [], unreadable(failed, names), [])
    side = size or _choose_side(list(headers.values()))
    made = ImagePreparation(1 if all(header.grey for header in headers.values()) else 3, side, side)
    noticed = _about_sizes(headers, names)
    needed = len(headers) * made.channels * side * side
    if needed + sum(len(each.content) for each in paths if isinstance(each, EncodedImage)) <= limit_bytes:
        positions = list(headers)
        items, contents, damaged = made.read_part([stored[position] for position in positions], progress)
        failed |= {positions[place]: error for place, error in damaged.items()}
        kept = [position for position in positions if position not in failed]
        return Prepared(made, items, kept, unreadable(dict(sorted(failed.items())), names) + noticed, contents)
    files = [path for position in headers if isinstance(path := paths[position], Path | Member)]
    text = f"{len(headers):,} images of {side}×{side} would take {needed / 1e9:.1f} GB of memory"
    if len(files) < len(headers):
        raise InputError(f"{text} in addition to their encoded form. {EXPORT} A smaller --image-size needs less.")
    text += ": they are read from their files in every epoch. One that turns out to be damaged later stops the training. "
    noticed.append(Finding("note", f"{text}A smaller --image-size needs less."))
    left = ImageFiles(files, side, side, made.channels, made.upright)
    return Prepared(made, left, list(headers), unreadable(failed, names) + noticed, contents)


def _look(picture: Picture) -> tuple[Header, Picture, bytes]:
    picture = load(picture) if isinstance(picture, Path | Member) else picture
    return look(picture), picture, content_digest(picture)


def _pictures(inputs: Inputs | Sequence[Picture]) -> Sequence[Picture]:
    if isinstance(inputs, (Mapping, np.ndarray)) or any(not isinstance(each, Picture) for each in inputs):
        raise InputError("a model of images takes image files or Pillow images; these inputs are something else.")
    return inputs  # type: ignore[return-value]  # just checked


def picture_names(pictures: Sequence[Picture], names: Sequence[str] | None) -> Sequence[str]:
    """Name images for messages: an image in memory has its own name."""
    if names is None:
        names = [
            printable(str(each)) if isinstance(each, Path | Member) else f"image {number}"
            for number, each in enumerate(pictures, 1)
        ]
    return [each.name if isinstance(each, EncodedImage) else name for each, name in zip(pictures, names, strict=True)]


def _choose_side(headers: Sequence[Header]) -> int:
    sizes = {(header.width, header.height) for header in headers}
    width, height = next(iter(sizes))
    if len(sizes) == 1 and width == height and SMALLEST <= width <= AS_THEY_ARE:
        return width
    accelerated = torch.cuda.is_available() or torch.backends.mps.is_available()
    middle = statistics.median(min(header.width, header.height) for header in headers)
    rounded = int(middle / 8 + 0.5) * 8
    return min(max(rounded, SMALLEST), LARGEST_ACCELERATED if accelerated else LARGEST)


def _about_sizes(headers: Mapping[int, Header], names: Sequence[str]) -> list[Finding]:
    found = []
    tiny = [position for position, header in headers.items() if min(header.width, header.height) < SMALLEST]
    if tiny:
        sizes = [f"{names[position]!r} ({headers[position].width}×{headers[position].height})" for position in tiny]
        text = f"{len(tiny):,} of {len(names):,} images have fewer than {SMALLEST} pixels per side: {some(sizes)}."
        found.append(Finding("warning", f"{text} There is hardly anything to see in them.", tuple(sizes)))
    shapes = sorted(header.width / header.height for header in headers.values())
    narrow, wide = shapes[len(shapes) // 20], shapes[-1 - len(shapes) // 20]
    if wide > WIDE * narrow:
        text = f"the images are {narrow:.2g} to {wide:.2g} times as wide as they are high, and all are resized to a square."
        found.append(Finding("note", f"{text} If the shape matters for the class, crop or pad them first."))
    animated = [repr(names[position]) for position, header in headers.items() if header.animated]
    if animated:
        found.append(Finding("note", f"the first frame of animated images is used: {some(animated)}.", tuple(animated)))
    return found
