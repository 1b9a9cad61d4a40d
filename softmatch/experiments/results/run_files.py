"""Files of a finished run, read leniently: a value that does not have the expected form counts as missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from softmatch.runs.folder import RunFolder

Record = dict[str, Any]
LARGEST = 1e100  # no figure of a run is larger: sums and products of such numbers are still finite


def number(value: Any) -> float | None:
    """A finite number, or None for anything else."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) <= LARGEST else None  # NaN is not less than anything


def numbers(record: Any, *keys: str) -> list[float | None]:
    """The list at a path of keys, None for each item that is not a number; empty where there is no list."""
    for key in keys:
        record = record.get(key) if isinstance(record, dict) else None
    return [number(item) for item in record] if isinstance(record, list) else []


def known(values: Iterable[float | None]) -> list[float]:
    """The values that are not missing."""
    return [value for value in values if value is not None]


@dataclass(frozen=True)
class RunFiles:
    """result.json of a finished run, and its other files, which are read when they are needed."""

    folder: Path
    result: Mapping[str, Any]

    @cached_property
    def records(self) -> list[Record]:
        return RunFolder(self.folder).records()

    @cached_property
    def class_errors(self) -> dict[str, float | None]:
        found = self.result.get("class_errors")
        return {str(name): number(error) for name, error in found.items()} if isinstance(found, dict) else {}
