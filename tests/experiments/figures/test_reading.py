from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softmatch.experiments.figures.reading import (
    at_step,
    common_steps,
    finished_runs,
    is_softmatch,
    over_steps,
    place,
    spread,
)
from softmatch.experiments.sheet import Column, Row
from softmatch.experiments.store import Store
from tests.experiments.figures.stored import MOONS, ROWS, finish, make_sheet, record_of


def test_mean_and_deviation_are_of_what_is_known() -> None:
    mean, sd = spread(np.array([[1.0, np.nan, 4.0, np.nan], [3.0, np.nan, np.nan, 0.0], [5.0, np.nan, np.nan, 1.0]]))
    np.testing.assert_array_equal(mean, [3.0, np.nan, 4.0, 0.5])
    np.testing.assert_allclose(sd, [2.0, np.nan, 0.0, np.sqrt(0.5)])


def test_unfinished_runs_and_empty_cells_are_left_out(tmp_path: Path) -> None:
    other = Column("10", "digits", {}, "Digits")
    sheet, store = make_sheet(columns=(MOONS, other), seeds=(0, 1, 2)), Store(tmp_path)
    finish(store, sheet.run(ROWS[0], MOONS, 2))
    finish(store, sheet.run(ROWS[0], MOONS, 0))
    (finish(store, sheet.run(ROWS[1], MOONS, 0)) / "report.html").unlink()
    finish(store, sheet.run(ROWS[2], other, 0))
    found = finished_runs(sheet, store, MOONS)
    assert {name: [run.result["seed"] for run in runs] for name, runs in found.items()} == {"FixMatch": [0, 2]}
    assert list(finished_runs(sheet, store, other)) == ["SoftMatch"]


def test_a_figure_over_steps_has_gaps_where_a_seed_has_none(tmp_path: Path) -> None:
    sheet, store = make_sheet(), Store(tmp_path)
    first, second = sheet.run(ROWS[0], MOONS, 0), sheet.run(ROWS[0], MOONS, 1)
    finish(store, first, [record_of(first, 5, quality=0.5), record_of(first, 10, quality=None)])
    finish(store, second, [record_of(second, 10, quality=0.75), record_of(second, 20, quality=0.25)])
    runs = finished_runs(sheet, store, MOONS)
    series = over_steps(runs["FixMatch"], lambda record: record.get("quality"))
    assert (series.n, series.steps.tolist()) == (2, [5, 10, 20])
    np.testing.assert_array_equal(series.values, [[0.5, np.nan, np.nan], [np.nan, 0.75, 0.25]])
    np.testing.assert_array_equal(series.mean, [0.5, 0.75, 0.25])
    assert common_steps(runs) == [10]
    assert [record["quality"] for record in at_step(runs["FixMatch"], 10)] == [None, 0.75]
    assert common_steps({}) == []


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (Row("All-class", {"method": "softmatch"}), True),
        (Row("by default", {}), True),
        (Row("Per-class", {"method": "softmatch", "method_options": {"estimation": "per_class"}}), False),
        (Row("SoftMatch?", {"method": "fixmatch"}), False),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_softmatch_is_known_by_its_settings(row: Row, expected: bool) -> None:
    assert is_softmatch(make_sheet(rows=(row,)), row) is expected


def test_a_column_of_a_mere_number_counts_labels() -> None:
    assert place(Column("4,000", "cifar10", {}, "CIFAR-10")) == "CIFAR-10, 4,000 labels"
    assert place(Column("γ = 50", "cifar10", {}, "CIFAR-10-LT"), "\n") == "CIFAR-10-LT\nγ = 50"
    assert place(Column("4 labels", "two-moons", {})) == "4 labels"
