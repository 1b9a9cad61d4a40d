"""Views of series (B, channels, T): ω shifts, scales and adds a little noise; Ω then applies random operations of signals.

Operations take series with zero as their mean, and what was drawn for them. Those that move values in time share `pull`, smooth
curves are straight lines between knots.
"""

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from softmatch.errors import InputError, nearest
from softmatch.views.rows import check_number, cut

KNOTS = 8
SEGMENTS = 5


class Draw(NamedTuple):
    """Drawn for an operation on B series.

    Attributes:
        strength: (B,) from 0 to 1.
        sign: (B,) −1 or 1.
        knots: (B, KNOTS) uniform.
        noise: (B, channels, T) standard normal.
    """

    strength: Tensor
    sign: Tensor
    knots: Tensor
    noise: Tensor


def pull(series: Tensor, positions: Tensor) -> Tensor:
    """Take each value from a position (B, T) between two values; the ends go on beyond the ends."""
    last = series.shape[-1] - 1
    within = positions.clamp(0, last)
    low = within.floor()
    first = low.long()[:, None].expand_as(series)
    return torch.lerp(series.gather(2, first), series.gather(2, (first + 1).clamp_(max=last)), (within - low)[:, None])


def _times(series: Tensor) -> Tensor:
    return torch.arange(series.shape[-1], dtype=series.dtype, device=series.device)


def _curve(knots: Tensor, length: int) -> Tensor:
    """Straight lines between knots at equal distances, (B, 1, T)."""
    return F.interpolate(knots[:, None], size=length, mode="linear", align_corners=True)


def _each(values: Tensor) -> Tensor:
    return values[:, None, None]


def noise(series: Tensor, drawn: Draw) -> Tensor:
    """Add noise of up to the series' own standard deviation."""
    return series + _each(drawn.strength) * series.std((1, 2), keepdim=True, unbiased=False) * drawn.noise


def gain(series: Tensor, drawn: Draw) -> Tensor:
    """Halve to double."""
    return series * _each(2.0 ** (drawn.sign * drawn.strength))


def polarity(series: Tensor, drawn: Draw) -> Tensor:
    """Change the sign."""
    return -series


def drift(series: Tensor, drawn: Draw) -> Tensor:
    """Add a slow curve of up to one standard deviation of the data."""
    return series + _each(drawn.strength) * (2 * _curve(drawn.knots, series.shape[-1]) - 1)


def magnitude_warp(series: Tensor, drawn: Draw) -> Tensor:
    """Scale by a slow curve between a half and one and a half."""
    return series * (1 + _each(drawn.strength) * (_curve(drawn.knots, series.shape[-1]) - 0.5))


def time_mask(series: Tensor, drawn: Draw) -> Tensor:
    """Set up to 40 % in one piece to the mean."""
    length = series.shape[-1]
    width = 0.4 * drawn.strength * length
    start = drawn.knots[:, 0] * (length - width)
    times = _times(series)
    return series.masked_fill(((times >= start[:, None]) & (times < (start + width)[:, None]))[:, None], 0.0)


def shift(series: Tensor, drawn: Draw) -> Tensor:
    """Move by up to 30 % of the length."""
    return pull(series, _times(series) - (0.3 * drawn.sign * drawn.strength * series.shape[-1])[:, None])


def stretch(series: Tensor, drawn: Draw) -> Tensor:
    """Run faster or slower by up to a factor of 1.5 around a moment that stays."""
    fixed = (drawn.knots[:, 0] * (series.shape[-1] - 1))[:, None]
    return pull(series, fixed + (_times(series) - fixed) * 1.5 ** (drawn.sign * drawn.strength)[:, None])


def time_warp(series: Tensor, drawn: Draw) -> Tensor:
    """Run now faster, now slower: moments move by up to 5 % of the length."""
    length = series.shape[-1]
    moved = 0.1 * length * (_curve(drawn.knots, length)[:, 0] - 0.5)
    return pull(series, _times(series) + drawn.strength[:, None] * moved)


def permute(series: Tensor, drawn: Draw) -> Tensor:
    """Cut into two to five pieces of one length, in another order."""
    length, times = series.shape[-1], _times(series)
    pieces = (2 + (drawn.strength * (SEGMENTS - 1)).long()).clamp_(max=SEGMENTS)[:, None]
    unused = torch.arange(SEGMENTS, device=series.device) >= pieces
    order = drawn.knots[:, :SEGMENTS].masked_fill(unused, 2.0).argsort(dim=1, stable=True)
    size = length / pieces.to(series.dtype)
    piece = torch.minimum((times / size).long(), pieces - 1)
    return pull(series, (times + (order.gather(1, piece) - piece) * size).round())


def smooth(series: Tensor, drawn: Draw) -> Tensor:
    """Average over up to 10 % of the length."""
    length = series.shape[-1]
    half = (0.05 * drawn.strength * length).long()[:, None]
    times = torch.arange(length, device=series.device)
    first, after = (times - half).clamp_(min=0), (times + half + 1).clamp_(max=length)
    sums = F.pad(series.double().cumsum(-1), (1, 0))
    total = sums.gather(2, after[:, None].expand_as(series)) - sums.gather(2, first[:, None].expand_as(series))
    return (total / (after - first)[:, None]).to(series.dtype)


def frequency_mask(series: Tensor, drawn: Draw) -> Tensor:
    """Take out up to 30 % of the frequencies above zero, in one piece."""
    parts = torch.fft.rfft(series)
    number = parts.shape[-1] - 1
    width = 0.3 * drawn.strength * number
    start = 1 + drawn.knots[:, 0] * (number - width)
    place = torch.arange(number + 1, device=series.device)
    out = ((place >= start[:, None]) & (place < (start + width)[:, None]))[:, None]
    found: Tensor = torch.fft.irfft(parts.masked_fill(out, 0.0), series.shape[-1])
    return found


def channel_drop(series: Tensor, drawn: Draw) -> Tensor:
    """Set one channel to its mean, where there are several."""
    channels = series.shape[1]
    lost = (drawn.knots[:, :1] * channels).long() == torch.arange(channels, device=series.device)
    return series if channels == 1 else series.masked_fill(lost[:, :, None], 0.0)


def band_mask(series: Tensor, drawn: Draw) -> Tensor:
    """Set, in a spectrogram, up to 40 % of the bands in one piece to their mean."""
    return time_mask(series.transpose(1, 2), drawn).transpose(1, 2)


def pitch(series: Tensor, drawn: Draw) -> Tensor:
    """Move all bands of a spectrogram up or down by up to 10 % of their number."""
    bands = series.transpose(1, 2)
    return pull(bands, _times(bands) - (0.1 * drawn.sign * drawn.strength * bands.shape[-1])[:, None]).transpose(1, 2)


def equalise(series: Tensor, drawn: Draw) -> Tensor:
    """Make bands of a spectrogram louder or quieter by a slow curve of up to one standard deviation."""
    return series + _each(drawn.strength) * (2 * _curve(drawn.knots, series.shape[1]) - 1).transpose(1, 2)


def hiss(series: Tensor, drawn: Draw) -> Tensor:
    """Add to a spectrogram a noise behind the sound, as loud as the quietest band at most."""
    level = _each(2 * drawn.strength - 2.5) + 0.2 * drawn.noise
    return torch.maximum(series, level)


OPERATIONS: dict[str, Callable[[Tensor, Draw], Tensor]] = {
    operation.__name__: operation
    for operation in (
        *(noise, gain, polarity, drift, magnitude_warp, time_mask, shift, stretch, time_warp, permute, smooth),
        *(frequency_mask, channel_drop, band_mask, pitch, equalise, hiss),
    )
}
SENSORS = ("noise", "gain", "drift", "magnitude_warp", "time_mask", "shift", "stretch", "time_warp", "smooth", "channel_drop")
SOUNDS = ("time_mask", "band_mask", "pitch", "equalise", "hiss", "shift", "stretch", "time_warp")


class SeriesViews:
    """ω: a shift, a gain and noise, all small. Ω: ω, then `operations` of the allowed ones, each with a random strength.

    The medium view has half of these operations, at least one.

    Args:
        mean, std: mean and standard deviation of each channel over the training data.
        weak_noise: standard deviation of the noise of ω, in those of the data.
        weak_shift, weak_gain: most that ω moves a series, as a share of its length, and changes its scale, as a share of it.
        operations: number of operations of Ω.
        magnitude: greatest strength of an operation, from 0 to 1.
        allowed: names of operations; by default those that suit sensors.
    """

    kind = "series"

    def __init__(
        self,
        mean: Sequence[float],
        std: Sequence[float],
        weak_noise: float = 0.05,
        weak_shift: float = 0.02,
        weak_gain: float = 0.1,
        operations: int = 2,
        magnitude: float = 1.0,
        allowed: Sequence[str] = SENSORS,
    ) -> None:
        for name, share in (("weak_shift", weak_shift), ("weak_gain", weak_gain), ("magnitude", magnitude)):
            check_number(name, share, "a number between 0 and 1", 1.0)
        check_number("weak_noise", weak_noise, "a number of 0 or more", sys.float_info.max)
        check_number("operations", operations, "a whole number from 0 to 20", 20, whole=True)
        names = tuple(allowed.split(",")) if isinstance(allowed, str) else tuple(allowed)
        for name in names:
            if name not in OPERATIONS:
                raise InputError(f"allowed: there is no operation {str(name)[:99]!r}. {nearest(str(name), list(OPERATIONS))}")
        if operations and not names:
            raise InputError("allowed must name an operation, or operations must be 0.")
        self.mean = torch.as_tensor(mean, dtype=torch.float32)
        self.std = torch.as_tensor(std, dtype=torch.float32).clamp_min(1e-12)
        self.weak_noise, self.weak_shift, self.weak_gain = weak_noise, weak_shift, weak_gain
        self.operations, self.magnitude, self.allowed = operations, magnitude, names

    def plain(self, items: Tensor) -> Tensor:
        return (items.float() - self.mean.to(items.device)[:, None]) / self.std.to(items.device)[:, None]

    def weak(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._changed(items, generator, part, 0)

    def medium(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._changed(items, generator, part, math.ceil(self.operations / 2))

    def strong(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._changed(items, generator, part, self.operations)

    def _changed(self, items: Tensor, generator: Generator, part: slice | None, rounds: int) -> Tensor:
        own, rows = cut(items, part)
        drawn = torch.rand(rows.number, rounds + 1, KNOTS + 3, generator=generator)[rows.part]
        gaussian = torch.randn(rows.number, *own.shape[1:], generator=generator)[rows.part].to(own.device, non_blocking=True)
        made, there = self.plain(own), drawn.to(own.device, non_blocking=True)
        moved, scaled = 2 * there[:, 0, 0] - 1, 2 * there[:, 0, 1] - 1
        if self.weak_shift:
            made = pull(made, _times(made) + (self.weak_shift * made.shape[-1] * moved)[:, None])
        made = made * _each(1 + self.weak_gain * scaled) + self.weak_noise * gaussian
        for place in range(1, rounds + 1):
            which = (drawn[:, place, 0] * len(self.allowed)).long()  # on the host, as the rows of each operation are
            strength, sign = self.magnitude * there[:, place, 1], (there[:, place, 2] < 0.5).to(made.dtype) * 2 - 1
            parts, order = list[Tensor](), list[Tensor]()
            for number, name in enumerate(self.allowed):
                chosen = (which == number).nonzero().flatten()
                if len(chosen):
                    at = chosen.to(own.device, non_blocking=True)
                    some = Draw(strength[at], sign[at], there[at, place, 3:], gaussian[at])
                    parts.append(OPERATIONS[name](made[at], some))
                    order.append(at)
            made = torch.empty_like(made).index_copy_(0, torch.cat(order), torch.cat(parts)) if order else made
        return made

    def settings(self) -> dict[str, Any]:
        rest = {name: getattr(self, name) for name in ("weak_noise", "weak_shift", "weak_gain", "operations", "magnitude")}
        about = {"kind": self.kind, "mean": self.mean.tolist(), "std": self.std.tolist(), **rest}
        return {**about, "allowed": list(self.allowed)}
