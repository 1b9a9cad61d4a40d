"""Labels as a Python user gives them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning

from softmatch.data.preparations import preparation_from
from softmatch.data.preparations.table import fit_table
from softmatch.data.preparations.text_preparations import fit_tfidf
from softmatch.data.readers.array_files import array_labels
from softmatch.data.records import Columns
from softmatch.data.samples import inputs_for, new_records, read_targets
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


FRAME = pd.DataFrame({"colour": ["red", "blue", None], "size": [1.0, np.nan, 3.0], "text": ["one a", "", "two b"]})


def test_numbers_are_float32_and_their_number_is_remembered() -> None:
    estimator = BaseEstimator()
    records = new_records(estimator, [[1, 2], [3, 4.5]], Columns())
    assert records.kind == "array"
    assert records.inputs.dtype == np.float32  # type: ignore[union-attr]  # an array, as the kind says
    assert estimator.n_features_in_ == 2
    with pytest.raises(ValueError, match="X has 3 features, but BaseEstimator is expecting 2"):
        inputs_for(
            estimator, [[1, 2, 3]], preparation_from({"kind": "array", "shape": [2], "layout": "d", "brightest": None}, {})
        )


@pytest.mark.parametrize(
    "images", [np.zeros((2, 8, 8), np.uint8), np.zeros((2, 3, 8, 8), np.uint8), [np.zeros((8, 8), np.uint8)] * 2]
)
def test_three_dimensions_or_a_list_of_arrays_are_images(images: Any) -> None:
    records = new_records(BaseEstimator(), images, Columns())
    assert np.asarray(records.inputs).shape == np.shape(images)
    assert np.asarray(records.inputs).dtype == np.uint8


@pytest.mark.parametrize("make", [list, tuple, np.array, pd.Series])
def test_texts_come_as_a_list_array_or_series(make: Any) -> None:
    records = new_records(BaseEstimator(), make(["one", "two"]), Columns())
    assert (records.kind, records.inputs) == ("text", ["one", "two"])


def test_all_columns_of_a_frame_are_features_unless_one_is_named_as_the_text() -> None:
    estimator = BaseEstimator()
    records = new_records(estimator, FRAME[["colour", "size"]], Columns())
    assert records.kind == "table"
    assert isinstance(records.inputs, dict)
    assert list(records.inputs) == ["colour", "size"]
    assert estimator.feature_names_in_.tolist() == ["colour", "size"]
    records = new_records(BaseEstimator(), FRAME, Columns(text="text"))
    assert (records.kind, records.inputs) == ("text", ["one a", "", "two b"])  # a row without a text is still a row


def test_numbers_stand_for_the_columns_of_the_frame_that_was_learned_from() -> None:
    estimator = BaseEstimator()
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0], "same": [1.0, 1.0, 1.0], "b": [5.0, 6.0, 9.0]})
    preparation, _ = fit_table(new_records(estimator, frame, Columns()).inputs, ["1", "2", "3"])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        inputs = inputs_for(estimator, [[1, 1, 5], [np.nan, 1, 6]], preparation)
    assert isinstance(inputs, dict)
    assert np.array(inputs["b"]).tolist() == [5, 6]


@pytest.mark.parametrize(
    ("saved", "samples", "words"),
    [
        ({"kind": "image", "channels": 1, "height": 8, "width": 8}, np.zeros((2, 8, 8)), "give a folder, or a list of paths"),
        (None, [[1, 2]], "give a list of texts"),
    ],
)
def test_samples_of_another_kind_are_refused(saved: Any, samples: Any, words: str) -> None:
    preparation = fit_tfidf(["one", "two"], "text") if saved is None else preparation_from(saved, {})
    with pytest.raises(InputError, match=words):
        inputs_for(BaseEstimator(), samples, preparation)


def test_paths_of_images_are_paths() -> None:
    preparation = preparation_from({"kind": "image", "channels": 1, "height": 8, "width": 8}, {})
    assert inputs_for(BaseEstimator(), ["a.png", Path("b.png")], preparation) == [Path("a.png"), Path("b.png")]
