"""Labels as a Python user gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import DataConversionWarning

from softmatch.data.given_labels import read_targets
from softmatch.data.readers.array_files import array_labels
from softmatch.errors import InputError


@pytest.mark.parametrize(
    ("y", "classes", "codes"),
    [
        ([3, -1, 1, 3], [1, 3], [1, -1, 0, 1]),
        (np.array([3, 1, -1], dtype=np.int8), np.array([1, 3], dtype=np.int8), [1, 0, -1]),
        (torch.tensor([0, -1, 5]), [0, 5], [0, -1, 1]),
        ([2.0, float("nan"), 1.0, -1.0], [1.0, 2.0], [1, -1, 0, -1]),
        (np.array([2.0, np.nan, 1.0]), [1.0, 2.0], [1, -1, 0]),
        (["b", None, "a", ""], ["a", "b"], [1, -1, 0, -1]),
        (["b", float("nan"), "a"], ["a", "b"], [1, -1, 0]),
        (["b", -1, "a"], ["a", "b"], [1, -1, 0]),
        (np.array(["b", "", "a"]), ["a", "b"], [1, -1, 0]),
        ([True, None, False], [False, True], [1, -1, 0]),
        (np.array([True, False]), [False, True], [1, 0]),
        (pd.Series([1, None, 2], dtype="Int64"), [1, 2], [0, -1, 1]),
        (pd.Series(["x", None, "y"]), ["x", "y"], [0, -1, 1]),
        (pd.Series(["x", None, "y"], dtype="category"), ["x", "y"], [0, -1, 1]),
    ],
    ids=lambda value: str(value).replace("\n", " ")[:30],
)
def test_labels_and_missing_ones_are_told_apart(y: Any, classes: Any, codes: list[int]) -> None:
    targets = read_targets(y)
    expected = np.asarray(classes)
    assert targets.classes.dtype == expected.dtype
    assert targets.classes.tolist() == expected.tolist()
    assert targets.codes.tolist() == codes
    assert [label is None for label in array_labels(y)] == [code < 0 for code in codes]  # what `train` makes of the same labels


def test_a_column_is_taken_with_scikit_learns_warning() -> None:
    with pytest.warns(DataConversionWarning):
        targets = read_targets(np.array([[1], [0], [-1]]))
    assert targets.codes.tolist() == [1, 0, -1]


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([-1, -1], "none of the 2 samples has a label"),
        ([None, float("nan"), ""], "none of the 3 samples has a label"),
        ([0.5, 1.0], "Unknown label type: y holds 0.5"),
        ([1.0, float("inf")], "Unknown label type: y holds inf"),
        (["a", 1], "y mixes texts and other labels, such as 1"),
        (np.array([b"a", b"b"]), "Unknown label type: y holds bytes_"),
        (np.array([(1, 2), None], dtype=object), "Unknown label type"),
        ([[1, 2], [3, 4]], "y should be a 1d array"),
    ],
)
def test_what_is_no_label_is_refused(y: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_targets(y)
    if words.startswith(("none", "Unknown", "y mixes")):
        with pytest.raises(InputError):
            read_targets(y)
