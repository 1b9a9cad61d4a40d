"""Confidences of pseudo-labels, and the plane of two moons."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from softmatch.experiments.figures.histograms import draw_confidence, draw_two_moons, telling_step
from softmatch.experiments.figures.style import ALL, COLOURS, WRONG
from softmatch.experiments.results.collect import Cell
from softmatch.experiments.store import Store
from softmatch.metrics import BINS
from tests.experiments.figures import stored
from tests.experiments.figures.stored import MOONS, ROWS, STEPS, cells_of, finish, make_sheet, record_of, texts, titled


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


def test_panels_show_shares_and_the_weight(tmp_path: Path) -> None:
    figure = draw_confidence(_cells(tmp_path), "A try")
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
    assert stored.legend(figure)[2:] == ["weight λ (right axis)", "average threshold of classes"]
    assert "n = 1 to 2 seeds" in texts(figure)


def test_runs_without_a_step_in_common_are_not_drawn(tmp_path: Path) -> None:
    sheet, store = make_sheet(rows=ROWS[:1]), Store(tmp_path)
    for run in sheet.runs():
        finish(store, run, [record_of(run, 1 + run.seed)])
    assert draw_confidence(cells_of(sheet, store), "A try") is None


def test_records_without_pseudo_labels_count_none(tmp_path: Path) -> None:
    sheet, store = make_sheet(rows=ROWS[:1], seeds=(0,)), Store(tmp_path)
    finish(store, sheet.runs()[0], [{"step": 1, "test_error": 0.5}])
    (cell,) = cells_of(sheet, store)
    figure = draw_confidence([cell], "A try")
    assert figure is not None
    assert len(figure.axes) == 2


def test_four_panels_of_the_runs(tmp_path: Path) -> None:
    sheet, store = make_sheet(), Store(tmp_path)
    for run in sheet.runs():
        finish(store, run)
    figure = draw_two_moons(cells_of(sheet, store), "A try")
    written = texts(figure)
    assert "(a) Confidence at step 30" in written  # the qualities differ the more, the later; three quarters end here
    assert "SoftMatch: 67.5 % right" in written
    for name, key in (("(b)", "quantity"), ("(c)", "quality")):
        expected = np.mean([[record_of(sheet.run(ROWS[2], MOONS, seed), step)[key] for step in STEPS] for seed in (0, 1)], 0)
        ((steps, drawn),) = stored.lines(titled(figure, name), COLOURS["SoftMatch"])
        assert steps == list(STEPS)
        np.testing.assert_allclose(drawn, expected, rtol=1e-5)
    assert stored.legend(figure) == [
        *("all pseudo-labels", "wrong pseudo-labels", "share right, where used (right axis)"),
        *("FixMatch", "FlexMatch", "SoftMatch"),
    ]
    assert "n = 2 seeds" in written


def test_the_boundary_is_that_of_the_first_seed_with_labelled_points_as_triangles(tmp_path: Path) -> None:
    sheet, store = make_sheet(rows=ROWS[2:], seeds=(3, 4)), Store(tmp_path)
    finish(store, sheet.run(ROWS[2], MOONS, 4), error=0.125)
    axes = titled(draw_two_moons(cells_of(sheet, store), "A try"), "SoftMatch, seed 4, error 12.5 %")
    (image,) = axes.get_images()
    assert image.get_array().shape == (12, 12)
    contour, *dots = axes.collections
    along = np.concatenate([path.vertices for path in contour.get_paths()])
    np.testing.assert_allclose(along.sum(1), 0.0, atol=0.02)  # p = 1/2 where x + y = 0
    assert [len(each.get_offsets()) for each in dots] == [14, 1, 14, 1]
    np.testing.assert_allclose(dots[3].get_offsets(), [[np.cos(1), np.sin(1)]])
    assert [len(each.get_paths()[0].vertices) for each in dots[1::2]] == [4, 4]  # a closed triangle


@pytest.mark.parametrize("damage", [{}, {"x": [0, 1], "y": [0, 1], "probs": [[0.1, 0.2]], "points": []}], ids=["none", "rows"])
def test_a_run_without_a_whole_boundary_says_so(tmp_path: Path, damage: dict[str, object]) -> None:
    from softmatch.runs.folder import RunFolder

    sheet, store = make_sheet(rows=ROWS[:1], seeds=(0,)), Store(tmp_path)
    RunFolder(finish(store, sheet.runs()[0])).write_json("boundary.json", damage)
    assert "no boundary recorded" in texts(draw_two_moons(cells_of(sheet, store), "A try"))


def test_the_share_right_is_drawn_where_pseudo_labels_are_used(tmp_path: Path) -> None:
    sheet, store = make_sheet(rows=ROWS[:1], seeds=(0,)), Store(tmp_path)
    run = sheet.runs()[0]
    counts = [0] * 25 + [8] * 25
    histogram = {"all": counts, "wrong": [n // 4 for n in counts], "right": [n - n // 4 for n in counts]}
    curve = {"confidence": [0.5, 0.9, 0.9001, 1.0], "weight": [0.0, 0.0, 1.0, 1.0]}
    finish(store, run, [record_of(run, 1, histogram=histogram, curve=curve)])
    figure = draw_two_moons(cells_of(sheet, store), "A try")
    ((places, drawn),) = [
        line for axes in figure.axes if axes.get_ylabel() == "right (%)" for line in stored.lines(axes, COLOURS["FixMatch"])
    ]
    np.testing.assert_allclose(places, [(n + 0.5) / BINS for n in range(45, 50)])
    assert drawn == [0.75] * 5


def test_the_telling_step_lies_in_the_middle_where_qualities_differ_most(tmp_path: Path) -> None:
    sheet, store = make_sheet(rows=ROWS[:2], seeds=(0,)), Store(tmp_path)
    qualities = {"fixmatch": [0.1, 0.5, 0.5, 0.5, None, 0.1], "flexmatch": [0.9, 0.5, 0.8, 0.8, 0.1, 0.9]}
    for run in sheet.runs():
        finish(store, run, [record_of(run, 10 * n, quality=q) for n, q in enumerate(qualities[run.method], 1)])
    cells = cells_of(sheet, store)
    assert telling_step(cells, [10, 20, 30, 40, 50, 60]) == 30
    assert telling_step(cells[:1], [10, 20, 30, 40, 50, 60]) == 30  # no other: the middle
    assert telling_step(cells, [20]) == 20
