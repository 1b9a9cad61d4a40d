"""Image views: their distribution, their independence per sample, their repeatability."""

from __future__ import annotations

import pytest
import torch

from softmatch.errors import InputError
from softmatch.views import ImageViews, views_from_settings
from softmatch.views.image import RANDAUGMENT, randaugment


def batch(number: int = 64, channels: int = 3, side: int = 16) -> torch.Tensor:
    return torch.randint(0, 256, (number, channels, side, side), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


@pytest.mark.parametrize("channels", [1, 3])
def test_views_have_the_shape_of_the_input_and_are_finite(channels: int) -> None:
    views = ImageViews([0.5] * channels, [0.25] * channels)
    items = batch(channels=channels)
    for view in (views.plain(items), views.weak(items, torch.Generator()), views.strong(items, torch.Generator())):
        assert view.shape == items.shape
        assert view.dtype == torch.float32
        assert torch.isfinite(view).all()


def test_plain_is_the_normalised_image() -> None:
    items = batch()
    plain = ImageViews([0.5, 0.4, 0.3], [0.25, 0.5, 1.0]).plain(items)
    assert torch.allclose(plain[:, 1], (items[:, 1] / 255.0 - 0.4) / 0.5)


def test_the_same_generator_state_gives_the_same_view_and_another_gives_another() -> None:
    views, items = ImageViews([0.5] * 3, [0.25] * 3), batch()
    first, again, other = (views.strong(items, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_each_image_draws_operations_of_its_own() -> None:
    """Copies of one image come out different: a batch does not share its operations."""
    items = batch(1).repeat(256, 1, 1, 1)
    changed = randaugment(items, torch.Generator().manual_seed(0), number=1)
    assert len(torch.unique(changed.flatten(1), dim=0)) > 100  # shared operations would give one


def test_every_operation_is_drawn_equally_often_and_with_magnitudes_over_its_whole_range() -> None:
    """Operations replaced by ones that write the magnitude down."""
    from softmatch.views import image as module

    seen: dict[str, list[float]] = {name: [] for name in RANDAUGMENT}

    def spy(name: str, choice: module.Choice) -> module.Choice:
        def pixels(images: torch.Tensor, magnitude: torch.Tensor) -> torch.Tensor:
            seen[name] += magnitude.tolist()
            return images

        return module.Choice(choice.low, choice.high, pixels)

    spied = {name: spy(name, choice) for name, choice in RANDAUGMENT.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "RANDAUGMENT", spied)
        module.randaugment(batch(7000, 1, 2), torch.Generator().manual_seed(0), number=2, names=tuple(spied))
    for name, values in seen.items():
        low, high = RANDAUGMENT[name].low, RANDAUGMENT[name].high
        assert 850 < len(values) < 1150, name  # 1,000 expected, σ = 30
        assert low <= min(values) < low + 0.02 * (high - low)
        assert high - 0.02 * (high - low) < max(values) <= high


def test_the_geometric_shortcut_equals_one_operation_at_a_time() -> None:
    """Grouping must not change which image gets what: compare with a loop over single images."""
    from softmatch.views import operations as ops

    items, names = batch(50), tuple(RANDAUGMENT)
    generator = torch.Generator().manual_seed(5)
    fast = randaugment(items, torch.Generator().manual_seed(5), number=1, names=names)
    choices = [RANDAUGMENT[name] for name in sorted(names, key=lambda name: RANDAUGMENT[name].geometry is None)]
    drawn = torch.randint(len(choices), (50,), generator=generator)
    magnitude = torch.rand(50, generator=generator)
    for number, position in enumerate(drawn.tolist()):
        choice = choices[position]
        value = choice.low + (choice.high - choice.low) * magnitude[number : number + 1]
        image = items[number : number + 1]
        if choice.geometry is not None:
            expected = ops.affine(image, choice.geometry(value, 16, 16))
        else:
            assert choice.pixels is not None
            expected = choice.pixels(image, value)
        assert torch.equal(fast[number], expected[0])


def test_the_weak_view_is_a_shift_of_at_most_pad_pixels() -> None:
    views, items = ImageViews([0.0], [1.0], pad=1, flip=False), batch(200, 1, 8)
    weak = (views.weak(items, torch.Generator().manual_seed(0)) * 255).round().to(torch.uint8)
    shifts = [torch.roll(items, (dy, dx), (2, 3)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
    inner = (..., slice(1, -1), slice(1, -1))
    matches = torch.stack([(weak[inner] == shifted[inner]).flatten(1).all(1) for shifted in shifts])
    assert (matches.sum(0) == 1).all()
    assert (matches.sum(1) > 5).all()  # each of the nine shifts occurs


def test_settings_make_the_same_views_again() -> None:
    views = ImageViews([0.5], [0.25], pad=2, flip=False, reflect=False, operations=2, names=["rotate", "identity"], cutout=0.3)
    again = views_from_settings(views.settings())
    items = batch(channels=1)
    first, second = (v.strong(items, torch.Generator().manual_seed(1)) for v in (views, again))
    assert torch.equal(first, second)


def test_unknown_kinds_and_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="unknown kind"):
        views_from_settings({"kind": "sound"})
    with pytest.raises(InputError, match="cutouts"):
        views_from_settings({"kind": "image", "mean": [0.5], "std": [0.2], "cutouts": 1})
