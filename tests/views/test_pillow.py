"""Views of single Pillow images: the same pixels as the batched ones for the same draws, and draws of the same kind."""

import pytest
import torch
from PIL import Image
from torch import Tensor

from softmatch.views import ImageViews
from softmatch.views import randaugment as ops
from softmatch.views.image import RANDAUGMENT
from softmatch.views.pillow import Draw, PillowViews, to_image, to_tensor

MANY = 4000


def batch(number: int, channels: int, height: int, width: int) -> Tensor:
    """Noise, ramps and narrow ranges, so that the operations have something to round."""
    generator = torch.Generator().manual_seed(2)
    items = torch.randint(0, 256, (number, channels, height, width), generator=generator, dtype=torch.uint8)
    items[::3] = items[::3] // 6 + 90
    items[1::3] = torch.linspace(0, 255, width).to(torch.uint8)
    return items


def views_of(channels: int, **options: object) -> ImageViews:
    return ImageViews([0.5] * channels, [0.25] * channels, **options)  # type: ignore[arg-type]  # options by name


@pytest.mark.parametrize("order", ["randaugment-first", "crop-first"])
@pytest.mark.parametrize("reflect", [True, False])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_whole_strong_view_gives_the_pixels_of_the_batched_operations(channels: int, reflect: bool, order: str) -> None:
    """The draws of 40 single images, applied by the batched operations: bit for bit the same.

    Only a square whose edge falls on a whole pixel up to 32-bit rounding may differ; these draws have none.
    """
    items = batch(40, channels, 48, 40)
    single = PillowViews(views_of(channels, order=order, reflect=reflect, pad=5))
    for number, item in enumerate(items):
        draw = single.draw_strong(torch.Generator().manual_seed(number))
        image = _changed(item[None], draw) if order == "randaugment-first" else _moved(item[None], draw, reflect)
        image = _moved(image, draw, reflect) if order == "randaugment-first" else _changed(image, draw)
        assert torch.equal(to_tensor(single.apply(to_image(item), draw)), image[0])


def _changed(image: Tensor, draw: Draw) -> Tensor:
    height, width = image.shape[-2:]
    for name, value in draw.operations:
        choice, magnitude = RANDAUGMENT[name], torch.tensor([value], dtype=torch.float64)
        if choice.geometry is not None:
            image = ops.affine(image, choice.geometry(magnitude, height, width))
        else:
            image = choice.pixels(image, magnitude)
    side, x, y = (torch.tensor([share]) for share in draw.square)
    return ops.cutout(image, side * 0.5 * width, x * width, y * height)


def _moved(image: Tensor, draw: Draw, reflect: bool) -> Tensor:
    dx, dy = (torch.tensor([int(share * 11) - 5]) for share in draw.place)
    return ops.move(image, dx, dy, torch.tensor([draw.flip]), reflect)


def test_operations_and_magnitudes_are_drawn_as_of_the_batched_views() -> None:
    """Each operation equally often, in every place, with magnitudes uniform over its whole range."""
    single, generator = PillowViews(views_of(3)), torch.Generator().manual_seed(0)
    draws = [single.draw_strong(generator) for _ in range(MANY)]
    assert {len(draw.operations) for draw in draws} == {3}
    for place in range(3):
        names = [draw.operations[place][0] for draw in draws]
        counts = torch.tensor([names.count(name) for name in RANDAUGMENT])
        assert ((counts - MANY / 14).abs() < 5 * (MANY / 14) ** 0.5).all()
    for name, choice in RANDAUGMENT.items():
        values = [value for draw in draws for drawn, value in draw.operations if drawn == name]
        shares = ((torch.tensor(values) - choice.low) / (choice.high - choice.low)).sort().values
        assert (shares - torch.linspace(0, 1, len(shares))).abs().max() < 2.0 / len(shares) ** 0.5  # Kolmogorov, p < 0.001


def test_shifts_squares_and_flips_are_drawn_as_of_the_batched_views() -> None:
    single, generator = PillowViews(views_of(1, pad=2)), torch.Generator().manual_seed(1)
    draws = [single.draw_strong(generator) for _ in range(MANY)]
    shares = torch.tensor([(*draw.place, *(draw.square or ())) for draw in draws]).double().sort(0).values
    assert (shares - torch.linspace(0, 1, MANY)[:, None]).abs().max() < 2.0 / MANY**0.5
    assert abs(sum(draw.flip for draw in draws) - MANY / 2) < 5 * (MANY / 4) ** 0.5
    spot = Image.new("L", (9, 9))
    spot.putpixel((4, 4), 255)
    seen = torch.stack([single.weak(spot, torch.Generator().manual_seed(seed))[0] for seed in range(1000)])
    found = (seen == 255).sum(0)  # where the spot went: each of the 25 places equally often
    assert int(found.sum()) == 1000
    assert (found[2:7, 2:7] > 10).all()


def test_the_switches_are_those_of_the_settings() -> None:
    single = PillowViews(views_of(3, flip=False, cutout=0.0, operations=2, names=["equalize", "solarize"], pad=0))
    draws = [single.draw_strong(torch.Generator().manual_seed(seed)) for seed in range(200)]
    assert not any(draw.flip for draw in draws)
    assert {draw.square for draw in draws} == {None}
    assert {name for draw in draws for name, _ in draw.operations} == {"equalize", "solarize"}
    image = to_image(batch(1, 3, 20, 20)[0])
    assert torch.equal(single.weak(image, torch.Generator()), single.plain(image))


def test_a_larger_image_is_cropped_everywhere_and_in_the_middle_for_evaluation() -> None:
    rows, columns = torch.meshgrid(torch.arange(12), torch.arange(12), indexing="ij")
    image = to_image((rows * 16 + columns).to(torch.uint8)[None])
    single = PillowViews(views_of(1, flip=False), side=8)
    assert torch.equal(single.plain(image), to_tensor(image)[:, 2:10, 2:10])
    crops = [single.weak(image, torch.Generator().manual_seed(seed)) for seed in range(300)]
    corners = {divmod(int(crop[0, 0, 0]), 16) for crop in crops}
    assert corners == {(y, x) for y in range(5) for x in range(5)}
    assert {crop.shape for crop in crops} == {(1, 8, 8)}


def test_the_same_generator_state_gives_the_same_view() -> None:
    single, image = PillowViews(views_of(3)), to_image(batch(1, 3, 40, 40)[0])
    first, again, other = (single.strong(image, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.dtype == torch.uint8
