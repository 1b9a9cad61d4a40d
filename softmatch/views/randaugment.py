"""The image operations of RandAugment on batches of uint8 tensors (B, C, H, W), each with one magnitude per image.

Operations on pixel values take images and magnitudes; geometric ones turn magnitudes into matrices for `affine`, so that
all geometric operations of a batch are one call.

Every operation equals Pillow's on the same image, roundings included (the tests compare them), because published results were
trained with Pillow. Images have 1 (grey) or 3 (RGB) channels.

For speed on a CPU, arithmetic uses 8-bit and 32-bit numbers in contiguous memory, `gather` moves pixels, `index_select` moves
images, and masks are applied as bits. `torch.where` and indexing by tensors take ten times as long.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

Images = Tensor
"""uint8, (B, C, H, W)."""


def _per_image(magnitude: Tensor) -> Tensor:
    return magnitude.to(torch.float32)[:, None, None, None]


def _bits(mask: Tensor) -> Tensor:
    """255 where the mask is true, else 0: `x & bits` keeps, `x ^ bits` inverts."""
    return mask.view(torch.uint8).neg()


def _look_up(table: Tensor, images: Images) -> Images:
    """Replace each pixel value by its entry in the uint8 table (B, C, 256) of its image and channel."""
    return table.gather(2, images.flatten(2).to(torch.int64)).view(images.shape)


def _truncated(levels: Tensor) -> Images:
    """Clip to 0 … 255 and truncate, through int32, which takes half the time of the direct conversion."""
    return levels.clamp_(0, 255).to(torch.int32).to(torch.uint8)


def blend(base: Tensor, images: Images, factor: Tensor) -> Images:
    """base + factor·(image − base), truncated to whole numbers and clipped (Pillow's Image.blend). The base is float32."""
    return _truncated(images.to(torch.float32).sub_(base).mul_(_per_image(factor)).add_(base))


def grey(images: Images) -> Tensor:
    """Luma (B, 1, H, W) by the weights of ITU-R 601-2 in 16-bit fixed point; grey images unchanged."""
    if images.shape[1] == 1:
        return images
    r, g, b = images.to(torch.int32).unbind(1)
    luma = (r * 19595).add_(g, alpha=38470).add_(b, alpha=7471).add_(0x8000)
    return luma.bitwise_right_shift_(16).to(torch.uint8)[:, None]


def identity(images: Images, magnitude: Tensor) -> Images:
    """The image itself."""
    return images


def brightness(images: Images, factor: Tensor) -> Images:
    """Towards black."""
    return _truncated(images.to(torch.float32).mul_(_per_image(factor)))


def color(images: Images, factor: Tensor) -> Images:
    """Towards grey."""
    return images if images.shape[1] == 1 else blend(grey(images).to(torch.float32), images, factor)


def contrast(images: Images, factor: Tensor) -> Images:
    """Towards the mean grey level."""
    pixels = images.shape[-2] * images.shape[-1]
    total = grey(images).sum((1, 2, 3), dtype=torch.int64)
    level = (2 * total + pixels) // (2 * pixels)  # the mean, rounded half up
    return blend(_per_image(level), images, factor)


def sharpness(images: Images, factor: Tensor) -> Images:
    """Towards a smoothed image (3×3, centre 5/13); the outermost pixels stay."""
    width = images.shape[-1]
    if min(images.shape[-2:]) < 3:
        return images
    smooth = images.to(torch.float32, memory_format=torch.contiguous_format)
    row = smooth.view(-1)  # sums over neighbours in memory; those that mix two rows are on the edges, which are restored
    three = row[width:-width] + row[: -2 * width] + row[2 * width :]
    total = (three[1:-1] + three[:-2]).add_(three[2:]).add_(row[width + 1 : -width - 1], alpha=4.0)
    row[width + 1 : -width - 1] = total.mul_(1.0 / 13.0).add_(0.5).floor_()
    mixed = blend(smooth, images, factor)
    for axis in (2, 3):
        for edge in (0, images.shape[axis] - 1):
            mixed.select(axis, edge).copy_(images.select(axis, edge))
    return mixed


def autocontrast(images: Images, magnitude: Tensor) -> Images:
    """Stretch each channel to 0 … 255."""
    exact = torch.float64 if images.device.type != "mps" else torch.float32  # then some values differ by 1
    low = images.amin((2, 3))[..., None].to(exact)
    high = images.amax((2, 3))[..., None].to(exact)
    scale = torch.full_like(low, 255.0) / (high - low).clamp_min(1.0)  # 255.0 / x is 255·(1/x) in torch: one bit off
    value = torch.arange(256, device=images.device, dtype=exact)
    table = (value * scale).sub_(low * scale).clamp_(0, 255)
    return _look_up(torch.where(high > low, table, value).to(torch.uint8), images)


def equalize(images: Images, magnitude: Tensor) -> Images:
    """Flatten the histogram of each channel."""
    pixel = images.flatten(2).to(torch.int64)
    histogram = torch.zeros(*pixel.shape[:2], 256, dtype=torch.int32, device=images.device)
    histogram.scatter_add_(2, pixel, torch.ones_like(pixel, dtype=torch.int32))
    last = histogram.gather(2, images.amax((2, 3))[..., None].to(torch.int64))
    step = (pixel.shape[2] - last) // 255
    before = histogram.cumsum(2, dtype=torch.int32).sub_(histogram)
    table = before.add_(step // 2).floor_divide_(step.clamp_min(1)).clamp_(max=255)
    value = torch.arange(256, device=images.device, dtype=torch.int32)
    table = torch.where(step > 0, table, value).to(torch.uint8)
    return table.gather(2, pixel).view(images.shape)


def posterize(images: Images, bits: Tensor) -> Images:
    """Keep the ⌊bits⌋ highest bits."""
    mask = 256 - 2 ** (8 - bits.to(torch.int32))
    return images & mask.to(torch.uint8)[:, None, None, None]


def solarize(images: Images, threshold: Tensor) -> Images:
    """Invert the pixels at or above the threshold."""
    first = threshold.ceil().to(torch.int16)[:, None, None, None]
    return _bits(images.to(torch.int16) >= first).bitwise_xor_(images)


def affine(images: Images, matrix: Tensor) -> Images:
    """Pull each output pixel (x, y) from (a·x + b·y + c, d·x + e·y + f), nearest pixel, black outside.

    Args:
        matrix: (B, 6) float64 rows a … f, in Pillow's order and with its 16-bit fixed-point arithmetic, for sides
            below 16,384. It may be on the host while the images are not.
    """
    height, width = images.shape[-2:]
    a, b, c, d, e, f = matrix.to(torch.float64).unbind(1)
    fixed = torch.stack([a, b, c + a * 0.5 + b * 0.5, d, e, f + d * 0.5 + e * 0.5]).mul_(65536.0).add_(0.5).floor_()
    a, b, c, d, e, f = fixed.to(torch.int32).to(images.device, non_blocking=True)[:, :, None, None]
    x = torch.arange(width, dtype=torch.int32, device=images.device)
    y = torch.arange(height, dtype=torch.int32, device=images.device)[:, None]
    one = 1 << 16  # everything outside falls on a black frame of one pixel
    source_x = (a * x + (b * y + (c + one))).bitwise_right_shift_(16).clamp_(0, width + 1)
    source_y = (d * x + (e * y + (f + one))).bitwise_right_shift_(16).clamp_(0, height + 1)
    return _pull(F.pad(images, (1, 1, 1, 1)), source_x.add_(source_y, alpha=width + 2))


def _pull(images: Images, source: Tensor) -> Images:
    """Take each pixel of the output from position `source` (B, H, W) in the flattened image."""
    index = source.flatten(1).to(torch.int64)[:, None].expand(-1, images.shape[1], -1)
    return images.flatten(2).gather(2, index).view(*images.shape[:2], *source.shape[1:])


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
    return _matrix(share, {2: _whole(share, width)})


def translate_y(share: Tensor, height: int, width: int) -> Tensor:
    """Shift up or down by a share of the height."""
    return _matrix(share, {5: _whole(share, height)})


def _whole(share: Tensor, size: int) -> Tensor:
    """Pixels to shift by, rounded before the fixed-point arithmetic, which Pillow does not use for pure shifts."""
    return (share.to(torch.float64) * size + 0.5).floor()


def rotate(degrees: Tensor, height: int, width: int) -> Tensor:
    """Turn about the centre, counter-clockwise."""
    angle = -degrees.to(torch.float64) * (math.pi / 180.0)
    cos, sin = angle.cos(), angle.sin()
    x, y = width / 2.0, height / 2.0
    return _matrix(degrees, {0: cos, 1: sin, 2: x - cos * x - sin * y, 3: -sin, 4: cos, 5: y + sin * x - cos * y})


def move(images: Images, dx: Tensor, dy: Tensor, mirrored: Tensor, reflect: bool = True) -> Images:
    """Shift each image by whole pixels (B,), then mirror it if `mirrored` (B,). New pixels are a reflection, or black."""
    height, width = images.shape[-2:]
    column = torch.arange(width, device=images.device)
    x = torch.where(mirrored[:, None], width - 1 - column, column) - dx[:, None]
    y = torch.arange(height, device=images.device) - dy[:, None]
    moved = _pull(images, _reflect(x, width)[:, None, :] + width * _reflect(y, height)[:, :, None])
    if reflect:
        return moved
    inside = ((y >= 0) & (y < height))[:, :, None] & ((x >= 0) & (x < width))[:, None, :]
    return moved.bitwise_and_(_bits(inside)[:, None])


def _reflect(position: Tensor, size: int) -> Tensor:
    """Positions outside 0 … size − 1 mirrored at the edge pixels."""
    if size == 1:
        return torch.zeros_like(position)
    period = 2 * (size - 1)
    position = position.remainder(period)
    return torch.minimum(position, period - position)


CUTOUT_COLOR = (125, 123, 114)


def cutout_color(channels: int) -> tuple[int, ...]:
    """Colour of the painted square: its mean for grey images."""
    return CUTOUT_COLOR if channels == 3 else (sum(CUTOUT_COLOR) // 3,) * channels


def cutout(images: Images, side: Tensor, x: Tensor, y: Tensor) -> Images:
    """Paint a square over each image, grey-brown (125, 123, 114), or its mean on grey images.

    Args:
        side: length in pixels (B,).
        x, y: centre in pixels (B,). A square cut off at the left or top keeps its length, as in TorchSSL.
    """
    channels, height, width = images.shape[1:]
    hit = _covered(y, side, height)[:, :, None] & _covered(x, side, width)[:, None, :]
    paint = torch.tensor(cutout_color(channels), dtype=torch.uint8).to(images.device, non_blocking=True)[:, None, None]
    return (images ^ paint).bitwise_and_(_bits(hit)[:, None]).bitwise_xor_(images)


def _covered(center: Tensor, side: Tensor, size: int) -> Tensor:
    """True for the positions 0 … size − 1 that the square covers (B, size), its last one included."""
    start = (center - side / 2.0).clamp_min(0.0).floor()
    stop = (start + side).clamp_max(float(size)).floor()
    position = torch.arange(size, device=center.device)
    return (position >= start[:, None]) & (position <= stop[:, None])
