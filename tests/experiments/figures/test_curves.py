"""Lines over training, and the weighting functions."""

import math
from pathlib import Path

import numpy as np

from softmatch.experiments.figures import draw
from softmatch.experiments.figures.curves import MEAN, STD, best, draw_functions, draw_qualitative, worst
from softmatch.experiments.figures.style import COLOURS, FIXMATCH, SOFTMATCH, over_steps
from softmatch.experiments.store import Store
from tests.experiments.figures.stored import (
    MOONS,
    ROWS,
    STEPS,
    cells_of,
    finish,
    legend,
    lines,
    make_sheet,
    record_of,
    texts,
    titled,
)


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
        ((steps, drawn),) = lines(axes, COLOURS[ROWS[row].name])
        assert steps == list(STEPS)
        np.testing.assert_allclose(drawn, values.mean(0), rtol=1e-5)
        band = axes.collections[row].get_paths()[0].vertices[:, 1]
        np.testing.assert_allclose([band.min(), band.max()], _bounds(values), rtol=1e-5)
    assert legend(figure) == ["FixMatch", "FlexMatch", "best class", "worst class"]
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
    np.testing.assert_array_equal(over_steps(cells[0].runs, best)[1], [[0.9, 1.0], [0.7, np.nan]])
    np.testing.assert_array_equal(over_steps(cells[0].runs, worst)[1], [[0.2, 0.0], [0.5, np.nan]])
    axes = titled(draw_qualitative(cells, "A try"), "(d)")
    drawn = lines(axes, COLOURS["SoftMatch"])
    np.testing.assert_allclose([values for _, values in drawn], [[0.8, 1.0], [0.35, 0.0]])
    assert [line.is_dashed() for line in axes.get_lines()] == [False, True]


def test_rows_of_different_numbers_of_seeds_say_theirs(tmp_path: Path) -> None:
    sheet, store = make_sheet(), Store(tmp_path)
    for row, seeds in ((ROWS[0], (1,)), (ROWS[2], (0, 1))):
        for seed in seeds:
            finish(store, sheet.run(row, MOONS, seed))
    figure = draw_qualitative(cells_of(sheet, store), "A try")
    assert legend(figure)[:2] == ["FixMatch (n = 1)", "SoftMatch (n = 2)"]
    assert len(titled(figure, "(a)").collections) == 1  # one seed has no band


def test_functions_are_those_of_the_papers_table() -> None:
    found = {line.get_label().split(" (")[0]: line for line in draw_functions().axes[0].get_lines()}
    scale, below = STD / math.sqrt(2), lambda x: np.minimum(x - MEAN, 0)
    expected = {
        "Linear": lambda x: x,
        "Quadratic": lambda x: 1 - (x - 1) ** 2,
        "Laplacian": lambda x: np.exp(-np.abs(x - 1) / 0.3),
        "Gaussian": lambda x: np.exp(-((x - 1) ** 2) / (2 * 0.3**2)),
        "Truncated Laplacian": lambda x: np.exp(2 * below(x) / scale),
        "Truncated Gaussian": lambda x: np.exp(-4 * below(x) ** 2 / (2 * STD**2)),
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
    assert legend(made)[3:6] == [
        "Gaussian (μ = 1, σ = 0.3)",
        "Truncated Laplacian (μ = 0.8, b = 0.14, 2 times narrower)",
        "Truncated Gaussian (μ = 0.8, σ = 0.2, 2 times narrower)",
    ]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("confidence max p (%)", "weight λ(p)")
    assert [path.name for path in draw("fig-functions", [], Store(tmp_path), tmp_path)] == [
        "fig-functions.png",
        "fig-functions.pdf",
    ]
