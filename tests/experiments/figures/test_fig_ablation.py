from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex

from softmatch.errors import InputError
from softmatch.experiments.figures import draw, fig_ablation
from softmatch.experiments.figures.style import SOFTMATCH
from softmatch.experiments.results.collect import collect
from softmatch.experiments.sheet import Column, Row
from softmatch.experiments.store import Store
from tests.experiments.figures.stored import MOONS, finish, legend, make_sheet, texts, titled

ROWS = (
    Row("All-class", {"method": "softmatch"}),
    Row("Per-class", {"method": "softmatch", "method_options": {"estimation": "per_class"}}),
)
DIGITS = Column("40", "digits", {"labels": 40}, "Digits")


def test_bars_are_means_with_whiskers_and_a_dot_for_each_seed(tmp_path: Path) -> None:
    sheet, store = make_sheet(rows=ROWS, columns=(MOONS, DIGITS), seeds=(0, 1)), Store(tmp_path)
    for row, column, seed, error in (
        (ROWS[0], MOONS, 0, 0.1),
        (ROWS[0], MOONS, 1, 0.2),
        (ROWS[0], DIGITS, 0, 0.3),
        (ROWS[0], DIGITS, 1, None),  # could not be measured
        (ROWS[1], DIGITS, 1, 0.5),
    ):
        finish(store, sheet.run(row, column, seed), [], error=error)
    (finish(store, sheet.run(ROWS[1], MOONS, 0), [], error=0.9) / "report.html").unlink()
    names = ["All-class", "Per-class"]
    empty = make_sheet(rows=ROWS, columns=(DIGITS,), seeds=(7,))
    figure = fig_ablation.figure([collect(sheet, store), collect(empty, store)])
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
    sheet, store = make_sheet(rows=ROWS[:1], seeds=(0,)), Store(tmp_path)
    finish(store, sheet.runs()[0], [])
    figure = fig_ablation.figure([collect(sheet, store)] * 3)
    assert figure is not None
    assert len(figure.axes) == 3


def test_files_are_written_where_a_run_is_finished(tmp_path: Path) -> None:
    sheet, store = make_sheet(rows=ROWS[:1], seeds=(0,)), Store(tmp_path)
    with pytest.raises(InputError, match="Run: softmatch reproduce fig-ablation"):
        draw("fig-ablation", [sheet], store, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    finish(store, sheet.runs()[0], [])
    written = draw("fig-ablation", [sheet], store, tmp_path / "out")
    assert [path.name for path in written] == ["fig-ablation.png", "fig-ablation.pdf"]
    assert all(path.is_file() for path in written)
