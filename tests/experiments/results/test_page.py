"""The page: complete without scripts, safe whatever the names, small for many runs, and drawn by a real browser."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from softmatch.experiments.results.collect import collect
from softmatch.experiments.results.layout import Layout
from softmatch.experiments.results.page import FEWEST, NUMBERS, POINTS, UNIT, curves
from softmatch.experiments.results.tables import write_results
from softmatch.experiments.sheet import Column, Row
from softmatch.experiments.store import Store
from tests.experiments.finished import COLUMNS, ROWS, finish, full_layout, layout_of, make_sheet
from tests.report.chrome import Chrome
from tests.report.test_report import Page

HARM = "</script><img src=x onerror=\"window.harmed = true; console.error('harmed')\">" + "long" * 30


def write(layout: Layout, folder: Path) -> Page:
    return Page(write_results(layout, Store(folder), commands=["softmatch x"])[-1])


def test_page(tmp_path: Path) -> None:
    store, page = Store(tmp_path), write(full_layout(tmp_path, "Traceback\nout of <memory>"), tmp_path)
    text = (store.results("try") / "report.html").read_text()
    assert page.charts == ["0", "1"]
    for part in ("paper 4.91 ± 0.12", "n = 2 of 3", "Only 2^20 steps_here.", "out of <memory>", "3 attempts", "softmatch x"):
        assert part in page.text
    assert "<strong>11.00 ± 1.00</strong>" in text
    assert "12.00 ± 2.65<sup>†</sup>" in text
    assert 'title="seed 0: 11.00, seed 1: 15.00, seed 2: 10.00"' in text
    links = [unquote(str(attributes["href"])) for tag, attributes in page.elements if tag == "a"]
    assert len(links) == 18  # of finished runs, and of a log
    assert all((store.results("try") / link).resolve().is_file() for link in links)
    policy = next(str(a["content"]) for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode() in policy
    assert not re.search(r"(src|href)=.?https?:", text)
    assert str(tmp_path) not in text


def test_pages_with_little_to_show(tmp_path: Path) -> None:
    """No finished run; one run without a record; one that was never started."""
    empty = write(layout_of(tmp_path, {}), tmp_path)
    assert empty.charts == []
    assert "No run is finished yet." in empty.text
    assert "not started" in empty.text
    options = {"name": "one", "rows": ROWS[2:], "columns": COLUMNS[:1], "seeds": (0,)}
    page = write(layout_of(tmp_path, {("SoftMatch", "Digits, 40"): {0: 0.125}}, **options), tmp_path)
    assert page.charts == []
    assert "12.50" in page.text
    assert "†" not in page.text


def test_fifty_columns_of_ten_rows_are_folded_and_small(tmp_path: Path) -> None:
    """2,500 seeds of cells, which share a few runs: to write as many folders would take long."""
    columns = [Column(str(n % 5), "digits", {"labels": 40 + n // 25}, f"Set {n // 5}") for n in range(50)]
    rows = [Row(f"Method {n}", {"lr": 1.0 + n % 2}) for n in range(10)]
    store, sheet = Store(tmp_path), make_sheet(rows=rows, columns=columns, seeds=range(5))
    for run in sheet.runs():
        finish(store, run, 0.1, tuple(range(10, 310, 10)))
    page = write(Layout(collect(sheet, store)), tmp_path)
    assert len(page.charts) == 50
    folds = [attributes for tag, attributes in page.elements if tag == "details" and attributes.get("class") == "fold"]
    assert len(folds) == 5
    assert "Set 0, 4 to Set 2, 3" in page.text
    assert len((store.results("try") / "report.html").read_bytes()) < 2_000_000


def test_browser(tmp_path: Path) -> None:
    """Curves are drawn for the chosen measure and rows, in both schemes, and hostile names do nothing."""
    rows = (*ROWS, Row(HARM, {"lr": 1.0}))
    layout_of(tmp_path, {(HARM, "Digits, 40"): {0: 0.2, 1: 0.3, 2: 0.4}}, (10, 20, 40), rows=rows)
    layout = replace(full_layout(tmp_path, HARM, title=HARM, rows=rows), notes=[HARM])
    path = write_results(layout, Store(tmp_path))[-1]
    browser = Chrome(tmp_path / "profile")
    try:
        browser.open(path.as_uri(), width=360, dark=True)
        assert browser.run("document.documentElement.scrollWidth - innerWidth") <= 0
        browser.open(path.as_uri(), width=1200)
        assert browser.run("[...document.querySelectorAll('.row bdi')].at(-1).textContent") == HARM
        legend = "[...document.querySelectorAll('[data-chart=\"0\"] .u-series:not(.aside) .u-value')].map(e => e.textContent)"
        first = browser.run(legend)
        assert first == ["40", "33.83 ± 1.53\u202f%", "14.50 ± 2.65\u202f%", "13.50 ± 1.00\u202f%", "32.50 ± 10.00\u202f%"]
        series = "plots.get(document.querySelector('[data-chart=\"0\"]')).series.length"
        assert browser.run(series) == 1 + 4 * 3  # of each row a mean and both ends of its band
        browser.run("document.getElementById('seeds').click()")
        assert browser.run(series) == 1 + 4 * 6
        browser.run("document.querySelector('.row').click()")
        assert browser.run(legend) == [first[0], *first[2:]]
        assert browser.run("document.querySelector('.row').getAttribute('aria-pressed')") == "false"
        browser.run("(m => { m.value = 'quantity'; m.dispatchEvent(new Event('change')) })(document.getElementById('measure'))")
        assert browser.run(legend)[1:] == ["76.67 ± 0.00\u202f%"] * 3
        browser.run("document.getElementById('all-rows').click(); document.getElementById('all-rows').click()")
        assert browser.run(series) == 1
        browser.settle()
        assert browser.run("window.harmed === undefined && document.images.length === 0")
        assert browser.problems == []
        assert browser.requests == [path.as_uri()]
    finally:
        browser.close()


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
