from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from softmatch.experiments.figures import fig_confidence
from softmatch.experiments.figures.style import ALL, COLOURS, WRONG
from softmatch.experiments.results.collect import Cell
from softmatch.experiments.store import Store
from softmatch.metrics import BINS
from tests.experiments.figures.stored import ROWS, cells_of, finish, legend, make_sheet, record_of, texts


def _histogram(first: int, wrong: int) -> dict[str, list[int]]:
    counts = [first] + [0] * (BINS - 2) + [10]
    false = [wrong] + [0] * (BINS - 1)
    return {"all": counts, "wrong": false, "right": [a - w for a, w in zip(counts, false, strict=True)]}


def _cells(tmp_path: Path) -> list[Cell]:
    """Two rows of two seeds with eight records; the second seed of FlexMatch has not finished."""
    sheet, store = make_sheet(rows=ROWS[1:]), Store(tmp_path)
    for run in sheet.runs():
        if (run.method, run.seed) == ("flexmatch", 1):
            continue
        extra = {
            "flexmatch": {"statistics": {"class_thresholds": [0.5, 0.75]}},
            "softmatch": {"curve": {"confidence": [0.5, 1.0], "weight": [run.seed / 2, 1.0]}},
        }[run.method]
        counts = _histogram(20 * run.seed + 10, 4)
        finish(store, run, [record_of(run, step, histogram=counts, **extra) for step in range(1, 9)])
    return cells_of(sheet, store)


def test_counts_are_summed_and_weights_averaged_over_seeds(tmp_path: Path) -> None:
    flex, soft = (fig_confidence.moment(cell.runs, 1) for cell in _cells(tmp_path))
    assert (soft.n, flex.n) == (2, 1)
    assert (soft.all[0], soft.all[-1], soft.wrong[0], soft.right[0]) == (40, 20, 8, 32)
    assert (soft.weight.tolist(), soft.threshold) == ([0.25, 1.0], None)
    assert flex.threshold == 0.625
    assert soft.quality == pytest.approx(0.5 + 0.2 / 40 + 0.025)


def test_panels_show_shares_and_the_weight(tmp_path: Path) -> None:
    figure = fig_confidence.figure(_cells(tmp_path), "A try")
    assert figure is not None
    panels, seconds = figure.axes[:12], figure.axes[12:]
    assert [axes.get_title(loc="center") for axes in panels[:6]] == [f"step {step}" for step in range(1, 7)]
    soft = panels[6].patches
    assert [patch.get_label() for patch in soft] == ["all pseudo-labels", "wrong pseudo-labels"]
    np.testing.assert_allclose(soft[0].get_data().values[[0, 1, -1]], [40 / 60, 0, 20 / 60])
    np.testing.assert_allclose(soft[1].get_data().values[[0, -1]], [8 / 60, 0])
    assert [patch.get_facecolor() for patch in soft] == [to_rgba(ALL), to_rgba(WRONG)]
    flexible, weighed = seconds[0].get_lines(), seconds[6].get_lines()
    assert list(flexible[1].get_xdata()) == [0.625, 0.625]
    assert flexible[1].get_linestyle() == "--"
    assert list(weighed[0].get_ydata()) == [0.25, 1.0]
    assert len(weighed) == 1
    assert weighed[0].get_color() == COLOURS["SoftMatch"]
    assert panels[6].get_ylabel() == "SoftMatch\npseudo-labels (%)"
    assert legend(figure)[2:] == ["weight λ (right axis)", "average threshold of classes"]
    assert "n = 1 to 2 seeds" in texts(figure)


def test_runs_without_a_step_in_common_are_not_drawn(tmp_path: Path) -> None:
    sheet, store = make_sheet(rows=ROWS[:1]), Store(tmp_path)
    for run in sheet.runs():
        finish(store, run, [record_of(run, 1 + run.seed)])
    assert fig_confidence.figure(cells_of(sheet, store), "A try") is None


def test_records_without_pseudo_labels_count_none(tmp_path: Path) -> None:
    sheet, store = make_sheet(rows=ROWS[:1], seeds=(0,)), Store(tmp_path)
    finish(store, sheet.runs()[0], [{"step": 1, "test_error": 0.5}])
    (cell,) = cells_of(sheet, store)
    found = fig_confidence.moment(cell.runs, 1)
    assert (found.all.sum(), len(found.weight), found.threshold) == (0, 0, None)
    assert np.isnan(found.quality)
    figure = fig_confidence.figure([cell], "A try")
    assert figure is not None
    assert len(figure.axes) == 2
