from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softmatch.errors import InputError
from softmatch.experiments.figures import alignment
from softmatch.experiments.store import Store
from tests.experiments.figures.stored import MOONS, ROWS, finish, make_sheet, record_of, texts


def _weights(before: list[float | None], after: list[float | None]) -> dict[str, list[float | None]]:
    return {"unaligned_quantity": before, "quantity": after, "samples": [1, 1], "quality": [1.0, 1.0]}


def _read(tmp_path: Path) -> alignment.ClassWeights:
    sheet, store = make_sheet(), Store(tmp_path)
    first, second = (sheet.run(ROWS[2], MOONS, seed) for seed in (0, 1))
    finish(store, first, [record_of(first, 5, classes=_weights([0.2, 0.8], [0.5, 0.6])), record_of(first, 10)])
    finish(store, second, [record_of(second, 5, classes=_weights([0.4, None], [0.3, None]))])
    finish(store, sheet.run(ROWS[0], MOONS, 0))
    found = alignment.read(sheet, store, MOONS)
    assert found is not None
    return found


def test_weights_are_those_of_the_first_record_of_softmatch(tmp_path: Path) -> None:
    found = _read(tmp_path)
    assert (found.step, found.classes) == (5, ("upper", "lower"))
    np.testing.assert_array_equal(found.before, [[0.2, 0.8], [0.4, np.nan]])
    np.testing.assert_array_equal(found.after, [[0.5, 0.6], [0.3, np.nan]])
    assert alignment.ua_balance(found) == pytest.approx((0.25, 0.1))  # of 0.3 and 0.8, of 0.4 and 0.6


def test_bars_are_means_over_seeds_of_each_class(tmp_path: Path) -> None:
    figure = alignment.figure(_read(tmp_path), "A try")
    before, after, difference = ([bar.get_width() for bar in axes.containers[0]] for axes in figure.axes)
    np.testing.assert_allclose([before, after, difference], [[0.3, 0.8], [0.4, 0.6], [0.1, -0.2]])
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["(a) before UA, sd of classes 25.0 %", "(b) after UA, sd of classes 10.0 %", "(c) after − before"]
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["upper", "lower"]
    assert "SoftMatch at step 5" in texts(figure)
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()


def test_very_many_classes_have_no_names_and_a_page_is_not_exceeded() -> None:
    weights = np.full((1, 100), 0.5)
    figure = alignment.figure(alignment.ClassWeights(1, tuple(map(str, range(100))), weights, weights), "A try")
    assert not figure.axes[0].get_yticklabels()
    assert figure.get_figheight() < 11


def test_nothing_finished_and_no_such_row(tmp_path: Path) -> None:
    assert alignment.read(make_sheet(), Store(tmp_path), MOONS) is None
    with pytest.raises(InputError, match="fig-try has no such row"):
        alignment.read(make_sheet(rows=ROWS[:2]), Store(tmp_path), MOONS)
