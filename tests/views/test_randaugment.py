"""Each batched operation equals Pillow's on the same image; Pillow is the oracle."""

import numpy as np
import pytest
import torch
from PIL import ImageDraw
from torch import Tensor

from softmatch.views import randaugment as ops
from softmatch.views.image import RANDAUGMENT
from softmatch.views.pillow import OPERATIONS, to_image, to_tensor

SHAPES = [(3, 32, 32), (1, 8, 8), (3, 17, 24), (1, 28, 28), (3, 96, 96), (1, 70, 66)]


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


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", RANDAUGMENT)
def test_each_operation_equals_pillow(name: str, shape: tuple[int, int, int]) -> None:
    batch, values = images(shape), magnitudes(name)
    ours = applied(name, batch)
    assert ours.dtype == torch.uint8
    for image, value, mine in zip(batch, values.tolist(), ours, strict=True):
        theirs = to_tensor(OPERATIONS[name](to_image(image), value))
        assert torch.equal(mine, theirs), f"{name} at {value:.3f} differs by {(mine.int() - theirs.int()).abs().max()}"


def magnitudes(name: str) -> Tensor:
    return torch.linspace(RANDAUGMENT[name].low, RANDAUGMENT[name].high, 12)


def applied(name: str, batch: Tensor) -> Tensor:
    choice = RANDAUGMENT[name]
    if choice.geometry is not None:
        return ops.affine(batch, choice.geometry(magnitudes(name), *batch.shape[-2:]))
    return choice.pixels(batch, magnitudes(name))


def test_cutout_equals_a_filled_pillow_rectangle() -> None:
    batch = images((3, 32, 32))
    generator = torch.Generator().manual_seed(3)
    side, x, y = torch.rand(12, generator=generator) * 16, *(torch.rand(2, 12, generator=generator) * 32)
    ours = ops.cutout(batch, side, x, y)
    for image, s, cx, cy, mine in zip(batch, side.tolist(), x.tolist(), y.tolist(), ours, strict=True):
        left, top = int(max(0, cx - s / 2.0)), int(max(0, cy - s / 2.0))
        picture = to_image(image)
        ImageDraw.Draw(picture).rectangle((left, top, min(32, left + s), min(32, top + s)), (125, 123, 114))
        assert torch.equal(mine, to_tensor(picture))


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
    for name in (name for name, choice in RANDAUGMENT.items() if choice.pixels):
        for image, value, mine in zip(batch, magnitudes(name).tolist(), applied(name, batch), strict=True):
            assert torch.equal(mine, to_tensor(OPERATIONS[name](to_image(image), value)))
    assert torch.equal(ops.move(batch, *torch.zeros(2, 12).long(), torch.zeros(12, dtype=torch.bool)), batch)


def test_operations_do_not_depend_on_the_memory_layout() -> None:
    batch = images((3, 8, 10))
    last = batch.contiguous(memory_format=torch.channels_last)
    for name in RANDAUGMENT:
        assert torch.equal(applied(name, batch), applied(name, last))
