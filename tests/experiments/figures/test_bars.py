"""Bars of errors and of class weights."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from softmatch.errors import InputError
from softmatch.experiments.figures import draw
from softmatch.experiments.figures.bars import draw_ablation, draw_classes, draw_ua
from softmatch.experiments.figures.style import SOFTMATCH
from softmatch.experiments.results.collect import collect
from softmatch.experiments.sheet import Column, Row
from softmatch.experiments.store import Store
from tests.experiments.figures.stored import MOONS, ROWS, cells_of, finish, legend, make_sheet, record_of, texts, titled

ABLATED = (
    Row("All-class", {"method": "softmatch"}),
    Row("Per-class", {"method": "softmatch", "method_options": {"estimation": "per_class"}}),
)
DIGITS = Column("40", "digits", {"labels": 40}, "Digits")


def test_bars_are_means_with_whiskers_and_a_dot_for_each_seed(tmp_path: Path) -> None:
    sheet, store = make_sheet(rows=ABLATED, columns=(MOONS, DIGITS), seeds=(0, 1)), Store(tmp_path)
    for row, column, seed, error in (
        (ABLATED[0], MOONS, 0, 0.1),
        (ABLATED[0], MOONS, 1, 0.2),
        (ABLATED[0], DIGITS, 0, 0.3),
        (ABLATED[0], DIGITS, 1, None),  # could not be measured
        (ABLATED[1], DIGITS, 1, 0.5),
    ):
        finish(store, sheet.run(row, column, seed), [], error=error)
    (finish(store, sheet.run(ABLATED[1], MOONS, 0), [], error=0.9) / "report.html").unlink()
    names = ["All-class", "Per-class"]
    empty = make_sheet(rows=ABLATED, columns=(DIGITS,), seeds=(7,))
    figure = draw_ablation([collect(sheet, store), collect(empty, store)])
    assert figure is not None
    axes = titled(figure, "(a) A try")
    heights = [[bar.get_height() for bar in group] for group in axes.containers if group.get_label() in names]
    np.testing.assert_allclose(np.concatenate(heights), [0.15, 0.3, 0.5])
    assert to_hex(axes.containers[0][0].get_facecolor()).upper() == SOFTMATCH
    *_, whiskers = axes.containers[1]
    assert np.ptp(whiskers[0].get_segments()[0][:, 1]) == pytest.approx(2 * np.std([0.1, 0.2], ddof=1))
    dots = [each.get_offsets()[:, 1].tolist() for each in axes.collections if isinstance(each, PathCollection)]
    assert dots == [[0.1, 0.2], [0.3], [0.5]]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["Two moons\n4 labels", "Digits\n40 labels"]
    assert axes.get_ylim()[0] == 0
    assert legend(figure) == names
    assert "no finished runs" in texts(figure)
    assert "n = 1 to 2 seeds" in texts(figure)


def test_an_odd_number_of_panels_leaves_no_empty_axes(tmp_path: Path) -> None:
    sheet, store = make_sheet(rows=ABLATED[:1], seeds=(0,)), Store(tmp_path)
    finish(store, sheet.runs()[0], [])
    figure = draw_ablation([collect(sheet, store)] * 3)
    assert figure is not None
    assert len(figure.axes) == 3


def test_files_are_written_where_a_run_is_finished(tmp_path: Path) -> None:
    sheet, store = make_sheet(rows=ABLATED[:1], seeds=(0,)), Store(tmp_path)
    with pytest.raises(InputError, match="Run: softmatch reproduce fig-ablation"):
        draw("fig-ablation", [sheet], store, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    finish(store, sheet.runs()[0], [])
    written = draw("fig-ablation", [sheet], store, tmp_path / "out")
    assert [path.name for path in written] == ["fig-ablation.png", "fig-ablation.pdf"]
    assert all(path.is_file() for path in written)


def _weights(before: list[float | None], after: list[float | None]) -> dict[str, list[float | None]]:
    return {"unaligned_quantity": before, "quantity": after, "samples": [1, 1], "quality": [1.0, 1.0]}


def _figure(tmp_path: Path) -> Figure:
    sheet, store = make_sheet(), Store(tmp_path)
    first, second = (sheet.run(ROWS[2], MOONS, seed) for seed in (0, 1))
    finish(store, first, [record_of(first, 5, classes=_weights([0.2, 0.8], [0.5, 0.6])), record_of(first, 10)])
    finish(store, second, [record_of(second, 5, classes=_weights([0.4, None], [0.3, None]))])
    finish(store, sheet.run(ROWS[0], MOONS, 0))
    figure = draw_ua(cells_of(sheet, store), "A try")
    assert figure is not None
    return figure


def test_bars_are_means_over_seeds_of_the_first_record_of_softmatch(tmp_path: Path) -> None:
    """A class that no pseudo-label of a seed names is left out of the mean."""
    figure = _figure(tmp_path)
    before, after, difference = ([bar.get_width() for bar in axes.containers[0]] for axes in figure.axes)
    np.testing.assert_allclose([before, after, difference], [[0.3, 0.8], [0.4, 0.6], [0.1, -0.2]])
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["(a) before UA, sd of classes 25.0 %", "(b) after UA, sd of classes 10.0 %", "(c) after − before"]
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["upper", "lower"]
    assert "SoftMatch at step 5" in texts(figure)
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()


def test_very_many_classes_have_no_names_and_a_page_is_not_exceeded() -> None:
    weights = np.full((1, 100), 0.5)
    figure = draw_classes([str(n) for n in range(100)], weights, weights, "A try")
    assert not figure.axes[0].get_yticklabels()
    assert figure.get_figheight() < 11


def test_no_such_row_or_record(tmp_path: Path) -> None:
    sheet, store = make_sheet(), Store(tmp_path)
    run = sheet.run(ROWS[2], MOONS, 0)
    finish(store, run, [record_of(run, 5, classes={})])
    assert draw_ua(cells_of(sheet, store), "A try") is None
    finish(store, sheet.run(ROWS[0], MOONS, 0))
    with pytest.raises(InputError, match="A try has no such row"):
        draw_ua(cells_of(make_sheet(rows=ROWS[:2]), store), "A try")
