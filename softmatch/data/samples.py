"""Samples and labels given to an estimator in Python: arrays, images, frames, texts, and −1, None, NaN or "" for no label."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from softmatch.data.examples import UNLABELED
from softmatch.data.preparations import Preparation
from softmatch.data.readers.array_files import is_frame, open_frame, uneven_series
from softmatch.data.readers.hub_repositories import is_dataset
from softmatch.data.readers.labels import are_missing
from softmatch.data.records import Columns, Inputs, Records, numbered
from softmatch.errors import InputError
from softmatch.formatting import quoted

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
        raise InputError(f"Unknown label type: y holds {strange[0]}, which is not a class. Give whole numbers or texts.")
    classes, positions = np.unique(labels, return_inverse=True)
    codes = np.full(len(values), UNLABELED, dtype=np.int64)
    codes[known] = positions
    return Targets(classes, codes)


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


def is_path(samples: Any) -> bool:
    """Tell whether samples are a file or folder, or an id of the hub."""
    return isinstance(samples, str | Path)


def has_labels(samples: Any) -> bool:
    """Tell whether samples are a source that contains its labels: a path, a frame or a dataset."""
    return is_path(samples) or is_dataset(samples) or is_frame(samples)


def is_texts(samples: Any) -> bool:
    """Tell whether samples are a sequence, array or series of texts."""
    if getattr(samples, "ndim", 1) != 1 or not hasattr(samples, "__len__") or not len(samples):
        return False
    return all(isinstance(sample, str) for sample in samples)


def new_records(estimator: Any, samples: Any, columns: Columns) -> Records:
    """Take samples to fit an estimator to, which learns the number and names of their features, as scikit-learn wants it."""
    from sklearn.utils.validation import validate_data  # here: scikit-learn takes a second, which `is_frame` need not

    if is_frame(samples):
        if columns.text is None and columns.features is None:
            columns = Columns(features=tuple(str(name) for name in samples.columns))
        number = len(samples)
        opened = open_frame(samples, columns, [None] * number)
        learned = samples if opened.columns.text is None else samples[[opened.columns.text]]  # new texts have no versions
        validate_data(estimator, learned, skip_check_array=True)
        return next(opened.stream(number))  # `read` would leave out empty texts
    if is_texts(samples):
        if columns.augmented:
            raise InputError("augmented names columns of a frame; these are only texts. Give a frame, and its column `text`.")
        return numbered(list(samples), "text", [None] * len(samples))
    if (series := uneven_series(samples)) is not None:
        return numbered(series, "array", [None] * len(series))
    inputs = _images(samples) if _has_images(samples) else validate_data(estimator, samples, dtype=np.float32)
    return numbered(inputs, "array", [None] * len(inputs))


def inputs_for(estimator: Any, samples: Any, preparation: Preparation) -> Inputs:
    """Take arrays, images or texts for a fitted estimator, in the form of its preparation."""
    from sklearn.utils.validation import validate_data

    takes = preparation.takes
    if takes == "text":
        if not is_texts(samples):
            raise InputError("this classifier was fitted to texts: give a list of texts.")
        return list(samples)
    if takes in ("image", "sound"):
        if not isinstance(samples, list | tuple) or not all(is_path(sample) for sample in samples):
            raise InputError(f"this classifier was fitted to {takes} files: give a folder, or a list of paths.")
        return [Path(sample) for sample in samples]
    if takes == "table":
        rows = validate_data(estimator, samples, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        names = getattr(estimator, "feature_names_in_", preparation.columns)
        if rows.shape[1] != len(names):
            raise InputError(f"X has {rows.shape[1]} columns; {len(names)} are needed: {quoted(names, 10)}.")
        return {name: rows[:, position] for position, name in enumerate(names)}
    if len(preparation.settings().get("shape", ())) == 2 and (series := uneven_series(samples, equal=True)) is not None:
        return series
    if _has_images(samples):
        return _images(samples)
    vectors: npt.NDArray[np.float32] = validate_data(estimator, samples, reset=False, dtype=np.float32)
    return vectors


def _has_images(samples: Any) -> bool:
    """Tell whether samples are an array of three or more dimensions, or a list of arrays of two or more."""
    if isinstance(samples, list | tuple) and samples:
        return getattr(samples[0], "ndim", 1) >= 2
    return getattr(samples, "ndim", 2) >= 3


def _images(samples: Any) -> npt.NDArray[Any]:
    from sklearn.utils import check_array

    images: npt.NDArray[Any] = check_array(samples, dtype=None, ensure_2d=False, allow_nd=True, input_name="X")
    return images
