"""Curves for a page: all seeds of finished runs, thinned so that a page stays small."""

from __future__ import annotations

import json
from pathlib import Path

from softmatch.experiments.collecting import collect
from softmatch.experiments.curves import FEWEST, NUMBERS, POINTS, UNIT, curves
from softmatch.experiments.store import Store
from tests.experiments.finished import COLUMNS, ROWS, finish, make_sheet


def test_curves_of_finished_seeds(tmp_path: Path) -> None:
    store, sheet = Store(tmp_path), make_sheet()
    for seed in (0, 2):
        finish(store, sheet.run(ROWS[2], COLUMNS[0], seed), 0.1 * seed, (10, 20))
    finish(store, sheet.run(ROWS[0], COLUMNS[0], 0), 0.5, (20,))
    (finish(store, sheet.run(ROWS[1], COLUMNS[0], 0), 0.5, (10,)) / "result.json").unlink()
    found = curves(collect(sheet, store))
    assert found["rows"] == ["Labels alone", "FixMatch", "SoftMatch"]
    assert found["measures"] == ["error", "quantity", "quality"]
    alone, softmatch = found["columns"][0]["cells"]
    assert alone == {"row": 0, "x": [20], "error": [[round(UNIT * 0.55)]]}
    assert (softmatch["row"], softmatch["x"]) == (2, [10, 20])
    assert softmatch["error"] == [[1000, 500], [3000, 2500]]
    assert softmatch["quantity"] == [[round(UNIT * (0.5 + 0.4 * step / 60)) for step in (10, 20)]] * 2
    assert found["columns"][1] == {"title": "Digits, 100", "cells": []}


def test_seeds_with_other_records_and_damaged_lines(tmp_path: Path) -> None:
    """A mean is drawn only where all seeds have a figure: the gaps are part of the data."""
    store, sheet = Store(tmp_path), make_sheet(rows=ROWS[2:], columns=COLUMNS[:1], seeds=(0, 1))
    finish(store, sheet.run(ROWS[2], COLUMNS[0], 0), 0.1, (10, 20))
    other = finish(store, sheet.run(ROWS[2], COLUMNS[0], 1), 0.2, (20, 40))
    with (other / "metrics.jsonl").open("a") as file:
        file.write('{"step": 50, "test_err\n[1]\n' + "[" * 100_000 + '\n{"step": 60, "test_error": NaN}\n')
    (cell,) = curves(collect(sheet, store))["columns"][0]["cells"]
    assert cell["x"] == [10, 20, 40, 60]
    assert cell["error"] == [[2000, 1500, None, None], [None, 2500, 2250, None]]


def test_many_records_are_thinned(tmp_path: Path) -> None:
    store, sheet = Store(tmp_path), make_sheet(rows=ROWS[2:], columns=COLUMNS[:1], seeds=(0,))
    folder = finish(store, sheet.run(ROWS[2], COLUMNS[0], 0), 0.1)
    lines = "".join(json.dumps({"step": step, "test_error": 0.5}) + "\n" for step in range(1, 1001))
    (folder / "metrics.jsonl").write_text(lines)
    (cell,) = curves(collect(sheet, store))["columns"][0]["cells"]
    assert len(cell["x"]) == POINTS
    assert (cell["x"][0], cell["x"][-1]) == (1, 1000)
    assert NUMBERS // (50 * 10 * 5 * 3) >= FEWEST  # 50 columns, 10 rows, 5 seeds, 3 measures
