"""Columns as features: filled, bounded, encoded, and the same again after saving."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch

from softmatch.data.preparations import preparation_from
from softmatch.data.preparations.table import TablePreparation, fit_table
from softmatch.data.records import Finding
from softmatch.errors import InputError


def fit(**columns: Any) -> tuple[TablePreparation, list[Finding]]:
    names = [str(k + 1) for k in range(len(next(iter(columns.values()))))]
    return fit_table(columns, names)


def test_numbers_are_centred_scaled_and_bounded() -> None:
    preparation, findings = fit(a=np.array([0.0, 1.0, 2.0, 10.0, 2.0]))
    assert findings == []
    items = preparation({"a": np.array([0.0, 2.0, 10.0, 20.0, 1e9, -1e9, np.nan, np.inf])})
    assert items.dtype == torch.float32
    np.testing.assert_allclose(items[:, 0], [-0.2, 0, 0.8, 1.8, 1.8, -1.2, 0, 0], atol=1e-7)


def test_missing_and_infinite_numbers_are_filled_and_marked() -> None:
    preparation, findings = fit(a=np.array([1.0, np.nan, 3.0, np.inf, 2.0]))
    np.testing.assert_allclose(preparation({"a": np.array([1.0, np.nan, 3.0, -np.inf])}), [[-0.5, 0], [0, 1], [0.5, 0], [0, 1]])
    assert [finding.level for finding in findings] == ["warning", "note"]
    assert findings[0].text == "Column 'a': 1 cell is infinite and is taken as missing: row 4 'inf'."
    assert findings[1].text.endswith("'a' (1).")


def test_cells_that_are_no_numbers_are_named_with_their_rows() -> None:
    cells = [str(k) for k in range(100)]
    cells[16], cells[19], cells[30], cells[40], cells[50] = "abc", "12 kg", "NA", "1_0", "12,5"
    preparation, findings = fit(age=cells)
    assert findings[0] == Finding(
        "warning",
        "Column 'age': 4 cells are not numbers and are taken as missing: row 17 'abc'; row 20 '12 kg'; row 41 '1_0'; and 1 more.",
        ("row 17", "row 20", "row 41", "row 51"),
    )
    assert "'age' (1)" in findings[1].text
    items = preparation({"age": ["abc", "0", "99", ""]})
    assert items[:, 1].tolist() == [1, 0, 0, 1]
    assert float(items[2, 0] - items[1, 0]) == pytest.approx(1.0)


def test_column_mostly_of_words_is_a_category() -> None:
    preparation, findings = fit(c=["red"] * 5 + ["blue"] * 3 + ["7"] * 2 + ["once", "NA"])
    assert preparation.describe() == "5 features of 1 columns"
    items = preparation({"c": ["red", " blue ", "7.0", "never seen", "?", "once"]})
    assert items.tolist() == [
        [1, 0, 0, 0, 0],
        [0, 1, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 0, 1],
        [0, 0, 0, 1, 0],
    ]
    assert preparation({"c": np.array([7.0, np.nan, 8.0])}).tolist() == [[0, 0, 1, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 1, 0]]
    assert "'c' (1)" in findings[0].text


def test_features_that_never_varied_are_not_made() -> None:
    preparation, _ = fit(c=["red", "blue"] * 5, n=np.arange(10.0))
    items = preparation({"c": ["green", "", "red"], "n": np.array([1.0, np.nan, 2.0])})
    assert items.shape == (3, 3)
    assert items[0, :2].tolist() == [0, 0]
    assert items[1, :2].tolist() == [0, 0]


def test_rare_categories_and_rare_gaps_are_no_features_of_their_own() -> None:
    count = 10_000
    words = ["common", "usual"] * (count // 2)
    words[:5] = ["rare"] * 5
    numbers = np.arange(count, dtype=float)
    numbers[3] = np.nan
    preparation, _ = fit(c=words, n=numbers)
    assert preparation({"c": ["rare", "common"], "n": np.array([0.0, 1.0])}).shape == (2, 3)


def test_at_most_fifty_categories() -> None:
    words = [f"w{k:02d}" for k in range(60) for _ in range(100 - k)]
    preparation, _ = fit(c=words)
    items = preparation({"c": ["w00", "w49", "w50", "w59"]})
    assert items.shape == (4, 51)
    assert items.argmax(1).tolist() == [0, 49, 50, 50]


def test_truth_values_are_numbers() -> None:
    preparation, findings = fit(b=["True", "false", "TRUE", "False"])
    assert findings == []
    items = preparation({"b": ["true", "FALSE"]})
    assert items.shape == (2, 1)
    assert float(items[0] - items[1]) == 1.0
    torch.testing.assert_close(preparation({"b": np.array([1.0, 0.0])}), items)


def test_dates_are_days() -> None:
    preparation, findings = fit(d=["2024-01-01", "2024-01-11", "2024-01-03T12:00:00", "NA", "2024-01-02 00:00:00+00:00"])
    items = preparation({"d": ["2024-01-01", "2024-01-11", "2024-01-06T00:00:00Z", "soon"]})
    np.testing.assert_allclose(items[1:, 0] - items[0, 0], [1.0, 0.5, (1.75 - 0) / 10], atol=1e-6)
    assert items[:, 1].tolist() == [0, 0, 0, 1]
    assert "Dates are taken as a number of days: 'd'." in [finding.text for finding in findings]


def test_what_cannot_be_learned_from_is_left_out_and_told() -> None:
    rows = 200
    preparation, findings = fit(
        good=np.arange(rows, dtype=float),
        notes=[f"some text {k}" for k in range(rows)],
        same=["x"] * rows,
        const=np.ones(rows),
        empty=np.full(rows, np.nan),
    )
    assert preparation.columns == ("good",)
    (note,) = findings
    assert note.level == "note"
    assert note.text == (
        "Left out: 'notes' (200 different words or texts); 'same' (always the same); 'const' (always the same); "
        "'empty' (no values)."
    )


def test_no_column_left_is_an_error() -> None:
    with pytest.raises(InputError, match=r"no column can be learned from: 'a' \(always the same\); 'b' \(no word occurs twice\)"):
        fit(a=np.ones(3), b=["x", "y", "z"])


def test_value_that_is_there_or_not_is_one_feature() -> None:
    preparation, _ = fit(a=np.array([5.0, np.nan, 5.0, np.nan]))
    assert preparation({"a": np.array([5.0, np.nan, 7.0])}).tolist() == [[0], [1], [0]]


def test_decimal_commas_are_told() -> None:
    _, findings = fit(a=["1,5", "2,5", "1,5", "2,5"], b=np.arange(4.0))
    assert findings[0].level == "warning"
    assert findings[0].text == "Column 'a': numbers with a decimal comma are taken as words. Write them with a point."


def test_texts_and_numbers_of_one_column_give_the_same_features() -> None:
    numbers = np.array([1.0, 2.5, np.nan, -3.0, 1e30, np.inf])
    texts = ["1", "2.50", "NA", " -3.0", "1e30", "inf"]
    one, found = fit(a=numbers)
    other, also = fit(a=texts)
    assert one.settings() == other.settings()
    assert [finding.text for finding in found] == [finding.text for finding in also]
    assert torch.equal(one({"a": texts}), one({"a": numbers}))


def test_saved_and_read_again_it_is_the_same() -> None:
    rng = np.random.default_rng(0)
    table = {
        "n": np.where(rng.random(300) < 0.1, np.nan, rng.normal(0.1, 1 / 3, 300)),
        "c": rng.choice(['a "b"\n', "😀", "", "1.0"], 300).tolist(),
        "d": [f"2024-01-{1 + k % 28:02d}" for k in range(300)],
    }
    preparation, _ = fit(**table)
    read = preparation_from(json.loads(json.dumps(preparation.settings())), preparation.tensors())
    assert read.settings() == preparation.settings()
    assert read.columns == ("n", "c", "d")
    assert torch.equal(read(table), preparation(table))  # type: ignore[arg-type]  # tensors, of a table
    assert preparation(table).shape == (300, 2 + 4 + 1)


@pytest.mark.parametrize(
    "values",
    [[-1.7e308, 0.0, 1.7e308], [1e308, 1.1e308, 1.2e308], [5e-324, 0.0, 1e-323], [1.7e12, 1.7e12 + 1, 1.7e12 + 2], [1e300, 0, 1]],
)
def test_numbers_of_any_size_stay_finite(values: list[float]) -> None:
    preparation, _ = fit(a=np.array(values))
    items = preparation({"a": np.array([*values, 1.79e308, -1.79e308, math.nan])})
    assert bool(torch.isfinite(items).all())
    assert len(set(items[:3, 0].tolist())) >= 2
    assert all(math.isfinite(value) for value in preparation.settings()["columns"][0].values() if isinstance(value, float))


def test_small_differences_of_large_numbers_survive() -> None:
    preparation, _ = fit(time=1.7e12 + np.arange(11.0))
    np.testing.assert_allclose(preparation({"time": 1.7e12 + np.arange(11.0)})[:, 0], np.arange(-5, 6) / 10, atol=1e-6)


def test_column_that_is_not_there_is_named() -> None:
    preparation, _ = fit(age=np.arange(5.0), size=np.arange(5.0))
    with pytest.raises(InputError, match=r"there is no column 'size', which the model learned from. There are: 'age', 'Size'"):
        preparation({"age": np.arange(2.0), "Size": np.arange(2.0)})
    with pytest.raises(InputError, match="this model learned from a table"):
        preparation(np.zeros((2, 2)))


def test_thousands_of_columns_give_few_findings() -> None:
    rng = np.random.default_rng(0)
    table: dict[str, Any] = {f"n{k}": np.where(rng.random(60) < 0.1, np.nan, rng.normal(size=60)) for k in range(1000)}
    table |= {f"bad{k}": ["x", *(str(j) for j in range(59))] for k in range(30)}
    table |= {f"same{k}": np.ones(60) for k in range(20)}
    preparation, findings = fit(**table)
    assert preparation(table).shape[0] == 60
    assert len(preparation.columns) == 1030
    assert len(findings) == 10 + 1 + 2
    assert findings[10].text == "20 further columns have cells that are not numbers or infinite."
    assert findings[-1].text.endswith("; and 10 more.")


def test_no_rows_make_no_items() -> None:
    preparation, _ = fit(a=np.arange(5.0), c=["x", "y", "x", "y", "x"])
    assert preparation({"a": np.array([]), "c": []}).shape == (0, 3)
