"""Lines over training, the weighting functions, and bars of errors and of class weights."""

import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex

from softmatch.errors import InputError
from softmatch.experiments.figures import curves_and_bars, draw
from softmatch.experiments.figures.curves_and_bars import draw_ablation, draw_classes, draw_functions, draw_qualitative, draw_ua
from softmatch.experiments.figures.style import COLOURS, FIXMATCH, SOFTMATCH
from softmatch.experiments.results.collect import collect
from softmatch.experiments.sheet import Column, Row
from softmatch.experiments.store import Store
from tests.experiments.figures import stored
from tests.experiments.figures.stored import MOONS, ROWS, STEPS, cells_of, finish, make_sheet, record_of, texts, titled


def _classes(*quality: float | None) -> dict[str, list[float | None]]:
    return {"samples": [1, 1, 1], "quality": list(quality), "quantity": [0.1] * 3}


def test_lines_are_means_of_the_records_and_the_band_is_their_spread(tmp_path: Path) -> None:
    sheet, store = make_sheet(), Store(tmp_path)
    for row in ROWS[:2]:
        for seed in (0, 1):
            finish(store, sheet.run(row, MOONS, seed))
    figure = draw_qualitative(cells_of(sheet, store), "A try")
    for name, key, row in (("(a)", "test_error", 0), ("(b)", "quantity", 1), ("(c)", "quality", 1)):
        values = np.array([[record_of(sheet.run(ROWS[row], MOONS, seed), step)[key] for step in STEPS] for seed in (0, 1)])
        axes = titled(figure, name)
        ((steps, drawn),) = stored.lines(axes, COLOURS[ROWS[row].name])
        assert steps == list(STEPS)
        np.testing.assert_allclose(drawn, values.mean(0), rtol=1e-5)
        band = axes.collections[row].get_paths()[0].vertices[:, 1]
        np.testing.assert_allclose([band.min(), band.max()], _bounds(values), rtol=1e-5)
    assert stored.legend(figure) == ["FixMatch", "FlexMatch", "best class", "worst class"]
    assert "n = 2 seeds" in texts(figure)
    assert [axes.get_ylabel() for axes in figure.axes] == ["error (%)", "quantity f (%)", "quality g (%)", "quality g (%)"]


def _bounds(values: np.ndarray) -> list[float]:
    mean, sd = values.mean(0), values.std(0, ddof=1)
    return [float((mean - sd).min()), float((mean + sd).max())]


def test_best_and_worst_class_are_chosen_for_each_record_and_seed(tmp_path: Path) -> None:
    sheet, store = make_sheet(rows=ROWS[2:]), Store(tmp_path)
    runs = [sheet.run(ROWS[2], MOONS, seed) for seed in (0, 1)]
    of_classes = ([_classes(0.2, 0.9, None), _classes(1, 0, 0.5)], [_classes(0.7, 0.6, 0.5), {}])
    for run, classes in zip(runs, of_classes, strict=True):
        finish(store, run, [record_of(run, step, classes=own) for step, own in enumerate(classes, 1)])
    cells = cells_of(sheet, store)
    axes = titled(draw_qualitative(cells, "A try"), "(d)")
    drawn = stored.lines(axes, COLOURS["SoftMatch"])
    np.testing.assert_allclose([values for _, values in drawn], [[0.8, 1.0], [0.35, 0.0]])
    assert [line.is_dashed() for line in axes.get_lines()] == [False, True]


def test_rows_of_different_numbers_of_seeds_say_theirs(tmp_path: Path) -> None:
    sheet, store = make_sheet(), Store(tmp_path)
    for row, seeds in ((ROWS[0], (1,)), (ROWS[2], (0, 1))):
        for seed in seeds:
            finish(store, sheet.run(row, MOONS, seed))
    figure = draw_qualitative(cells_of(sheet, store), "A try")
    assert stored.legend(figure)[:2] == ["FixMatch (n = 1)", "SoftMatch (n = 2)"]
    assert len(titled(figure, "(a)").collections) == 1  # one seed has no band


def test_functions_are_those_of_the_papers_table() -> None:
    found = {line.get_label().split(" (")[0]: line for line in draw_functions().axes[0].get_lines()}
    std, below = curves_and_bars.STD, lambda x: np.minimum(x - curves_and_bars.MEAN, 0)
    expected = {
        "Linear": lambda x: x,
        "Quadratic": lambda x: 1 - (x - 1) ** 2,
        "Laplacian": lambda x: np.exp(-np.abs(x - 1) / 0.3),
        "Gaussian": lambda x: np.exp(-((x - 1) ** 2) / (2 * 0.3**2)),
        "Truncated Laplacian": lambda x: np.exp(2 * below(x) / (std / math.sqrt(2))),
        "Truncated Gaussian": lambda x: np.exp(-4 * below(x) ** 2 / (2 * std**2)),
        "Threshold": lambda x: (x >= 0.95).astype(float),
    }
    assert list(found) == list(expected)
    for name, function in expected.items():
        x, weight = found[name].get_data()
        assert (round(x[0], 6), x[-1]) == (0.1, 1.0)
        at = np.abs(x - 0.95) > 1e-6  # where rounding decides
        np.testing.assert_allclose(weight[at], function(x)[at], rtol=1e-4, atol=1e-6, err_msg=name)


def test_lines_are_drawn_and_legends_name_parameters(tmp_path: Path) -> None:
    made = draw_functions()
    (axes,) = made.axes
    assert [line.get_color() for line in axes.get_lines()][-2:] == [SOFTMATCH, FIXMATCH]
    assert stored.legend(made)[3:6] == [
        "Gaussian (μ = 1, σ = 0.3)",
        "Truncated Laplacian (μ = 0.8, b = 0.14, 2 times narrower)",
        "Truncated Gaussian (μ = 0.8, σ = 0.2, 2 times narrower)",
    ]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("confidence max p (%)", "weight λ(p)")
    assert [path.name for path in draw("fig-functions", [], Store(tmp_path), tmp_path)] == [
        "fig-functions.png",
        "fig-functions.pdf",
    ]


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
    assert stored.legend(figure) == names
    assert "no finished runs" in texts(figure)
    assert "n = 1 to 2 seeds" in texts(figure)


def test_an_odd_number_of_panels_leaves_no_empty_axes(tmp_path: Path) -> None:
    sheet, store = make_sheet(rows=ABLATED[:1], seeds=(0,)), Store(tmp_path)
    finish(store, sheet.runs()[0], [])
    figure = draw_ablation([collect(sheet, store)] * 3)
    assert figure is not None
    assert len(figure.axes) == 3


def _weights(before: list[float | None], after: list[float | None]) -> dict[str, list[float | None]]:
    return {"unaligned_quantity": before, "quantity": after, "samples": [1, 1], "quality": [1.0, 1.0]}


def test_bars_are_means_over_seeds_of_the_first_record_of_softmatch(tmp_path: Path) -> None:
    """A class that no pseudo-label of a seed names is left out of the mean."""
    sheet, store = make_sheet(), Store(tmp_path)
    first, second = (sheet.run(ROWS[2], MOONS, seed) for seed in (0, 1))
    finish(store, first, [record_of(first, 5, classes=_weights([0.2, 0.8], [0.5, 0.6])), record_of(first, 10)])
    finish(store, second, [record_of(second, 5, classes=_weights([0.4, None], [0.3, None]))])
    finish(store, sheet.run(ROWS[0], MOONS, 0))
    figure = draw_ua(cells_of(sheet, store), "A try")
    assert figure is not None
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
