"""What can be read off a finished run for a table: its error, and figures that explain it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Literal

from softmatch.errors import InputError, nearest
from softmatch.report.run_contents import Record, figures, mapping, number
from softmatch.runs.folder import RunFolder


@dataclass(frozen=True)
class Files:
    """The files of a finished run. Records are read where a measure needs them."""

    folder: Path
    result: Mapping[str, Any]

    @cached_property
    def records(self) -> list[Record]:
        return RunFolder(self.folder).records()


@dataclass(frozen=True)
class Measure:
    """A figure of a run.

    Attributes:
        title: in tables, to follow "mean".
        unit: of the table; a share is shown in per cent.
        better: which of two figures is the better one.
        get: the figure, None where a run has none.
    """

    title: str
    unit: Literal["%", "s"]
    better: Literal["lower", "higher"]
    get: Callable[[Files], float | None]

    @property
    def factor(self) -> float:
        """From the figure to its unit."""
        return 100.0 if self.unit == "%" else 1.0

    @property
    def digits(self) -> int:
        return 2 if self.unit == "%" else 1


def _final(key: str) -> Callable[[Files], float | None]:
    return lambda files: number(files.result.get(key))


def _first(key: str) -> Callable[[Files], float | None]:
    return lambda files: next((found for record in files.records if (found := number(record.get(key))) is not None), None)


def _over_training(key: str) -> Callable[[Files], float | None]:
    def get(files: Files) -> float | None:
        found = [value for record in files.records if (value := number(record.get(key))) is not None]
        return fmean(found) if found else None

    return get


def _of_classes(choose: Callable[[list[float]], float]) -> Callable[[Files], float | None]:
    """Mean over the records of the quality of a class, chosen anew in each."""

    def get(files: Files) -> float | None:
        records = [figures(mapping(record.get("classes")).get("quality")) or () for record in files.records]
        found = [choose(known) for each in records if (known := [value for value in each if value is not None])]
        return fmean(found) if found else None

    return get


def _best_error(files: Files) -> float | None:
    """Chosen by the test set: lower than an error that could be had without it."""
    return min((found for record in files.records if (found := number(record.get("test_error"))) is not None), default=None)


def _worst_class(files: Files) -> float | None:
    return max(_class_errors(files), default=None)


def _mean_over_classes(files: Files) -> float | None:
    found = _class_errors(files)
    return sum(found) / len(found) if found else None


def _spread(key: str) -> Callable[[Files], float | None]:
    """Standard deviation over the classes of their average weight at the first record."""

    def get(files: Files) -> float | None:
        classes = mapping(next(iter(files.records), {}).get("classes"))
        found = [value for value in figures(classes.get(key)) or () if value is not None]
        return pstdev(found) if len(found) > 1 else None

    return get


def _class_errors(files: Files) -> list[float]:
    found = figures(list(mapping(files.result.get("class_errors")).values()))
    return [error for error in found or () if error is not None]


MEASURES: Mapping[str, Measure] = {
    "error": Measure("error", "%", "lower", _final("test_error")),
    "quantity": Measure("quantity f of the pseudo-labels", "%", "higher", _final("quantity")),
    "quality": Measure("quality g of the pseudo-labels", "%", "higher", _final("quality")),
    "mean quantity": Measure("quantity f, mean over the records", "%", "higher", _over_training("quantity")),
    "mean quality": Measure("quality g, mean over the records", "%", "higher", _over_training("quality")),
    "best class quality": Measure("quality g of the best class, mean over the records", "%", "higher", _of_classes(max)),
    "worst class quality": Measure("quality g of the worst class, mean over the records", "%", "higher", _of_classes(min)),
    "seconds": Measure("training time", "s", "lower", _final("seconds")),
    "best error": Measure("lowest error at a record", "%", "lower", _best_error),
    "early error": Measure("error at the first record", "%", "lower", _first("test_error")),
    "early quantity": Measure("quantity f at the first record", "%", "higher", _first("quantity")),
    "early quality": Measure("quality g at the first record", "%", "higher", _first("quality")),
    "spread of weights": Measure("spread of the classes' weights at the first record", "%", "lower", _spread("quantity")),
    "spread without alignment": Measure(
        "spread of the classes' weights at the first record, without alignment", "%", "lower", _spread("unaligned_quantity")
    ),
    "worst class": Measure("error of the worst class", "%", "lower", _worst_class),
    "mean of classes": Measure("mean of the errors of the classes", "%", "lower", _mean_over_classes),
}
"""By the names that claims and commands have for them."""


def measure_named(name: str) -> Measure:
    """One of MEASURES."""
    if name not in MEASURES:
        raise InputError(f"there is no measure {name!r}. {nearest(name, MEASURES)}")
    return MEASURES[name]
