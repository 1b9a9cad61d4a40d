"""Labels given in Python: numbers, texts, truth values; −1, None, NaN or an empty text where there is none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from softmatch.data.cells import is_nothing
from softmatch.data.examples import UNLABELED
from softmatch.errors import InputError

LABEL_KINDS = "biufU"
"""Numpy's types that labels may have: truth values, numbers, texts."""


@dataclass(frozen=True)
class Targets:
    """Labels of n samples.

    Attributes:
        classes: the different labels, sorted, of the type that they were given in.
        codes: (n,) int64, positions in `classes` or −1.
    """

    classes: npt.NDArray[Any]
    codes: npt.NDArray[np.int64]


def read_targets(y: Any) -> Targets:
    """Separate labels from missing ones, and number the classes.

    Args:
        y: (n,) a sequence, array or series; a column (n, 1) is taken with a warning, as scikit-learn does.

    Raises:
        InputError: there are no labels, or they are not classes: fractions, infinity, numbers and texts mixed.
    """
    from sklearn.utils import column_or_1d  # here: it takes a second, and others only want to know what is missing

    values = column_or_1d(_array(y), warn=True)
    known = np.array([not missing for missing in are_missing(values.tolist())], dtype=bool)
    labels = _of_one_type(values[known])
    if not len(labels):
        raise InputError(f"none of the {len(values):,} samples has a label: give y some that are not −1, None or NaN.")
    if labels.dtype.kind not in LABEL_KINDS or labels.ndim != 1:
        raise InputError(f"Unknown label type: y holds {type(labels[0]).__name__}, such as {labels[0]!r}; give numbers or texts.")
    if labels.dtype.kind == "f" and (strange := labels[~np.isfinite(labels) | (np.floor(labels) != labels)]).size:
        raise InputError(f"Unknown label type: y holds {strange[0]}, which is no class. Give whole numbers or texts.")
    classes, positions = np.unique(labels, return_inverse=True)
    codes = np.full(len(values), UNLABELED, dtype=np.int64)
    codes[known] = positions
    return Targets(classes, codes)


def are_missing(values: Iterable[object]) -> list[bool]:
    """Tell which labels are missing: None, NaN, "", and the number −1, also as a float. The text "-1" is a label."""
    return [
        is_nothing(value)
        or (isinstance(value, str) and not value)
        or (isinstance(value, int | float | np.number) and value == UNLABELED)
        for value in values
    ]


def _array(y: Any) -> npt.NDArray[Any]:
    """Give objects, unless numpy has a type for them: of ["a", NaN] it would make the text "nan", of 1 and NA a fraction."""
    if isinstance(getattr(y, "dtype", None), np.dtype) or (hasattr(y, "__array__") and not hasattr(y, "tolist")):
        return np.asarray(y)
    return np.array(y.tolist() if hasattr(y, "tolist") else y, dtype=object)


def _of_one_type(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert objects to an array of their type."""
    if labels.dtype.kind != "O":
        return labels
    texts = sum(isinstance(label, str) for label in labels)
    if texts not in (0, len(labels)):
        number = next(label for label in labels if not isinstance(label, str))
        raise InputError(f"y mixes texts and other labels, such as {number!r}: give all as texts or all as numbers.")
    return np.array(labels.tolist())
