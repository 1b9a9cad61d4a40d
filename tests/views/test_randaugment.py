"""Each batched operation equals Pillow's on the same image; Pillow is the oracle."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageEnhance, ImageOps
from torch import Tensor

from softmatch.views import randaugment as ops

SHAPES = [(3, 32, 32), (1, 8, 8), (3, 17, 24), (1, 28, 28)]


def images(shape: tuple[int, int, int], number: int = 12) -> Tensor:
    """Random noise, a smooth ramp, a constant, two levels, and narrow ranges: the cases where roundings differ."""
    generator = torch.Generator().manual_seed(1)
    batch = torch.randint(0, 256, (number, *shape), generator=generator, dtype=torch.uint8)
    batch[0] = 77
    batch[1] = torch.linspace(0, 255, shape[-1]).to(torch.uint8)
    batch[2] = (batch[2] > 128).to(torch.uint8) * 200
    batch[3] = batch[3] // 8 + 100
    batch[4] = 0
    return batch


def to_pillow(image: Tensor) -> Image.Image:
    array = image.permute(1, 2, 0).numpy()
    return Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array)


def from_pillow(image: Image.Image) -> Tensor:
    array = np.array(image)
    return torch.from_numpy(array[..., None] if array.ndim == 2 else array).permute(2, 0, 1)


def magnitudes(low: float, high: float, number: int = 12) -> Tensor:
    return torch.linspace(low, high, number)


PIXELS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], float, float, Callable[[Image.Image, float], Image.Image]]] = {
    "identity": (ops.identity, 0, 1, lambda image, value: image),
    "brightness": (ops.brightness, 0.05, 0.95, lambda image, value: ImageEnhance.Brightness(image).enhance(value)),
    "color": (ops.color, 0.05, 0.95, lambda image, value: ImageEnhance.Color(image).enhance(value)),
    "contrast": (ops.contrast, 0.05, 0.95, lambda image, value: ImageEnhance.Contrast(image).enhance(value)),
    "sharpness": (ops.sharpness, 0.05, 0.95, lambda image, value: ImageEnhance.Sharpness(image).enhance(value)),
    "autocontrast": (ops.autocontrast, 0, 1, lambda image, value: ImageOps.autocontrast(image)),
    "equalize": (ops.equalize, 0, 1, lambda image, value: ImageOps.equalize(image)),
    "posterize": (ops.posterize, 4, 8, lambda image, value: ImageOps.posterize(image, int(value))),
    "solarize": (ops.solarize, 0, 256, lambda image, value: ImageOps.solarize(image, value)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PIXELS)
def test_pixel_operation_equals_pillow(name: str, shape: tuple[int, int, int]) -> None:
    operation, low, high, oracle = PIXELS[name]
    batch, values = images(shape), magnitudes(low, high)
    ours = operation(batch, values)
    assert ours.dtype == torch.uint8
    for image, value, mine in zip(batch, values, ours, strict=True):
        theirs = from_pillow(oracle(to_pillow(image), float(value)))
        assert torch.equal(mine, theirs), f"{name} at {float(value):.3f} differs by {(mine.int() - theirs.int()).abs().max()}"


def transform(matrix: Callable[[float, int, int], tuple[float, ...]]) -> Callable[[Image.Image, float], Image.Image]:
    def apply(image: Image.Image, value: float) -> Image.Image:
        return image.transform(image.size, Image.Transform.AFFINE, matrix(value, *image.size))

    return apply


GEOMETRY: dict[str, tuple[Callable[[Tensor, int, int], Tensor], float, float, Callable[[Image.Image, float], Image.Image]]] = {
    "shear_x": (ops.shear_x, -0.3, 0.3, transform(lambda v, w, h: (1, v, 0, 0, 1, 0))),
    "shear_y": (ops.shear_y, -0.3, 0.3, transform(lambda v, w, h: (1, 0, 0, v, 1, 0))),
    "translate_x": (ops.translate_x, -0.3, 0.3, transform(lambda v, w, h: (1, 0, v * w, 0, 1, 0))),
    "translate_y": (ops.translate_y, -0.3, 0.3, transform(lambda v, w, h: (1, 0, 0, 0, 1, v * h))),
    "rotate": (ops.rotate, -30, 30, lambda image, value: image.rotate(value)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", GEOMETRY)
def test_geometric_operation_equals_pillow(name: str, shape: tuple[int, int, int]) -> None:
    matrix, low, high, oracle = GEOMETRY[name]
    batch, values = images(shape), magnitudes(low, high)
    ours = ops.affine(batch, matrix(values, *shape[-2:]))
    for image, value, mine in zip(batch, values, ours, strict=True):
        assert torch.equal(mine, from_pillow(oracle(to_pillow(image), float(value)))), f"{name} at {float(value)}"


def test_cutout_equals_a_filled_pillow_rectangle() -> None:
    batch = images((3, 32, 32))
    generator = torch.Generator().manual_seed(3)
    side, x, y = torch.rand(12, generator=generator) * 16, *(torch.rand(2, 12, generator=generator) * 32)
    ours = ops.cutout(batch, side, x, y)
    for image, s, cx, cy, mine in zip(batch, side.tolist(), x.tolist(), y.tolist(), ours, strict=True):
        left, top = int(max(0, cx - s / 2.0)), int(max(0, cy - s / 2.0))
        picture = to_pillow(image)
        ImageDraw.Draw(picture).rectangle((left, top, min(32, left + s), min(32, top + s)), (125, 123, 114))
        assert torch.equal(mine, from_pillow(picture))


def test_shift_reflects_like_numpy_padding() -> None:
    batch = images((3, 9, 11), 12)
    generator = torch.Generator().manual_seed(4)
    dx, dy = torch.randint(-4, 5, (2, 12), generator=generator)
    moved = ops.move(batch, dx, dy, torch.zeros_like(dx, dtype=torch.bool))
    for image, x, y, mine in zip(batch.numpy(), dx.tolist(), dy.tolist(), moved, strict=True):
        padded = np.pad(image, ((0, 0), (4, 4), (4, 4)), mode="reflect")
        assert np.array_equal(mine.numpy(), padded[:, 4 - y : 13 - y, 4 - x : 15 - x])


def test_shift_without_reflection_brings_in_black() -> None:
    batch = torch.full((1, 1, 4, 4), 9, dtype=torch.uint8)
    moved = ops.move(batch, torch.tensor([1]), torch.tensor([-2]), torch.tensor([False]), reflect=False)[0, 0]
    assert moved.tolist() == [[0, 9, 9, 9], [0, 9, 9, 9], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_flip_mirrors_only_the_chosen() -> None:
    batch = images((3, 5, 7), 12)
    chosen = torch.arange(12) % 2 == 0
    still = torch.zeros_like(chosen, dtype=torch.int64)
    flipped = ops.move(batch, still, still, chosen)
    assert torch.equal(flipped[::2], batch[::2].flip(-1))
    assert torch.equal(flipped[1::2], batch[1::2])


@pytest.mark.parametrize("reflect", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_move_is_a_shift_and_then_a_flip(shape: tuple[int, int, int], reflect: bool) -> None:
    batch = images(shape)
    generator = torch.Generator().manual_seed(5)
    dx, dy = torch.randint(-9, 10, (2, 12), generator=generator)  # beyond the 8×8 images too
    mirrored = torch.rand(12, generator=generator) < 0.5
    shifted = ops.move(batch, dx, dy, torch.zeros_like(mirrored), reflect)
    expected = torch.where(mirrored[:, None, None, None], shifted.flip(-1), shifted)
    assert torch.equal(ops.move(batch, dx, dy, mirrored, reflect), expected)


@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 2, 5), (3, 3, 2)])
def test_images_of_very_few_pixels_are_possible(shape: tuple[int, int, int]) -> None:
    batch = images((3, 8, 8))[:, : shape[0], : shape[1], : shape[2]].contiguous()
    for operation, low, high, oracle in PIXELS.values():
        values = magnitudes(low, high)
        for image, value, mine in zip(batch, values, operation(batch, values), strict=True):
            assert torch.equal(mine, from_pillow(oracle(to_pillow(image), float(value))))
    assert torch.equal(ops.move(batch, *torch.zeros(2, 12).long(), torch.zeros(12, dtype=torch.bool)), batch)


def test_operations_do_not_depend_on_the_memory_layout() -> None:
    batch = images((3, 8, 10))
    last = batch.contiguous(memory_format=torch.channels_last)
    for operation, low, high, _ in PIXELS.values():
        assert torch.equal(operation(batch, magnitudes(low, high)), operation(last, magnitudes(low, high)))
    matrix = ops.rotate(magnitudes(-30, 30), 8, 10)
    assert torch.equal(ops.affine(batch, matrix), ops.affine(last, matrix))
