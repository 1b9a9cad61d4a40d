"""Image views: their distribution, their independence per sample, their repeatability."""

import pickle
from typing import Any

import pytest
import torch

from softmatch.errors import InputError
from softmatch.views import ImageViews, views_from_settings
from softmatch.views import randaugment as ops
from softmatch.views.image import RANDAUGMENT, channel_statistics, randaugment


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
    items, names = batch(50), tuple(RANDAUGMENT)
    generator = torch.Generator().manual_seed(5)
    fast = randaugment(items, torch.Generator().manual_seed(5), number=3, names=names)
    choices = [RANDAUGMENT[name] for name in sorted(names, key=lambda name: RANDAUGMENT[name].geometry is None)]
    expected = list(items.split(1))
    for _ in range(3):
        drawn = torch.randint(len(choices), (50,), generator=generator)
        magnitude = torch.rand(50, generator=generator)
        for number, position in enumerate(drawn.tolist()):
            choice = choices[position]
            value = choice.low + (choice.high - choice.low) * magnitude[number : number + 1]
            if choice.geometry is not None:
                expected[number] = ops.affine(expected[number], choice.geometry(value, 16, 16))
            else:
                expected[number] = choice.pixels(expected[number], value)
    assert torch.equal(fast, torch.cat(expected))


@pytest.mark.parametrize("options", [{}, {"order": "crop-first"}, {"reflect": False}, {"pad": 0, "flip": False, "cutout": 0.0}])
@pytest.mark.parametrize("channels", [1, 3])
def test_the_host_never_waits_for_the_device(channels: int, options: dict[str, Any]) -> None:
    """Tensors on the meta device have no values: a view that reads one, or mixes devices, fails."""
    views, items = ImageViews([0.5] * channels, [0.25] * channels, **options), batch(40, channels).to("meta")
    for view in (views.plain(items), views.weak(items, torch.Generator()), views.strong(items, torch.Generator())):
        assert (view.device.type, view.shape) == ("meta", items.shape)


def test_the_order_says_whether_the_square_is_moved_along() -> None:
    """Black comes in at the edges: over the square if it is painted first, under it if it is painted last."""
    square = torch.tensor([125, 123, 114], dtype=torch.uint8)[:, None, None]
    items = torch.full((300, 3, 8, 8), 255, dtype=torch.uint8)
    for order in ("randaugment-first", "crop-first"):
        views = ImageViews([0.0] * 3, [1.0] * 3, pad=4, reflect=False, operations=0, cutout=1.0, order=order)
        strong = (views.strong(items, torch.Generator().manual_seed(0)) * 255).round().to(torch.uint8)
        black = (strong == 0).all(1).flatten(1).sum(1)
        dx, dy = torch.randint(-4, 5, (2, 300), generator=_after(order)).abs()
        incoming = 64 - (8 - dx) * (8 - dy)
        if order == "randaugment-first":
            assert torch.equal(black, incoming)
        else:
            assert (black <= incoming).all()
            assert (black < incoming).any()
        assert (strong == square).all(1).any()


def _after(order: str) -> torch.Generator:
    """The generator when the shift is drawn: after the square or before."""
    generator = torch.Generator().manual_seed(0)
    if order == "randaugment-first":
        torch.rand(3, 300, generator=generator)
    return generator


def test_without_pad_flip_operations_and_cutout_the_strong_view_is_the_plain_one() -> None:
    views, items = ImageViews([0.5] * 3, [0.25] * 3, pad=0, flip=False, operations=0, cutout=0.0), batch()
    assert torch.equal(views.strong(items, torch.Generator()), views.plain(items))
    assert torch.equal(views.weak(items, torch.Generator()), views.plain(items))


@pytest.mark.parametrize("names", [["rotate"], ["rotate", "shear_x"], ["equalize"], ["identity"]])
def test_any_choice_of_operations_is_possible(names: list[str]) -> None:
    items = batch(30)
    changed = randaugment(items, torch.Generator().manual_seed(0), 2, names)
    assert torch.equal(changed, items) == (names == ["identity"])


def test_channel_statistics_are_those_of_all_pixels() -> None:
    items = batch(70, 3, 9)
    items[:, 2] = 40
    mean, std = channel_statistics(items, chunk=16)
    exact = items.double() / 255
    assert torch.allclose(torch.tensor(mean).double(), exact.mean((0, 2, 3)), rtol=1e-7)
    assert torch.allclose(torch.tensor(std).double(), exact.std((0, 2, 3)), rtol=1e-7)
    chosen = torch.tensor([3, 3, 69, 1])
    assert channel_statistics(items, chosen) == channel_statistics(items[chosen])


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
    assert views_from_settings(views.settings()).settings() == views.settings()
    again = views_from_settings(views.settings())
    items = batch(channels=1)
    first, second = (v.strong(items, torch.Generator().manual_seed(1)) for v in (views, again))
    assert torch.equal(first, second)


def test_unknown_kinds_and_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="unknown kind"):
        views_from_settings({"kind": "sound"})
    with pytest.raises(InputError, match="cutouts"):
        views_from_settings({"kind": "image", "mean": [0.5], "std": [0.2], "cutouts": 1})
    with pytest.raises(InputError, match=r"'rotete'.*'rotate'"):
        ImageViews([0.5], [0.2], names=["rotete"])
    with pytest.raises(InputError, match=r"'crop'.*'crop-first'"):
        ImageViews([0.5], [0.2], order="crop")  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pad": -1}, "pad must be a whole number"),
        ({"pad": 1.5}, "pad must be a whole number"),
        ({"operations": -1}, "operations must be a whole number"),
        ({"cutout": "x"}, "cutout must be a share"),
        ({"cutout": 1.5}, "cutout must be a share"),
        ({"names": "equalise"}, "unknown operation 'equalise'"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ImageViews([0.5], [0.2], **options)


def test_one_operation_may_be_given_by_its_name() -> None:
    assert ImageViews([0.5], [0.2], names="equalize").names == ("equalize",)


def test_worker_processes_are_given_views_without_tensors_of_a_device() -> None:
    views = ImageViews([0.5], [0.2])
    images = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    views.plain(images.to("meta"))
    copied = pickle.loads(pickle.dumps(views))
    assert not copied._sent
    assert torch.equal(copied.plain(images), views.plain(images))
