"""Arrays as vectors and images."""

import json
from typing import Any

import numpy as np
import pytest
import torch

from softmatch.data.preparations import preparation_from
from softmatch.data.preparations.numeric_arrays import ArrayPreparation, fit_array
from softmatch.data.records import Grid, ragged
from softmatch.errors import InputError

LEVELS = np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 3, 4, 5)
"""(n, C, H, W)"""


def again(preparation: ArrayPreparation) -> Any:
    """Saved and read."""
    return preparation_from(json.loads(json.dumps(preparation.settings())), preparation.tensors())


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8, bool])
def test_vectors_pass(dtype: Any) -> None:
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    preparation, findings = fit_array(array)
    items = again(preparation)(array)
    assert (items.dtype, findings, preparation.describe()) == (torch.float32, [], "vectors of 3 numbers")
    np.testing.assert_array_equal(items.numpy(), array.astype(np.float32))


@pytest.mark.parametrize("layout", ["chw", "hwc"])
def test_colour_images_in_both_layouts(layout: str) -> None:
    array = LEVELS if layout == "chw" else LEVELS.transpose(0, 2, 3, 1)
    preparation, findings = fit_array(array)
    items = again(preparation)(array)
    assert (items.dtype, findings, preparation.settings()["layout"]) == (torch.uint8, [], layout)
    np.testing.assert_array_equal(items.numpy(), LEVELS)
    assert preparation.describe() == "colour images of 4×5"


@pytest.mark.parametrize("shape", [(2, 6, 10), (2, 6, 10, 1), (2, 1, 6, 10)])
def test_grey_images(shape: tuple[int, ...]) -> None:
    array = LEVELS.reshape(shape)
    preparation, _ = fit_array(array)
    np.testing.assert_array_equal(preparation(array).numpy(), LEVELS.reshape(2, 1, 6, 10))
    assert preparation.describe() == "grey images of 6×10"


def test_images_as_fractions_are_scaled_with_a_note() -> None:
    array = LEVELS.astype(np.float32) / 255
    array[0, 0, 0, 0] = 1.0
    preparation, (finding,) = fit_array(array)
    assert finding.level == "note"
    assert "1 is taken as white" in finding.text
    expected = LEVELS.copy()
    expected[0, 0, 0, 0] = 255
    np.testing.assert_array_equal(again(preparation)(array).numpy(), expected)
    np.testing.assert_array_equal(preparation(LEVELS).numpy(), LEVELS)  # whole numbers are levels anyhow
    with pytest.raises(InputError, match=r"image 2 holds levels outside of 0 … 1 or NaN"):
        preparation(np.concatenate([array[:1], array[:1] * 255]))


def test_images_as_levels_in_floats_or_other_whole_numbers() -> None:
    preparation, (finding,) = fit_array(LEVELS.astype(np.float64))
    assert "255 is taken as white" in finding.text
    np.testing.assert_array_equal(preparation(LEVELS.astype(np.float64) + 0.4).numpy(), LEVELS)
    preparation, findings = fit_array(LEVELS.astype(np.int32))
    assert findings == []
    np.testing.assert_array_equal(preparation(LEVELS.astype(np.int64)).numpy(), LEVELS)
    with pytest.raises(InputError, match=r"levels of 0 … 1, those of the training data were 0 … 255"):
        preparation(LEVELS / 255)


def test_masks_are_black_and_white() -> None:
    mask = LEVELS[:, 0] % 2 == 0
    preparation, _ = fit_array(mask)
    np.testing.assert_array_equal(preparation(mask).numpy(), mask[:, None] * np.uint8(255))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(5), r"one dimension \(5\): give \(n, D\), of single numbers x.reshape\(-1, 1\)"),
        (np.zeros((2, 2, 2, 2, 2)), "the array is 2×2×2×2×2"),
        (np.zeros((2, 0)), "the array is 2×0"),
        (np.array([[1.0, 2.0], [3.0, np.nan]]), "row 2, column 2 holds nan, which cannot be learned from. .* give a table"),
        (np.array([[1.0, -np.inf], [3.0, 0.0]]), "row 1, column 2 holds -inf"),
        (np.array([[1.0, 1e300]]), r"row 1, column 2 holds 1e\+300"),
        (np.zeros((2, 3, 8, 3), np.uint8), "images of 3×8×3: it is not obvious which dimension holds the channels"),
        (np.zeros((2, 4, 8, 2), np.uint8), "images of 4×8×2: none of it is 1"),
        (np.full((2, 4, 4), -0.5), r"these reach from -0.5 to -0.5. If they are not images, give series .* --views of your own"),
        (np.full((2, 4, 4), 256), "these reach from 256 to 256"),
        (np.array([[[0.0]], [[np.nan]]]), "image 2 holds NaN"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(array: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_array(array)


def test_other_shapes_than_in_training_are_refused() -> None:
    vectors, _ = fit_array(np.zeros((2, 3)))
    with pytest.raises(InputError, match="items are 4, those of the training data were 3"):
        vectors(np.zeros((2, 4)))
    with pytest.raises(InputError, match="items are single numbers, those"):
        vectors(np.zeros(3))
    images, _ = fit_array(LEVELS.transpose(0, 2, 3, 1))
    with pytest.raises(InputError, match="items are 3×4×5, those of the training data were 4×5×3"):
        images(LEVELS)


def test_many_images_are_scaled_part_by_part() -> None:
    array = np.linspace(0, 1, 9000 * 4).reshape(9000, 2, 2)
    preparation, _ = fit_array(array)
    np.testing.assert_array_equal(preparation(array).numpy()[:, 0], np.rint(array * 255).astype(np.uint8))
    with pytest.raises(InputError, match="image 8001 holds levels outside"):
        preparation(np.where(np.arange(9000)[:, None, None] == 8000, 2.0, array))


SERIES = np.random.default_rng(0).normal(size=(6, 2, 40)).astype(np.float32)
"""(n, channels, T), with negative numbers: no images."""


def test_numbers_that_no_image_has_are_series() -> None:
    preparation, (finding,) = fit_array(SERIES)
    assert preparation.describe() == "series of 40 values in 2 channels"
    assert "cannot be levels of images, 0 … 255 or 0 … 1: taken as series of 40 values in 2 channels" in finding.text
    assert fit_array(SERIES, "series")[1] == []
    np.testing.assert_array_equal(again(preparation)(SERIES).numpy(), SERIES)
    with pytest.raises(InputError, match="items are 2×30, those of the training data were 2×40"):
        preparation(SERIES[:, :, :30])


def test_the_user_says_what_an_array_holds() -> None:
    flat = SERIES[:, 0]
    preparation, _ = fit_array(flat, "series")
    assert preparation.describe() == "series of 40 values"
    np.testing.assert_array_equal(again(preparation)(flat).numpy(), flat[:, None])
    assert fit_array(flat)[0].describe() == "vectors of 40 numbers"
    assert fit_array(np.abs(SERIES))[0].describe() == "grey images of 2×40"
    assert fit_array(np.abs(SERIES), "series")[0].describe() == "series of 40 values in 2 channels"
    with pytest.raises(InputError, match=r"--arrays vectors: the array is 6×2×40: give \(n, D\)"):
        fit_array(SERIES, "vectors")
    with pytest.raises(InputError, match="levels must lie in 0 … 255 or 0 … 1"):
        fit_array(SERIES, "images")


def test_rows_of_neighbours_that_are_alike_get_a_hint() -> None:
    smooth = SERIES[:, 0].cumsum(1).cumsum(1)
    (finding,) = fit_array(smooth)[1]
    assert "--arrays series" in finding.text
    assert fit_array(smooth, "vectors")[1] == []
    assert fit_array(smooth[:, :20])[1] == []  # too few to tell
    assert fit_array(SERIES[:, 0])[1] == []


def test_gaps_of_series_are_filled_and_counted() -> None:
    given = SERIES.copy()
    given[1, 0, 10:13] = np.nan
    given[1, 1, :2] = np.nan
    given[4, 1, 30:] = np.nan
    preparation, (finding,) = fit_array(given, "series")
    assert finding.text.startswith("2 series have gaps (NaN)")
    made = preparation(given).numpy()
    np.testing.assert_allclose(made[1, 0, 9:14], np.linspace(SERIES[1, 0, 9], SERIES[1, 0, 13], 5), rtol=1e-6)
    assert (made[1, 1, :2] == SERIES[1, 1, 2]).all()
    assert (made[4, 1, 30:] == SERIES[4, 1, 29]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((2, 1, 5, np.inf), r"series 3 holds inf \(channel 2, value 6\)"),
        ((3, 0, slice(None), np.nan), "series 4 holds no number in channel 1"),
    ],
)
def test_series_that_cannot_be_learned_from_are_named(change: tuple[Any, ...], message: str) -> None:
    given = SERIES.copy()
    given[change[:3]] = change[3]
    with pytest.raises(InputError, match=message):
        fit_array(given)


def test_series_with_their_dimensions_in_another_order() -> None:
    with pytest.raises(InputError, match=r"have 2 values, too few: at least 8 .* Give \(n, channels, T\): x.transpose"):
        fit_array(SERIES.transpose(0, 2, 1), "series")
    (finding,) = fit_array(np.concatenate([SERIES] * 10, 1).transpose(0, 2, 1)[:, :, :10], "series")[1]
    assert (finding.level, "40 channels and 10 values" in finding.text) == ("warning", True)


def test_series_of_different_lengths_are_brought_to_one() -> None:
    given = ragged([SERIES[0, :, :20]] * 19 + [SERIES[1, :, :12], SERIES[2]])
    preparation, (finding,) = fit_array(given)
    assert preparation.describe() == "series of 20 values in 2 channels"
    assert finding.text == (
        "The series have 12 to 40 values and are brought to 20: 1 longer ones are cut at the end, 1 shorter ones continue with "
        "their last value."
    )
    made = again(preparation)(given).numpy()
    np.testing.assert_array_equal(made[0], SERIES[0, :, :20])
    np.testing.assert_array_equal(made[19, :, :12], SERIES[1, :, :12])
    assert (made[19, :, 12:] == SERIES[1, :, 11:12]).all()
    np.testing.assert_array_equal(made[20], SERIES[2, :, :20])
    assert preparation.other_lengths(given[17:]) == (1, 1)
    np.testing.assert_array_equal(preparation(SERIES[:, :, :20]).numpy(), SERIES[:, :, :20])
    with pytest.raises(InputError, match="items are 2×40, those of the training data were 2×20"):
        preparation(SERIES)  # arrays of one length are not cut
    with pytest.raises(InputError, match="series 2 has 1 channels; those of the training data have 2"):
        preparation(ragged([SERIES[0], SERIES[0, 0]]))
    with pytest.raises(InputError, match="--arrays images: this source holds series"):
        fit_array(given, "images")
    with pytest.raises(InputError, match="have 7 values, too few"):
        fit_array(ragged([SERIES[0, :, :7]]))


def test_the_grid_of_readings_is_saved() -> None:
    grid = Grid("id", None, ("x", "y"), 0.5)
    preparation, _ = fit_array(ragged(list(SERIES)), grid=grid)
    restored = again(preparation)
    assert isinstance(restored, ArrayPreparation)
    assert (restored.grid, restored.columns) == (grid, ("x", "y"))
    with pytest.raises(InputError, match="the saved preparation is damaged: it has 2 columns for shape"):
        preparation_from(preparation.settings() | {"shape": [3, 40]}, {})
