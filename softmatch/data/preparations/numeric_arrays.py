"""Arrays of numbers as vectors, series or images, or as they are for views of the user's own."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from softmatch.data.records import Finding, Grid, InputKind, Inputs
from softmatch.errors import InputError
from softmatch.formatting import changed_lengths, series_of

CHANNELS = (1, 3)
BRIGHTEST = 255
PART = 4096
MOST_DIMENSIONS = 9
"""With the number of items."""
SHORTEST = 8
"""Values of a series."""
SMOOTH, MANY = 0.9, 32
"""Neighbours in a row of at least `MANY` numbers that are as alike as this look like a series."""
MOST_WHOLE = 95
"""Percentage of series of different lengths that are not cut."""
DIMENSIONS = {"series": (2, 3), "vectors": (2,), "images": (3, 4)}
SERIES_LAYOUTS = ("t", "ct")
FORMS = {"series": "(n, T) or (n, channels, T)", "vectors": "(n, D)", "images": "(n, H, W), (n, H, W, C) or (n, C, H, W)"}


class ArrayPreparation:
    """See `Preparation`. Vectors become float32 (n, D), series float32 (n, C, T), images uint8 (n, C, H, W).

    Args:
        shape: of one item as it is made: (D,), (C, T), (C, H, W) or any.
        layout: of one item as it is given: "d", "t", "ct", "hw", "hwc" or "chw"; "any" for views of the user's own.
        brightest: level of white where images are given as floats: 1 or 255; None: they were whole numbers.
        grid: where series are made of readings in a table, how.
    """

    takes: InputKind = "array"

    def __init__(self, shape: tuple[int, ...], layout: str, brightest: int | None = None, grid: Grid | None = None) -> None:
        self.shape, self.layout, self.brightest, self.grid = shape, layout, brightest, grid

    @property
    def columns(self) -> tuple[str, ...]:
        return () if self.grid is None else self.grid.columns

    def __call__(self, inputs: Inputs) -> Tensor:
        array = np.asarray(inputs)
        if array.dtype == object and self.layout in SERIES_LAYOUTS:
            return torch.from_numpy(_series(_joined(array, *self.shape))[0])
        given = array.shape[1:]
        if array.ndim < 2 or given != self._given():
            raise InputError(f"items are {_times(given)}, those of the training data were {_times(self._given())}.")
        if self.layout == "d":
            return _vectors(array)
        if self.layout == "any":
            return _numbers(array)
        if self.layout in SERIES_LAYOUTS:
            return torch.from_numpy(_series(array.reshape(len(array), *self.shape))[0])
        made = np.empty((len(array), *self.shape), np.uint8)
        for start in range(0, len(array), PART):  # a float copy of all would be several times as large
            made[start : start + PART] = self._images(array[start : start + PART], start)
        return torch.from_numpy(made)

    def other_lengths(self, inputs: Inputs) -> tuple[int, int]:
        """Count series that are longer than those of the model, and shorter ones."""
        array = np.asarray(inputs)
        if array.dtype != object or self.layout not in SERIES_LAYOUTS:
            return 0, 0
        lengths = np.array([one.shape[1] for one in array])
        return int((lengths > self.shape[1]).sum()), int((lengths < self.shape[1]).sum())

    def _given(self) -> tuple[int, ...]:
        return {"t": self.shape[1:], "hw": self.shape[1:], "hwc": (*self.shape[1:], self.shape[0])}.get(self.layout, self.shape)

    def _images(self, array: npt.NDArray[Any], start: int) -> npt.NDArray[np.uint8]:
        if array.dtype != np.uint8:
            array = self._levels(array, start)
        if self.layout == "hwc":
            return array.transpose(0, 3, 1, 2)
        return array.reshape(len(array), *self.shape)

    def _levels(self, array: npt.NDArray[Any], start: int) -> npt.NDArray[np.uint8]:
        whole = array.dtype.kind != "f"
        white = 1 if array.dtype.kind == "b" else BRIGHTEST if whole or self.brightest is None else self.brightest
        flat = array.reshape(len(array), -1)
        wrong = ~((flat >= 0) & (flat <= white)).all(1)  # NaN is wrong too
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise InputError(f"image {start + at + 1} holds levels outside of 0 … {white} or NaN.")
        if not whole and self.brightest is None and flat.max() <= 1 and (flat != np.round(flat)).any():
            raise InputError("images have levels of 0 … 1, those of the training data were 0 … 255: multiply them by 255.")
        return np.asarray(np.rint(array * (BRIGHTEST / white)), np.uint8)

    def settings(self) -> dict[str, Any]:
        grid = {} if self.grid is None else {"grid": asdict(self.grid)}
        return {"kind": "array", "shape": list(self.shape), "layout": self.layout, "brightest": self.brightest, **grid}

    def tensors(self) -> dict[str, Tensor]:
        return {}

    @classmethod
    def from_saved(cls, saved: Any, tensors: Mapping[str, Tensor]) -> "ArrayPreparation":
        """Invert `settings`."""
        grid = saved.grid
        made = None if grid is None else Grid(grid.series, grid.time, tuple(grid.columns), grid.step)
        return cls(saved.shape, saved.layout, saved.brightest, made)

    def describe(self) -> str:
        if self.layout == "d":
            return f"vectors of {self.shape[0]:,} numbers"
        if self.layout in SERIES_LAYOUTS:
            return series_of(*self.shape)
        if self.layout == "any":
            return f"arrays of {_times(self.shape)}"
        return f"{'grey' if self.shape[0] == 1 else 'colour'} images of {self.shape[1]}×{self.shape[2]}"


def fit_array(
    array: npt.NDArray[Any], wanted: str | None = None, grid: Grid | None = None
) -> tuple[ArrayPreparation, list[Finding]]:
    """Choose by shape and levels of all items: (n, D) are vectors, (n, H, W), (n, H, W, C) and (n, C, H, W) images.

    Arrays (n, channels, T) whose numbers cannot be levels of images are series.

    Args:
        wanted: "series", "vectors" or "images": what the user says that they are; "any" for views of the user's own.
        grid: where series are made of readings in a table, how.
    """
    if array.dtype == object:
        if wanted not in (None, "series"):
            raise InputError(f"--arrays {wanted}: this source holds series. Leave it out.")
        return _fit_ragged(array, grid)
    if array.ndim == 1:
        raise InputError(f"the array has one dimension ({len(array):,}): give (n, D), of single numbers x.reshape(-1, 1).")
    if array.ndim > (MOST_DIMENSIONS if wanted == "any" else 4) or 0 in array.shape:
        forms = "give vectors (n, D) or images (n, H, W), (n, H, W, C) or (n, C, H, W); for others, name --views of your own"
        raise InputError(f"the array is {_times(array.shape)}: {forms}.")
    if wanted == "any":
        _numbers(array)
        return ArrayPreparation(array.shape[1:], "any"), []
    if wanted is not None and array.ndim not in DIMENSIONS[wanted]:
        raise InputError(f"--arrays {wanted}: the array is {_times(array.shape)}: give {FORMS[wanted]}.")
    if wanted == "series":
        return _fit_series(array)
    if wanted is None and array.ndim == 3 and array.shape[2] >= SHORTEST and not _are_levels(array):
        preparation, findings = _fit_series(array)
        text = (
            f"The numbers cannot be levels of images, 0 … 255 or 0 … 1: taken as {preparation.describe()}. Images must be scaled."
        )
        return preparation, [Finding("note", text), *findings]
    if array.ndim == 2:
        _vectors(array)
        return ArrayPreparation(array.shape[1:], "d"), _hint(array) if wanted is None else []
    layout, shape = _layout(array.shape[1:])
    if array.dtype == np.uint8:
        return ArrayPreparation(shape, layout), []
    low, high = float(array.min()), float(array.max())
    if math.isnan(low):
        at = int(np.flatnonzero(np.isnan(array.reshape(len(array), -1)).any(1))[0])
        raise InputError(f"image {at + 1} holds NaN. Fill such levels or leave the image out.")
    if low < 0 or high > BRIGHTEST:
        raise InputError(
            f"an array of {array.ndim} dimensions is taken as images, whose levels must lie in 0 … 255 or 0 … 1; these reach "
            f"from {low:g} to {high:g}. If they are not images, give series (n, channels, T), or name --views of your own."
        )
    if array.dtype.kind != "f":
        return ArrayPreparation(shape, layout), []
    white = 1 if high <= 1 else BRIGHTEST
    text = f"Images are given as {array.dtype} with levels of {low:g} … {high:g}: {white} is taken as white, in 256 steps."
    return ArrayPreparation(shape, layout, white), [Finding("note", text)]


def _are_levels(array: npt.NDArray[Any]) -> bool:
    """Tell whether numbers may be levels of images: whole ones, or floats, from 0 to 255."""
    return array.dtype.kind in "bu" or bool(np.nanmin(array, initial=0) >= 0 and np.nanmax(array, initial=0) <= BRIGHTEST)


def _hint(array: npt.NDArray[Any]) -> list[Finding]:
    """Say so where the numbers of a row look like a series: each is nearly the one before it."""
    if array.shape[1] < MANY:
        return []
    some = np.asarray(array[:1000], np.float64)
    some = some - some.mean(1, keepdims=True)
    alike = float((some[:, 1:] * some[:, :-1]).sum() / max(float((some**2).sum()), 1e-30))
    text = "The numbers of a row are like their neighbours. If they were measured one after another, give --arrays series."
    return [Finding("note", text)] if alike > SMOOTH else []


def _fit_series(array: npt.NDArray[Any]) -> tuple[ArrayPreparation, list[Finding]]:
    layout, shape = ("t", (1, *array.shape[1:])) if array.ndim == 2 else ("ct", array.shape[1:])
    if shape[1] < SHORTEST:
        swapped = ". Give (n, channels, T): x.transpose(0, 2, 1)" if shape[0] >= SHORTEST else ""
        raise InputError(f"the series have {shape[1]} values, too few: at least {SHORTEST} are needed{swapped}.")
    gaps = _series(array.reshape(len(array), *shape))[1]
    return ArrayPreparation(shape, layout), _odd(shape, gaps)


def _fit_ragged(series: npt.NDArray[Any], grid: Grid | None) -> tuple[ArrayPreparation, list[Finding]]:
    """Choose one length for series of different lengths, so that few are cut."""
    lengths, channels = np.array([one.shape[1] for one in series]), len(series[0])
    length = int(np.percentile(lengths, MOST_WHOLE, method="higher"))
    if length < SHORTEST:
        raise InputError(f"the series have {length} values, too few: at least {SHORTEST} are needed.")
    preparation = ArrayPreparation((channels, length), "t" if channels == 1 else "ct", grid=grid)
    preparation(series)  # raises InputError for what cannot be learned from
    findings = _odd(preparation.shape, sum(bool(np.isnan(one[:, :length]).any()) for one in series))
    if lengths.min() < lengths.max():
        changed = changed_lengths(*preparation.other_lengths(series))
        text = f"The series have {lengths.min():,} to {lengths.max():,} values and are brought to {length:,}: {changed}."
        findings.append(Finding("note", text))
    return preparation, findings


def _joined(series: npt.NDArray[Any], channels: int, length: int) -> npt.NDArray[np.float32]:
    """Cut series (channels, T) of any T to one length, and fill up shorter ones with NaN."""
    made = np.full((len(series), channels, length), np.nan, np.float32)
    for position, one in enumerate(series):
        if len(one) != channels:
            raise InputError(f"series {position + 1} has {len(one)} channels; those of the training data have {channels}.")
        made[position, :, : one.shape[1]] = one[:, :length]
    return made


def _odd(shape: tuple[int, ...], gaps: int) -> list[Finding]:
    findings = list[Finding]()
    if shape[0] > shape[1]:
        text = f"The series have {shape[0]:,} channels and {shape[1]:,} values. If it is the other way round, transpose them."
        findings.append(Finding("warning", text))
    if gaps:
        text = f"{gaps:,} series have gaps (NaN): filled with straight lines, beyond the first and last value with that value."
        findings.append(Finding("note", text))
    return findings


def _series(array: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float32], int]:
    """Fill gaps in series (n, C, T); also the number of series that have some."""
    with np.errstate(over="ignore"):
        numbers = np.array(array, np.float32)
    missing = np.isnan(numbers)
    if np.isinf(numbers).any():
        row, channel, time = np.argwhere(np.isinf(numbers))[0]
        raise InputError(f"series {row + 1} holds {array[row, channel, time]} (channel {channel + 1}, value {time + 1}).")
    times = np.arange(numbers.shape[2])
    for row, channel in np.argwhere(missing.any(2)):
        known = ~missing[row, channel]
        if not known.any():
            raise InputError(f"series {row + 1} holds no number in channel {channel + 1}. Leave it out, or fill it.")
        numbers[row, channel] = np.interp(times, times[known], numbers[row, channel, known])
    return numbers, int(missing.any((1, 2)).sum())


def _numbers(array: npt.NDArray[Any]) -> Tensor:
    if array.dtype.kind not in "biuf":
        raise InputError(f"the array holds {array.dtype}: give real numbers.")
    with np.errstate(over="ignore"):
        numbers = np.array(array, np.float32)
    if not np.isfinite(numbers).all():
        item, *place = map(int, np.argwhere(~np.isfinite(numbers))[0])
        raise InputError(f"item {item + 1} holds {array[item, *place]} at {tuple(place)}. Fill such values first.")
    return torch.from_numpy(numbers)


def _vectors(array: npt.NDArray[Any]) -> Tensor:
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, which is refused below
        numbers = np.array(array, np.float32)
    if numbers.size and not np.isfinite([numbers.min(), numbers.max()]).all():
        row, column = np.argwhere(~np.isfinite(numbers))[0]
        raise InputError(
            f"row {row + 1}, column {column + 1} holds {array[row, column]}, which cannot be learned from. Fill such values, or "
            "give a table, in which missing values are filled with the median."
        )
    return torch.from_numpy(numbers)


def _layout(given: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """Find the layout of images, and the shape (C, H, W) of one."""
    if len(given) == 2:
        return "hw", (1, *given)
    first, last = given[0] in CHANNELS, given[2] in CHANNELS
    if first == last:
        reason = "it is not obvious which dimension holds the channels" if first else "none of it is 1 (grey) or 3 (colour)"
        raise InputError(f"images of {_times(given)}: {reason}. Give (n, H, W, C) or (n, C, H, W) with 1 or 3 channels.")
    return ("chw", given) if first else ("hwc", (given[2], given[0], given[1]))


def _times(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "single numbers"
