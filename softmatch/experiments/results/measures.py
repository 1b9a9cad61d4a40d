"""Measures of a finished run: its error, and figures that explain it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from statistics import fmean, pstdev
from typing import Literal

from softmatch.errors import InputError, nearest
from softmatch.experiments.results.run_files import RunFiles, known, number, numbers

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

    def shown(self, value: float | None, sign: str = "") -> str:
        """A value in its unit, an error of 0.0491 as '4.91', or with `sign` "+" as '+4.91'; a dash where there is none."""
        digits = 2 if self.unit == "%" else 1
        return "–" if value is None else f"{value * self.factor:{sign}.{digits}f}".replace("-", "\N{MINUS SIGN}")


def _over(summary: Summary, values: Iterable[float | None]) -> float | None:
    """Summary of the values that are known; None where none is."""
    return summary(found) if (found := known(values)) else None


def _final(key: str) -> Get:
    return lambda files: number(files.result.get(key))


def _recorded(key: str, summary: Summary) -> Get:
    """Summary of a figure over the records that have it."""
    return lambda files: _over(summary, [number(record.get(key)) for record in files.records])


def _class_quality(choose: Summary) -> Get:
    """Mean over the records of the quality of a class, which is chosen in each record anew."""
    return lambda files: _over(fmean, [_over(choose, numbers(record, "classes", "quality")) for record in files.records])


def _spread(key: str) -> Get:
    """Standard deviation over the classes of their average weight at the first record."""

    def get(files: RunFiles) -> float | None:
        found = known(numbers(files.records[0], "classes", key)) if files.records else []
        return pstdev(found) if len(found) > 1 else None

    return get


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
    "early error": Measure("error at the first record", "%", "lower", _recorded("test_error", itemgetter(0))),
    "early quantity": Measure("quantity f at the first record", "%", "higher", _recorded("quantity", itemgetter(0))),
    "early quality": Measure("quality g at the first record", "%", "higher", _recorded("quality", itemgetter(0))),
    "spread of weights": Measure("spread of the classes' weights at the first record", "%", "lower", _spread("quantity")),
    "spread without alignment": Measure(
        "spread of the classes' weights at the first record, without alignment", "%", "lower", _spread("unaligned_quantity")
    ),
    "worst class": Measure("error of the worst class", "%", "lower", lambda run: _over(max, run.class_errors.values())),
    "mean of classes": Measure("mean error of the classes", "%", "lower", lambda run: _over(fmean, run.class_errors.values())),
}
"""By the names that claims and commands use."""


def measure_named(name: str) -> Measure:
    """One of MEASURES."""
    if name not in MEASURES:
        raise InputError(f"there is no measure {name!r}. {nearest(name, MEASURES)}")
    return MEASURES[name]
