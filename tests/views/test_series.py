"""Views of series: each operation equals a plain NumPy version on one series, and any part of a batch gets its own rows."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from softmatch.errors import InputError
from softmatch.views import SeriesViews, views_from_settings
from softmatch.views.series import KNOTS, OPERATIONS, SEGMENTS, SENSORS, SOUNDS, Draw

Array = npt.NDArray[np.float64]
LENGTHS = (24, 57, 256)


def _pulled(series: Array, positions: Array) -> Array:
    times = np.arange(series.shape[1])
    return np.stack([np.interp(positions, times, channel) for channel in series])


def _line(knots: Array, length: int) -> Array:
    return np.interp(np.linspace(0, 1, length), np.linspace(0, 1, KNOTS), knots)


def _masked(series: Array, strength: float, knots: Array) -> Array:
    made, length = series.copy(), series.shape[1]
    width = 0.4 * strength * length
    start = knots[0] * (length - width)
    made[:, math.ceil(start) : math.ceil(start + width)] = 0
    return made


def _permuted(series: Array, strength: float, knots: Array) -> Array:
    length, number = series.shape[1], min(2 + int(strength * (SEGMENTS - 1)), SEGMENTS)
    order, size = np.argsort(knots[:number], kind="stable"), length / number
    places = [order[min(int(t / size), number - 1)] * size + t - min(int(t / size), number - 1) * size for t in range(length)]
    return series[:, np.clip(np.round(places), 0, length - 1).astype(int)]


def _smoothed(series: Array, strength: float) -> Array:
    length, half = series.shape[1], int(0.05 * strength * series.shape[1])
    return np.stack([series[:, max(t - half, 0) : t + half + 1].mean(1) for t in range(length)], 1)


def _without_band(series: Array, strength: float, knots: Array) -> Array:
    parts = np.fft.rfft(series)
    number = parts.shape[1] - 1
    width = 0.3 * strength * number
    start = 1 + knots[0] * (number - width)
    parts[:, math.ceil(start) : math.ceil(start + width)] = 0
    return np.fft.irfft(parts, series.shape[1])


def _without_channel(series: Array, knots: Array) -> Array:
    made = series.copy()
    made[int(knots[0] * len(series))] = 0
    return series if len(series) == 1 else made


def _stretched(series: Array, strength: float, sign: float, knots: Array) -> Array:
    times, fixed = np.arange(series.shape[1]), knots[0] * (series.shape[1] - 1)
    return _pulled(series, fixed + (times - fixed) * 1.5 ** (sign * strength))


PLAIN: dict[str, Callable[[Array, float, float, Array, Array], Array]] = {
    "noise": lambda x, m, s, k, n: x + m * x.std() * n,
    "gain": lambda x, m, s, k, n: x * 2 ** (s * m),
    "polarity": lambda x, m, s, k, n: -x,
    "drift": lambda x, m, s, k, n: x + m * (2 * _line(k, x.shape[1]) - 1),
    "magnitude_warp": lambda x, m, s, k, n: x * (1 + m * (_line(k, x.shape[1]) - 0.5)),
    "time_mask": lambda x, m, s, k, n: _masked(x, m, k),
    "shift": lambda x, m, s, k, n: _pulled(x, np.arange(x.shape[1]) - 0.3 * s * m * x.shape[1]),
    "stretch": lambda x, m, s, k, n: _stretched(x, m, s, k),
    "time_warp": lambda x, m, s, k, n: _pulled(x, np.arange(x.shape[1]) + m * 0.1 * x.shape[1] * (_line(k, x.shape[1]) - 0.5)),
    "permute": lambda x, m, s, k, n: _permuted(x, m, k),
    "smooth": lambda x, m, s, k, n: _smoothed(x, m),
    "frequency_mask": lambda x, m, s, k, n: _without_band(x, m, k),
    "channel_drop": lambda x, m, s, k, n: _without_channel(x, k),
    "band_mask": lambda x, m, s, k, n: _masked(x.T, m, k).T,
    "pitch": lambda x, m, s, k, n: _pulled(x.T, np.arange(len(x)) - 0.1 * s * m * len(x)).T,
    "equalise": lambda x, m, s, k, n: x + m * (2 * _line(k, len(x)) - 1)[:, None],
    "hiss": lambda x, m, s, k, n: np.maximum(x, 2 * m - 2.5 + 0.2 * n),
}


def _drawn(number: int, channels: int, length: int) -> tuple[torch.Tensor, Draw]:
    generator = torch.Generator().manual_seed(length)
    strength, sign = (torch.rand(number, generator=generator) for _ in range(2))
    knots, noise = torch.rand(number, KNOTS, generator=generator), torch.randn(number, channels, length, generator=generator)
    series = torch.randn(number, channels, length, generator=generator).cumsum(2)
    return series.double(), Draw(strength.double(), (sign < 0.5).double() * 2 - 1, knots.double(), noise.double())


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_equals_its_plain_version(name: str, length: int) -> None:
    series, drawn = _drawn(40, 6, length)
    made = OPERATIONS[name](series, drawn)
    for row in range(len(series)):
        strength, sign, knots, noise = (part[row].numpy() for part in drawn)
        expected = PLAIN[name](series[row].numpy(), float(strength), float(sign), knots, noise)
        np.testing.assert_allclose(made[row].numpy(), expected, atol=1e-9, err_msg=f"series {row}")
    assert not torch.equal(made, series)


def test_every_operation_is_allowed_by_its_name_and_one_channel_is_never_dropped() -> None:
    assert OPERATIONS.keys() == PLAIN.keys() > {*SENSORS, *SOUNDS}
    series, drawn = _drawn(5, 1, 20)
    assert torch.equal(OPERATIONS["channel_drop"](series, drawn), series)


@pytest.mark.parametrize("view", ["weak", "medium", "strong"])
def test_a_part_has_the_rows_of_the_whole_batch(view: str) -> None:
    views, items = SeriesViews([1.0, 0.0], [2.0, 1.0], operations=3, allowed=list(OPERATIONS)), torch.randn(60, 2, 70)
    whole = getattr(views, view)(items, torch.Generator().manual_seed(3))
    assert torch.equal(getattr(views, view)(items, torch.Generator().manual_seed(3), slice(17, 41)), whole[17:41])
    assert torch.equal(getattr(views, view)(items, torch.Generator().manual_seed(3)), whole)
    assert not torch.equal(getattr(views, view)(items, torch.Generator().manual_seed(4)), whole)


def test_views_grow_from_plain_to_strong() -> None:
    views, items = SeriesViews([3.0], [2.0]), 3 + 2 * torch.randn(300, 1, 100).cumsum(2)
    plain = views.plain(items)
    assert torch.allclose(plain, (items - 3) / 2)
    made = [getattr(views, view)(items, torch.Generator().manual_seed(0)) for view in ("weak", "medium", "strong")]
    weak, medium, strong = (float((view - plain).abs().mean()) for view in made)
    assert 0 < weak < medium < strong
    still = SeriesViews([3.0], [2.0], weak_noise=0, weak_shift=0, weak_gain=0, operations=0)
    assert torch.equal(still.strong(items, torch.Generator()), plain)


def test_settings_restore_the_views() -> None:
    views = SeriesViews([1.0], [2.0], 0.1, 0.05, 0.2, 3, 0.7, ("noise", "shift"))
    again, items = views_from_settings(views.settings()), torch.randn(9, 1, 30)
    assert again.settings() == views.settings()
    assert torch.equal(*(each.strong(items, torch.Generator().manual_seed(1)) for each in (views, again)))
    assert SeriesViews([0.0], [1.0], allowed="noise,drift").allowed == ("noise", "drift")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"allowed": ["nois"]}, "there is no operation 'nois'. Did you mean 'noise'"),
        ({"allowed": []}, "must name an operation"),
        ({"operations": 2.5}, "a whole number from 0 to 20"),
        ({"magnitude": 2}, "a number between 0 and 1"),
        ({"weak_noise": -1}, "a number of 0 or more"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SeriesViews([0.0], [1.0], **wrong)
