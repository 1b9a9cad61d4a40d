from pathlib import Path

import numpy as np
import pytest

from softmatch.experiments.figures import fig_two_moons
from softmatch.experiments.figures.style import COLOURS
from softmatch.experiments.store import Store
from softmatch.metrics import BINS
from tests.experiments.figures.stored import (
    MOONS,
    ROWS,
    STEPS,
    cells_of,
    finish,
    finish_all,
    legend,
    lines,
    make_sheet,
    record_of,
    texts,
    titled,
)


def test_four_panels_of_the_runs(tmp_path: Path) -> None:
    sheet, store = make_sheet(), Store(tmp_path)
    finish_all(store, sheet)
    figure = fig_two_moons.figure(cells_of(sheet, store), "A try")
    written = texts(figure)
    assert "(a) Confidence at step 30" in written  # the qualities differ the more, the later; three quarters end here
    assert "SoftMatch: 67.5 % right" in written
    for name, key in (("(b)", "quantity"), ("(c)", "quality")):
        expected = np.mean([[record_of(sheet.run(ROWS[2], MOONS, seed), step)[key] for step in STEPS] for seed in (0, 1)], 0)
        ((steps, drawn),) = lines(titled(figure, name), COLOURS["SoftMatch"])
        assert steps == list(STEPS)
        np.testing.assert_allclose(drawn, expected, rtol=1e-5)
    assert legend(figure) == [
        *("all pseudo-labels", "wrong pseudo-labels", "share right, where used (right axis)"),
        *("FixMatch", "FlexMatch", "SoftMatch"),
    ]
    assert "n = 2 seeds" in written


def test_the_boundary_is_that_of_the_first_seed_with_labelled_points_as_triangles(tmp_path: Path) -> None:
    sheet, store = make_sheet(rows=ROWS[2:], seeds=(3, 4)), Store(tmp_path)
    finish(store, sheet.run(ROWS[2], MOONS, 4), error=0.125)
    axes = titled(fig_two_moons.figure(cells_of(sheet, store), "A try"), "SoftMatch, seed 4, error 12.5 %")
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
    assert "no boundary recorded" in texts(fig_two_moons.figure(cells_of(sheet, store), "A try"))


def test_the_share_right_is_drawn_where_pseudo_labels_are_used(tmp_path: Path) -> None:
    sheet, store = make_sheet(rows=ROWS[:1], seeds=(0,)), Store(tmp_path)
    run = sheet.runs()[0]
    counts = [0] * 25 + [8] * 25
    histogram = {"all": counts, "wrong": [n // 4 for n in counts], "right": [n - n // 4 for n in counts]}
    curve = {"confidence": [0.5, 0.9, 0.9001, 1.0], "weight": [0.0, 0.0, 1.0, 1.0]}
    finish(store, run, [record_of(run, 1, histogram=histogram, curve=curve)])
    figure = fig_two_moons.figure(cells_of(sheet, store), "A try")
    ((places, drawn),) = [
        line for axes in figure.axes if axes.get_ylabel() == "right (%)" for line in lines(axes, COLOURS["FixMatch"])
    ]
    np.testing.assert_allclose(places, [(n + 0.5) / BINS for n in range(45, 50)])
    assert drawn == [0.75] * 5


def test_the_telling_step_lies_in_the_middle_where_qualities_differ_most(tmp_path: Path) -> None:
    sheet, store = make_sheet(rows=ROWS[:2], seeds=(0,)), Store(tmp_path)
    qualities = {"fixmatch": [0.1, 0.5, 0.5, 0.5, None, 0.1], "flexmatch": [0.9, 0.5, 0.8, 0.8, 0.1, 0.9]}
    for run in sheet.runs():
        finish(store, run, [record_of(run, 10 * n, quality=q) for n, q in enumerate(qualities[run.method], 1)])
    cells = cells_of(sheet, store)
    assert fig_two_moons.telling_step(cells, [10, 20, 30, 40, 50, 60]) == 30
    assert fig_two_moons.telling_step(cells[:1], [10, 20, 30, 40, 50, 60]) == 30  # no other: the middle
    assert fig_two_moons.telling_step(cells, [20]) == 20
