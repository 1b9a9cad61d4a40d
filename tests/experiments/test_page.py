"""The page: complete without scripts, safe whatever the names, small for many runs, and drawn by a real browser."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from urllib.parse import unquote

from softmatch.experiments.results import write_results
from softmatch.experiments.sheet import Column, Row, Sheet
from softmatch.experiments.store import Store
from tests.experiments.finished import PUBLISHED, VALUES, Ended, finish, finish_all, make_sheet
from tests.report.chrome import Chrome
from tests.report.test_report import Page

HARM = "</script><img src=x onerror=\"window.harmed = true; console.error('harmed')\">" + "long" * 30


def write(store: Store, sheet: Sheet, *outcomes: Ended, **options: object) -> Page:
    return Page(write_results(sheet, store, outcomes, **options)[-1])


def test_page(tmp_path: Path) -> None:
    store, sheet = Store(tmp_path), make_sheet()
    finish_all(store, sheet, VALUES, (10, 20, 40))
    failed = Ended(sheet.run(sheet.rows[1], sheet.columns[1], 1), "failed", 3, "Traceback\nout of <memory>")
    page = write(store, sheet, failed, published=PUBLISHED, notes=["Laptop scale."], commands=["softmatch x"])
    text = (store.results("try") / "report.html").read_text()
    assert page.charts == ["0", "1"]
    for part in ("paper 4.91 ± 0.12", "n = 2 of 3", "Laptop scale.", "out of <memory>", "3 attempts", "softmatch x"):
        assert part in page.text
    assert "<strong>11.00 ± 1.00</strong>" in text
    assert "12.00 ± 2.65<sup>†</sup>" in text
    assert 'title="seed 0: 11.00, seed 1: 15.00, seed 2: 10.00"' in text
    links = [unquote(str(attributes["href"])) for tag, attributes in page.elements if tag == "a"]
    assert len(links) == 17
    assert all((store.results("try") / link).resolve().is_file() for link in links)
    policy = next(str(a["content"]) for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode() in policy
    assert not re.search(r"(src|href)=.?https?:", text)
    assert str(tmp_path) not in text


def test_pages_with_little_to_show(tmp_path: Path) -> None:
    """No finished run; one run without a record; one that was never begun."""
    store, sheet = Store(tmp_path), make_sheet()
    empty = write(store, sheet)
    assert empty.charts == []
    assert "No run is finished yet." in empty.text
    assert "not begun" in empty.text
    one = make_sheet(name="one", rows=sheet.rows[2:], columns=sheet.columns[:1], seeds=(0,))
    finish(store, one.run(one.rows[0], one.columns[0], 0), 0.125)
    page = write(store, one)
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
    page = write(store, sheet)
    assert len(page.charts) == 50
    folds = [attributes for tag, attributes in page.elements if tag == "details" and attributes.get("class") == "fold"]
    assert len(folds) == 10
    assert "Set 0, 4" in page.text
    assert len((store.results("try") / "report.html").read_bytes()) < 2_000_000


def test_browser(tmp_path: Path) -> None:
    """Curves are drawn for the chosen measure and rows, in both schemes, and hostile names do nothing."""
    store, sheet = Store(tmp_path), make_sheet(title=HARM, rows=(*make_sheet().rows, Row(HARM, {"lr": 1.0})))
    finish_all(store, sheet, {**VALUES, (HARM, "Digits, 40"): {0: 0.2, 1: 0.3, 2: 0.4}}, (10, 20, 40))
    path = write_results(sheet, store, [Ended(sheet.run(sheet.rows[1], sheet.columns[1], 1), "failed", 3, HARM)], notes=[HARM])[
        -1
    ]
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
