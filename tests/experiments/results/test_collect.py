"""Finished runs by cell and seed, their measures, and the states of runs that are missing."""

import math
import statistics
from pathlib import Path

import pytest

from softmatch.errors import InputError
from softmatch.experiments.results.collect import collect
from softmatch.experiments.sheet import Row
from softmatch.experiments.store import Store
from softmatch.experiments.sweep import Outcome
from tests.experiments.finished import VALUES, cell_of, finish, finish_all, make_sheet


def test_figures_of_a_cell(tmp_path: Path) -> None:
    store, sheet = Store(tmp_path), make_sheet(seeds=(2, 0, 1))
    finish_all(store, sheet, VALUES)
    cell = cell_of(sheet, store, "FixMatch")
    assert list(cell.values.items()) == [(2, 0.10), (0, 0.11), (1, 0.15)]
    assert cell.mean == pytest.approx(0.12)
    assert cell.sd == pytest.approx(statistics.stdev([0.10, 0.11, 0.15]))
    assert (cell.n, cell.missing) == (3, [])
    assert [entry.folder for entry in cell.entries] == [
        store.folder(sheet.run(cell.row, cell.column, seed)) for seed in (2, 0, 1)
    ]
    assert [entry.figure("seconds") for entry in cell.entries] == [75.4] * 3
    partial = cell_of(sheet, store, "FixMatch", "Digits, 100")
    assert (partial.n, partial.missing) == (2, [1])
    assert collect(sheet, store).progress == (17, 18)


def test_states(tmp_path: Path) -> None:
    """A cell of each kind of run that is not there; only a finished one with the figure counts."""
    store, sheet = Store(tmp_path), make_sheet(seeds=tuple(range(7)))
    row, column = sheet.rows[2], sheet.columns[0]
    runs = [sheet.run(row, column, seed) for seed in sheet.seeds]
    finish(store, runs[0], 0.25)
    finish(store, runs[1], None)
    (finish(store, runs[2], 0.25) / "result.json").write_text('{"test_error": 0.2')
    store.folder(runs[4]).mkdir()
    (finish(store, runs[6], 0.25) / "report.html").unlink()
    outcomes = [Outcome(runs[3], "failed", 3, "out of memory"), Outcome(runs[0], "done"), Outcome(runs[6], "stopped", 2, "saved")]
    cell = collect(sheet, store, outcomes=outcomes).cells["SoftMatch", "Digits, 40"]
    states = ["finished", "unmeasured", "unreadable", "failed", "unfinished", "missing", "failed"]
    assert [entry.state for entry in cell.entries] == states
    assert cell.values == {0: 0.25}
    assert cell.missing == [1, 2, 3, 4, 5, 6]
    assert (cell.entries[3].attempts, cell.entries[3].message) == (3, "out of memory")
    assert "result.json is damaged" in cell.entries[2].message
    assert cell.entries[2].message.endswith(f"remove {store.folder(runs[2])}, and the same command runs it again.")


def test_cells_that_share_a_run_have_the_same_entry(tmp_path: Path) -> None:
    store = Store(tmp_path)
    sheet = make_sheet(rows=(Row("SoftMatch", {}), Row("again", {})), seeds=(0,))
    finish(store, sheet.run(sheet.rows[0], sheet.columns[0], 0), 0.5)
    results = collect(sheet, store)
    assert [cell.mean for cell in results.column("Digits, 40")] == [0.5, 0.5]
    assert results.progress == (1, 2)


def test_measures(tmp_path: Path) -> None:
    store, sheet = Store(tmp_path), make_sheet(seeds=(0,))
    classes = {"a": 0.25, "b": None, "c": 0.75}
    finish(store, sheet.run(sheet.rows[2], sheet.columns[0], 0), 0.5, (10, 20), quantity=0.8, quality=0.9, class_errors=classes)
    expected = {
        "error": 0.5,
        "quantity": 0.8,
        "quality": 0.9,
        "seconds": 75.4,
        "best error": 0.5 + 1 / 20,
        "early error": 0.5 + 1 / 10,
        "early quantity": 0.5 + 0.4 * 10 / 60,
        "early quality": 0.6 + 0.3 * 10 / 60,
        "worst class": 0.75,
        "mean of classes": 0.5,
    }
    for name, value in expected.items():
        assert math.isclose(cell_of(sheet, store, "SoftMatch", measure=name).mean or 0, value), name
    with pytest.raises(InputError, match=r"there is no measure 'accuracy'\. Known: best class quality, best error"):
        collect(sheet, store, "accuracy")
