"""Views of images: shift and flip (ω); RandAugment with cutout, then shift and flip (Ω). Whole batches of uint8 tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Generator, Tensor

from softmatch.views import operations as ops


class PixelOperation(Protocol):
    def __call__(self, images: Tensor, magnitude: Tensor, /) -> Tensor: ...


class Geometry(Protocol):
    def __call__(self, magnitude: Tensor, height: int, width: int, /) -> Tensor: ...


class Choice(NamedTuple):
    """The range a magnitude is drawn from, and what it does: to pixel values, or to where pixels come from."""

    low: float
    high: float
    pixels: PixelOperation | None = None
    geometry: Geometry | None = None


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


def randaugment(images: Tensor, generator: Generator, number: int = 3, names: Sequence[str] = tuple(RANDAUGMENT)) -> Tensor:
    """`number` operations for each image, each drawn with its magnitude for that image alone.

    What each image gets is drawn and grouped on the host, so that the host never waits for the device; the geometric
    operations of a round are one call.
    """
    choices = [RANDAUGMENT[name] for name in sorted(names, key=lambda name: RANDAUGMENT[name].geometry is None)]
    low = torch.tensor([choice.low for choice in choices])
    high = torch.tensor([choice.high for choice in choices])
    for _ in range(number):
        drawn = torch.randint(len(choices), (len(images),), generator=generator)
        magnitude = low[drawn] + (high - low)[drawn] * torch.rand(len(images), generator=generator)
        order = torch.argsort(drawn, stable=True)
        sizes = torch.bincount(drawn, minlength=len(choices)).tolist()
        there = torch.argsort(order).to(images.device, non_blocking=True)
        changed = _apply(images[order.to(images.device, non_blocking=True)], magnitude[order], choices, sizes)
        images = changed[there]
    return images


def _apply(images: Tensor, magnitude: Tensor, choices: Sequence[Choice], sizes: Sequence[int]) -> Tensor:
    """Apply to runs of `sizes` images their choice; the geometric choices come first."""
    height, width = images.shape[-2:]
    groups = [(choice, part) for choice, part in zip(choices, torch.split(magnitude, list(sizes)), strict=True) if len(part)]
    matrices = [choice.geometry(part, height, width) for choice, part in groups if choice.geometry]
    parts, position = [], sum(len(matrix) for matrix in matrices)
    if matrices:
        parts.append(ops.affine(images[:position], torch.cat(matrices).to(images.device, non_blocking=True)))
    for choice, part in groups:
        if choice.pixels:
            moved = part.to(images.device, non_blocking=True)
            parts.append(choice.pixels(images[position : position + len(part)], moved))
            position += len(part)
    return torch.cat(parts)


class ImageViews:
    """ω and Ω of uint8 images (B, C, H, W), and the normalised float input of the network.

    Args:
        mean, std: per channel, of pixel values in 0 … 1.
        pad: largest shift in pixels; what comes in is a reflection, or black (`reflect` false).
        flip: mirror half of the images.
        operations: how many RandAugment operations the strong view applies.
        names: the operations to draw from.
        cutout: largest side of the painted square, as a share of the width.
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
    ) -> None:
        self.mean, self.std = tuple(mean), tuple(std)
        self.pad, self.flip, self.reflect = pad, flip, reflect
        self.operations, self.names, self.cutout = operations, tuple(names), cutout

    def plain(self, items: Tensor) -> Tensor:
        mean = torch.tensor(self.mean, device=items.device)[:, None, None]
        std = torch.tensor(self.std, device=items.device)[:, None, None]
        return (items.to(torch.float32) / 255.0 - mean) / std

    def weak(self, items: Tensor, generator: Generator) -> Tensor:
        return self.plain(self._moved(items, generator))

    def strong(self, items: Tensor, generator: Generator) -> Tensor:
        changed = randaugment(items, generator, self.operations, self.names)
        return self.plain(self._moved(self._cut(changed, generator), generator))

    def _moved(self, items: Tensor, generator: Generator) -> Tensor:
        number, device = len(items), items.device
        if self.pad:
            dx, dy = torch.randint(-self.pad, self.pad + 1, (2, number), generator=generator).to(device, non_blocking=True)
            items = ops.shift(items, dx, dy, self.reflect)
        if self.flip:
            items = ops.flip(items, (torch.rand(number, generator=generator) < 0.5).to(device, non_blocking=True))
        return items

    def _cut(self, items: Tensor, generator: Generator) -> Tensor:
        height, width = items.shape[-2:]
        draw = torch.rand(3, len(items), generator=generator).to(items.device, non_blocking=True)
        return ops.cutout(items, draw[0] * self.cutout * width, draw[1] * width, draw[2] * height)

    def settings(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "mean": list(self.mean),
            "std": list(self.std),
            "pad": self.pad,
            "flip": self.flip,
            "reflect": self.reflect,
            "operations": self.operations,
            "names": list(self.names),
            "cutout": self.cutout,
        }
