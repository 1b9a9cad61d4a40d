"""The image operations of RandAugment on batches of uint8 tensors (B, C, H, W), each with one magnitude per image.

Operations on pixel values take images and magnitudes; geometric ones turn magnitudes into matrices for `affine`, so that
all geometric operations of a batch are one call.

Every operation equals Pillow's on the same image (the tests compare them), with its roundings: that is what published
results were trained with. Images have 1 (grey) or 3 (RGB) channels.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

Images = Tensor
"""uint8, (B, C, H, W)."""


def _per_image(magnitude: Tensor) -> Tensor:
    return magnitude.to(torch.float32)[:, None, None, None]


def blend(base: Tensor, images: Images, factor: Tensor) -> Images:
    """base + factor·(image − base), truncated to whole numbers and clipped (Pillow's Image.blend)."""
    base = base.to(torch.float32)
    mixed = base + _per_image(factor) * (images.to(torch.float32) - base)
    return mixed.clamp(0, 255).to(torch.uint8)


def grey(images: Images) -> Tensor:
    """Luma (B, 1, H, W) by the weights of ITU-R 601-2 in 16-bit fixed point; grey images as they are."""
    if images.shape[1] == 1:
        return images
    r, g, b = images.to(torch.int32).unbind(1)
    return ((r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16).to(torch.uint8)[:, None]


def identity(images: Images, magnitude: Tensor) -> Images:
    """The image itself."""
    return images


def brightness(images: Images, factor: Tensor) -> Images:
    """Towards black."""
    return blend(torch.zeros_like(images), images, factor)


def color(images: Images, factor: Tensor) -> Images:
    """Towards grey."""
    return images if images.shape[1] == 1 else blend(grey(images).expand_as(images), images, factor)


def contrast(images: Images, factor: Tensor) -> Images:
    """Towards the mean grey level."""
    level = (grey(images).to(torch.float64).mean((1, 2, 3)) + 0.5).floor()
    return blend(level[:, None, None, None].expand(images.shape), images, factor)


def sharpness(images: Images, factor: Tensor) -> Images:
    """Towards a smoothed image (3×3, centre 5/13); the outermost pixels stay."""
    if min(images.shape[-2:]) < 3:
        return images
    channels = images.shape[1]
    kernel = torch.ones(3, 3, device=images.device)
    kernel[1, 1] = 5.0
    exact = images.to(torch.float32)
    total = F.conv2d(exact, kernel.expand(channels, 1, 3, 3), groups=channels)
    smooth = images.clone()
    smooth[..., 1:-1, 1:-1] = (total / 13.0 + 0.5).clamp(0, 255).to(torch.uint8)
    return blend(smooth, images, factor)


def autocontrast(images: Images, magnitude: Tensor) -> Images:
    """Stretch each channel to 0 … 255."""
    low = images.amin((2, 3), keepdim=True).to(torch.float64)
    high = images.amax((2, 3), keepdim=True).to(torch.float64)
    scale = torch.full_like(low, 255.0) / (high - low).clamp_min(1.0)  # 255.0 / x is 255·(1/x) in torch: one bit off
    stretched = (images * scale - low * scale).trunc().clamp(0, 255).to(torch.uint8)
    return torch.where(high > low, stretched, images)


def equalize(images: Images, magnitude: Tensor) -> Images:
    """Flatten the histogram of each channel."""
    b, c, h, w = images.shape
    flat = images.reshape(b * c, h * w).to(torch.int64)
    histogram = torch.zeros(b * c, 256, dtype=torch.int64, device=images.device)
    histogram.scatter_add_(1, flat, torch.ones_like(flat))
    last = histogram.gather(1, flat.amax(1, keepdim=True))
    step = (h * w - last) // 255
    before = histogram.cumsum(1) - histogram
    table = (before + step // 2) // step.clamp_min(1)
    table = torch.where(step > 0, table.clamp_max(255), torch.arange(256, device=images.device))
    return table.gather(1, flat).to(torch.uint8).reshape(b, c, h, w)


def posterize(images: Images, bits: Tensor) -> Images:
    """Keep the ⌊bits⌋ highest bits."""
    dropped = 8 - bits.to(torch.int32)
    mask = 256 - 2**dropped
    return (images.to(torch.int32) & mask[:, None, None, None]).to(torch.uint8)


def solarize(images: Images, threshold: Tensor) -> Images:
    """Invert the pixels at or above the threshold."""
    return torch.where(images.to(torch.float32) >= _per_image(threshold), 255 - images, images)


def affine(images: Images, matrix: Tensor) -> Images:
    """Pull each output pixel (x, y) from (a·x + b·y + c, d·x + e·y + f), nearest pixel, black outside.

    Args:
        matrix: (B, 6) float64 rows a … f, in Pillow's order and with its 16-bit fixed-point arithmetic.
    """
    _, channels, height, width = images.shape
    a, b, c, d, e, f = matrix.to(torch.float64).unbind(1)
    fixed = torch.stack([a, b, c + a * 0.5 + b * 0.5, d, e, f + d * 0.5 + e * 0.5]).mul(65536.0).add(0.5).floor().long()
    a, b, c, d, e, f = fixed[:, :, None, None]
    x = torch.arange(width, device=images.device)[None, None, :]
    y = torch.arange(height, device=images.device)[None, :, None]
    source_x, source_y = (a * x + b * y + c) >> 16, (d * x + e * y + f) >> 16
    inside = (source_x >= 0) & (source_x < width) & (source_y >= 0) & (source_y < height)
    source = torch.where(inside, source_y * width + source_x, 0).flatten(1)
    pulled = images.flatten(2).gather(2, source[:, None, :].expand(-1, channels, -1)).reshape(images.shape)
    kept: Tensor = pulled * inside[:, None]
    return kept


def _matrix(magnitude: Tensor, entries: dict[int, Tensor]) -> Tensor:
    matrix = torch.zeros(len(magnitude), 6, dtype=torch.float64, device=magnitude.device)
    matrix[:, 0] = matrix[:, 4] = 1.0
    for column, value in entries.items():
        matrix[:, column] = value.to(torch.float64)
    return matrix


def shear_x(amount: Tensor, height: int, width: int) -> Tensor:
    """Shift each row in proportion to its height."""
    return _matrix(amount, {1: amount})


def shear_y(amount: Tensor, height: int, width: int) -> Tensor:
    """Shift each column in proportion to its position."""
    return _matrix(amount, {3: amount})


def translate_x(share: Tensor, height: int, width: int) -> Tensor:
    """Shift sideways by a share of the width."""
    return _matrix(share, {2: share.to(torch.float64) * width})


def translate_y(share: Tensor, height: int, width: int) -> Tensor:
    """Shift up or down by a share of the height."""
    return _matrix(share, {5: share.to(torch.float64) * height})


def rotate(degrees: Tensor, height: int, width: int) -> Tensor:
    """Turn about the centre, counter-clockwise."""
    angle = -degrees.to(torch.float64) * (math.pi / 180.0)
    cos, sin = angle.cos(), angle.sin()
    x, y = width / 2.0, height / 2.0
    return _matrix(degrees, {0: cos, 1: sin, 2: x - cos * x - sin * y, 3: -sin, 4: cos, 5: y + sin * x - cos * y})


def shift(images: Images, dx: Tensor, dy: Tensor, reflect: bool = True) -> Images:
    """Move each image by whole pixels (B,); what comes in is a reflection, or black."""
    _, channels, height, width = images.shape
    x = torch.arange(width, device=images.device)[None, None, :] - dx[:, None, None]
    y = torch.arange(height, device=images.device)[None, :, None] - dy[:, None, None]
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    x, y = _reflect(x, width), _reflect(y, height)
    source = (y * width + x).flatten(1)
    moved = images.flatten(2).gather(2, source[:, None, :].expand(-1, channels, -1)).reshape(images.shape)
    return moved if reflect else moved * inside[:, None]


def _reflect(position: Tensor, size: int) -> Tensor:
    """Positions outside 0 … size − 1 mirrored at the edge pixels."""
    if size == 1:
        return torch.zeros_like(position)
    period = 2 * (size - 1)
    position = position.remainder(period)
    return torch.where(position >= size, period - position, position)


def flip(images: Images, chosen: Tensor) -> Images:
    """Mirror the images where `chosen` (B,) is true."""
    return torch.where(chosen[:, None, None, None], images.flip(-1), images)


CUTOUT_COLOR = (125, 123, 114)


def cutout(images: Images, side: Tensor, x: Tensor, y: Tensor) -> Images:
    """Paint a square over each image, grey-brown (125, 123, 114), mean of it on grey images.

    Args:
        side: length in pixels (B,).
        x, y: centre in pixels (B,). A square cut off at the left or top keeps its length, as in TorchSSL.
    """
    channels, height, width = images.shape[1:]
    left, top = (x - side / 2.0).clamp_min(0.0).floor(), (y - side / 2.0).clamp_min(0.0).floor()
    right, bottom = (left + side).clamp_max(float(width)), (top + side).clamp_max(float(height))
    column = torch.arange(width, device=images.device)[None, None, :]
    row = torch.arange(height, device=images.device)[None, :, None]
    hit = (column >= left[:, None, None]) & (column <= right[:, None, None].floor())
    hit = hit & (row >= top[:, None, None]) & (row <= bottom[:, None, None].floor())
    color_ = CUTOUT_COLOR if channels == 3 else (sum(CUTOUT_COLOR) // 3,) * channels
    paint = torch.tensor(color_, dtype=torch.uint8, device=images.device)[None, :, None, None]
    return torch.where(hit[:, None], paint, images)
