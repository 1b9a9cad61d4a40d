"""Measures of a finished run: its error, and figures that explain it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Literal

from softmatch.errors import InputError, nearest
from softmatch.experiments.results.run_files import Record, RunFiles, known, number, numbers

Get = Callable[[RunFiles], float | None]
Summary = Callable[[list[float]], float]


@dataclass(frozen=True)
class Measure:
    """A figure of a run; `get` returns None for a run that does not have it."""

    title: str
    unit: Literal["%", "s"]  # a share is shown in per cent
    better: Literal["lower", "higher"]
    get: Get

    @property
    def factor(self) -> float:
        """From the figure to its unit."""
        return 100.0 if self.unit == "%" else 1.0

    @property
    def digits(self) -> int:
        return 2 if self.unit == "%" else 1


def _final(key: str) -> Get:
    return lambda files: files.figure(key)


def _recorded(key: str, summary: Summary) -> Get:
    """Summary of a figure over the records that have it."""
    return lambda files: _summarised(known([number(record.get(key)) for record in files.records]), summary)


def _first(values: list[float]) -> float:
    return values[0]


def _class_quality(choose: Summary) -> Get:
    """Mean over the records of the quality of a class, which is chosen in each record anew."""

    def get(files: RunFiles) -> float | None:
        of_classes = [known(numbers(record, "classes", "quality")) for record in files.records]
        return _summarised([choose(values) for values in of_classes if values], fmean)

    return get


def _of_classes(summary: Summary) -> Get:
    return lambda files: _summarised(known(list(files.class_errors.values())), summary)


def _spread(key: str) -> Get:
    """Standard deviation over the classes of their average weight at the first record."""

    def get(files: RunFiles) -> float | None:
        first: Sequence[Record] = files.records[:1]
        found = [value for record in first for value in known(numbers(record, "classes", key))]
        return pstdev(found) if len(found) > 1 else None

    return get


def _summarised(values: list[float], summary: Summary) -> float | None:
    return summary(values) if values else None


MEASURES: Mapping[str, Measure] = {
    "error": Measure("error", "%", "lower", _final("test_error")),
    "quantity": Measure("quantity f of the pseudo-labels", "%", "higher", _final("quantity")),
    "quality": Measure("quality g of the pseudo-labels", "%", "higher", _final("quality")),
    "mean quantity": Measure("quantity f, mean over the records", "%", "higher", _recorded("quantity", fmean)),
    "mean quality": Measure("quality g, mean over the records", "%", "higher", _recorded("quality", fmean)),
    "best class quality": Measure("quality g of the best class, mean over the records", "%", "higher", _class_quality(max)),
    "worst class quality": Measure("quality g of the worst class, mean over the records", "%", "higher", _class_quality(min)),
    "seconds": Measure("training time", "s", "lower", _final("seconds")),
    # chosen by the test set: lower than an error that could be had without it
    "best error": Measure("lowest error at a record", "%", "lower", _recorded("test_error", min)),
    "early error": Measure("error at the first record", "%", "lower", _recorded("test_error", _first)),
    "early quantity": Measure("quantity f at the first record", "%", "higher", _recorded("quantity", _first)),
    "early quality": Measure("quality g at the first record", "%", "higher", _recorded("quality", _first)),
    "spread of weights": Measure("spread of the classes' weights at the first record", "%", "lower", _spread("quantity")),
    "spread without alignment": Measure(
        "spread of the classes' weights at the first record, without alignment", "%", "lower", _spread("unaligned_quantity")
    ),
    "worst class": Measure("error of the worst class", "%", "lower", _of_classes(max)),
    "mean of classes": Measure("mean of the errors of the classes", "%", "lower", _of_classes(fmean)),
}
"""By the names that claims and commands use."""


def measure_named(name: str) -> Measure:
    """One of MEASURES."""
    if name not in MEASURES:
        raise InputError(f"there is no measure {name!r}. {nearest(name, MEASURES)}")
    return MEASURES[name]
