from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from softmatch.errors import InputError
from softmatch.experiments.figures import fig_ua
from softmatch.experiments.store import Store
from tests.experiments.figures.stored import MOONS, ROWS, cells_of, finish, make_sheet, record_of, texts


def _weights(before: list[float | None], after: list[float | None]) -> dict[str, list[float | None]]:
    return {"unaligned_quantity": before, "quantity": after, "samples": [1, 1], "quality": [1.0, 1.0]}


def _figure(tmp_path: Path) -> Figure:
    sheet, store = make_sheet(), Store(tmp_path)
    first, second = (sheet.run(ROWS[2], MOONS, seed) for seed in (0, 1))
    finish(store, first, [record_of(first, 5, classes=_weights([0.2, 0.8], [0.5, 0.6])), record_of(first, 10)])
    finish(store, second, [record_of(second, 5, classes=_weights([0.4, None], [0.3, None]))])
    finish(store, sheet.run(ROWS[0], MOONS, 0))
    figure = fig_ua.figure(cells_of(sheet, store), "A try")
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
    figure = fig_ua.draw([str(n) for n in range(100)], weights, weights, "A try")
    assert not figure.axes[0].get_yticklabels()
    assert figure.get_figheight() < 11


def test_no_such_row_or_record(tmp_path: Path) -> None:
    sheet, store = make_sheet(), Store(tmp_path)
    run = sheet.run(ROWS[2], MOONS, 0)
    finish(store, run, [record_of(run, 5, classes={})])
    assert fig_ua.figure(cells_of(sheet, store), "A try") is None
    finish(store, sheet.run(ROWS[0], MOONS, 0))
    with pytest.raises(InputError, match="A try has no such row"):
        fig_ua.figure(cells_of(make_sheet(rows=ROWS[:2]), store), "A try")
