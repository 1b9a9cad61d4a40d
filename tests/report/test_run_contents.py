"""Records that others have written: what has another form than it should is left out, the rest stays as it is."""

from typing import Any

import pytest

from softmatch.report.run_contents import clean_boundary, clean_record, number
from tests.report.example import make_boundary, make_record


def test_what_training_writes_stays() -> None:
    record = make_record(5, 3, "softmatch")
    assert clean_record(record) == record
    assert clean_boundary(make_boundary()) == make_boundary()


@pytest.mark.parametrize(
    ("part", "left"),
    [
        ({"histogram": "all"}, {}),
        ({"histogram": {"all": [1, "2"], "wrong": [1, 2]}}, {"histogram": {"wrong": [1, 2]}}),
        ({"classes": {"quantity": [0.5, "x"], "quality": {}, "code": [1]}}, {"classes": {"quantity": [0.5, None]}}),
        ({"curve": {"weight": [1.0]}}, {}),
        ({"statistics": {"mean": "x", "scale": [1, None], "a": 2}}, {"statistics": {"mean": None, "scale": [1, None], "a": 2}}),
        ({"statistics": [1]}, {}),
        ({"test_class_errors": {"a": 1}}, {}),
        ({"loss": "x"}, {"loss": "x"}),
    ],
)
def test_parts_of_another_form_are_left_out(part: dict[str, Any], left: dict[str, Any]) -> None:
    assert clean_record({"step": 1, **part}) == {"step": 1, **left}


@pytest.mark.parametrize("change", [{"x": []}, {"y": "ab"}, {"probs": [[1], 2]}, {"probs": None}, {"x": [None, 1]}])
def test_a_boundary_without_its_grid_is_none(change: dict[str, Any]) -> None:
    assert clean_boundary(make_boundary() | change) == {}


def test_numbers_are_finite_and_no_larger_than_can_be_added() -> None:
    assert [number(value) for value in (1, 0.5, True, "1", None, float("nan"), 1e101, 10**400)] == [1.0, 0.5, *[None] * 6]
