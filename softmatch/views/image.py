"""Views of images: shift and flip (ω); RandAugment with cutout, then shift and flip (Ω). Whole batches of uint8 tensors.

The medium view is the strong one with a single operation of RandAugment.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from softmatch.errors import InputError, nearest
from softmatch.views import randaugment as ops
from softmatch.views.rows import Rows, check_number, cut

SCALE, SMALLEST_REDUCED = 0.625, 24
"""Factor of the side of reduced images, and the smallest side that is reduced."""
Order = Literal["randaugment-first", "crop-first"]


class Choice(NamedTuple):
    """Range of an operation's magnitude, and the operation: on pixel values, or on pixel positions.

    `pixels` takes images and magnitudes; `geometry` takes magnitudes, height and width.
    """

    low: float
    high: float
    pixels: Callable[[Tensor, Tensor], Tensor] | None = None
    geometry: Callable[[Tensor, int, int], Tensor] | None = None


RANDAUGMENT: dict[str, Choice] = {
    "autocontrast": Choice(0.0, 1.0, ops.autocontrast),
    "brightness": Choice(0.05, 0.95, ops.brightness),
    "color": Choice(0.05, 0.95, ops.color),
    "contrast": Choice(0.05, 0.95, ops.contrast),
    "equalize": Choice(0.0, 1.0, ops.equalize),
    "identity": Choice(0.0, 1.0, ops.identity),
    "posterize": Choice(4.0, 8.0, ops.posterize),
    "rotate": Choice(-30.0, 30.0, geometry=ops.rotate),
    "sharpness": Choice(0.05, 0.95, ops.sharpness),
    "shear_x": Choice(-0.3, 0.3, geometry=ops.shear_x),
    "shear_y": Choice(-0.3, 0.3, geometry=ops.shear_y),
    "solarize": Choice(0.0, 256.0, ops.solarize),
    "translate_x": Choice(-0.3, 0.3, geometry=ops.translate_x),
    "translate_y": Choice(-0.3, 0.3, geometry=ops.translate_y),
}
"""FixMatch's 14 operations with TorchSSL's ranges."""


def randaugment(
    images: Tensor,
    generator: Generator,
    number: int = 3,
    names: Sequence[str] = tuple(RANDAUGMENT),
    rows: Rows | None = None,
) -> Tensor:
    """Apply `number` random operations to each image, each with its own random magnitude.

    Operations are drawn and grouped on the host, which never waits for the device. Each round sorts the images by operation
    once, from the order of the last round to that of this one. The geometric operations of a round are one call.
    """
    whole, part = rows or Rows(len(images))
    choices = [RANDAUGMENT[name] for name in sorted(names, key=lambda name: RANDAUGMENT[name].geometry is None)]
    low = torch.tensor([choice.low for choice in choices])
    high = torch.tensor([choice.high for choice in choices])
    place = torch.arange(len(images))  # present place of each image
    for _ in range(number):
        drawn = torch.randint(len(choices), (whole,), generator=generator)[part]
        magnitude = low[drawn] + (high - low)[drawn] * torch.rand(whole, generator=generator)[part]
        order = torch.argsort(drawn, stable=True)
        sizes = torch.bincount(drawn, minlength=len(choices)).tolist()
        images = _apply(_reordered(images, place[order]), magnitude[order], choices, sizes)
        place = torch.argsort(order)
    return _reordered(images, place)


def _reordered(images: Tensor, order: Tensor) -> Tensor:
    return images.index_select(0, order.to(images.device, non_blocking=True))


def _apply(images: Tensor, magnitude: Tensor, choices: Sequence[Choice], sizes: Sequence[int]) -> Tensor:
    """Apply each choice to the next of the given `sizes` of images; geometric choices come first."""
    height, width = images.shape[-2:]
    groups = [(choice, part) for choice, part in zip(choices, torch.split(magnitude, list(sizes)), strict=True) if len(part)]
    matrices = [choice.geometry(part, height, width) for choice, part in groups if choice.geometry]
    position = sum(len(matrix) for matrix in matrices)
    parts = [ops.affine(images[:position], torch.cat(matrices))] if matrices else []
    moved = magnitude.to(images.device, non_blocking=True)
    for choice, part in groups:
        if choice.pixels:
            here = slice(position, position + len(part))
            parts.append(choice.pixels(images[here], moved[here]))
            position = here.stop
    return torch.cat(parts) if parts else images


def channel_statistics(items: Tensor, chosen: Tensor | None = None, chunk: int = 4096) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel of uint8 images (N, C, H, W), as pixel values in 0 … 1.

    Both follow exactly from the counts of each value, in the memory of one chunk of images.
    """
    channels, number = items.shape[1], len(items) if chosen is None else len(chosen)
    counts = torch.zeros(channels, 256, dtype=torch.int64)
    for start in range(0, number, chunk):
        part = items[start : start + chunk] if chosen is None else items.index_select(0, chosen[start : start + chunk])
        for channel in range(channels):
            counts[channel] += torch.bincount(part[:, channel].flatten(), minlength=256).cpu()
    value = torch.arange(256, dtype=torch.float64) / 255.0
    total = counts.sum(1, keepdim=True)
    mean = (counts * value).sum(1, keepdim=True) / total
    variance = (counts * (value - mean).square()).sum(1, keepdim=True) / (total - 1).clamp_min(1)
    return mean.flatten().tolist(), variance.sqrt().flatten().tolist()


def reduced(images: Tensor) -> Tensor:
    """Scale views of images (B, C, H, W) to five eighths of their side, with antialiasing; leave other views unchanged."""
    if images.ndim != 4 or min(images.shape[-2:]) < SMALLEST_REDUCED:
        return images
    size = [round(SCALE * side) for side in images.shape[-2:]]
    return F.interpolate(images, size=size, mode="bilinear", antialias=True)


class ImageViews:
    """ω and Ω of uint8 images (B, C, H, W), and the normalised float input of the network.

    Args:
        mean, std: mean and standard deviation per channel, of pixel values in 0 … 1.
        pad: largest shift in pixels; new pixels are a reflection, or black (`reflect` false).
        flip: mirror half of the images.
        operations: number of RandAugment operations in the strong view.
        names: the operations to choose from.
        cutout: largest side of the painted square, as a share of the width; 0: no square.
        mirror: predictions are averaged over each image and its mirror image, if views are mirrored too (`flip`).
        order: RandAugment and cutout come before shift and flip, as in TorchSSL, or after ("crop-first", as in USB).
    """

    kind = "image"

    def __init__(
        self,
        mean: Sequence[float],
        std: Sequence[float],
        pad: int = 4,
        flip: bool = True,
        reflect: bool = True,
        operations: int = 3,
        names: Sequence[str] = tuple(RANDAUGMENT),
        cutout: float = 0.5,
        mirror: bool = False,
        order: Order = "randaugment-first",
    ) -> None:
        if order not in get_args(Order):
            raise InputError(f"unknown order {order!r} of the strong view. {nearest(order, get_args(Order))}")
        names = (names,) if isinstance(names, str) else names
        check_number("pad", pad, "a whole number from 0 to 16,384", 2**14, whole=True)
        check_number("operations", operations, "a whole number from 0 to 1,000", 1000, whole=True)
        check_number("cutout", cutout, "a share between 0 and 1", 1.0)
        for name in names or ("",):
            if name not in RANDAUGMENT:
                raise InputError(f"unknown operation {name!r}. {nearest(name, RANDAUGMENT)}")
        self.mean, self.std = tuple(mean), tuple(std)
        self.pad, self.flip, self.reflect = pad, flip, reflect
        self.operations, self.names, self.cutout = operations, tuple(names), cutout
        self.mirror = mirror and flip
        self.order: Order = order
        self._sent: dict[torch.device, tuple[Tensor, Tensor]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """State without tensors on a device, for worker processes."""
        return {**self.__dict__, "_sent": {}}

    def plain(self, items: Tensor) -> Tensor:
        mean, scale = self._normalisation(items.device)
        return items.to(torch.float32).sub_(mean).mul_(scale)

    def weak(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        own, rows = cut(items, part)
        return self.plain(self._moved(own, generator, rows))

    def medium(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._augmented(items, generator, min(self.operations, 1), part)

    def strong(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._augmented(items, generator, self.operations, part)

    def _augmented(self, items: Tensor, generator: Generator, operations: int, part: slice | None) -> Tensor:
        own, rows = cut(items, part)
        if self.order == "crop-first":
            return self.plain(self._changed(self._moved(own, generator, rows), generator, operations, rows))
        return self.plain(self._moved(self._changed(own, generator, operations, rows), generator, rows))

    def _normalisation(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Mean and 1/std of pixel values in 0 … 255, cached because sending them to a device makes the host wait."""
        if device not in self._sent:
            mean, std = (torch.tensor(values, dtype=torch.float64)[:, None, None] * 255.0 for values in (self.mean, self.std))
            self._sent[device] = mean.to(torch.float32).to(device), (1.0 / std).to(torch.float32).to(device)
        return self._sent[device]

    def _moved(self, items: Tensor, generator: Generator, rows: Rows) -> Tensor:
        draw = torch.zeros(3, len(items), dtype=torch.int64)
        if self.pad:
            draw[:2] = torch.randint(-self.pad, self.pad + 1, (2, rows.number), generator=generator)[:, rows.part]
        if self.flip:
            draw[2] = torch.rand(rows.number, generator=generator)[rows.part] < 0.5
        if not self.pad and not self.flip:
            return items
        dx, dy, mirrored = draw.to(items.device, non_blocking=True)
        return ops.move(items, dx, dy, mirrored.to(torch.bool), self.reflect)

    def _changed(self, items: Tensor, generator: Generator, operations: int, rows: Rows) -> Tensor:
        height, width = items.shape[-2:]
        changed = randaugment(items, generator, operations, self.names, rows)
        if not self.cutout:
            return changed
        draw = torch.rand(3, rows.number, generator=generator)[:, rows.part].to(items.device, non_blocking=True)
        return ops.cutout(changed, draw[0] * self.cutout * width, draw[1] * width, draw[2] * height)

    def settings(self) -> dict[str, Any]:
        names = ("kind", "mean", "std", "pad", "flip", "reflect", "operations", "names", "cutout", "mirror", "order")
        values = {name: getattr(self, name) for name in names}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
