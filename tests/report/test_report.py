"""The page as a file: self-contained, complete without scripts, safe whatever the names in it, and written whole."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from softmatch.report import write_report
from softmatch.report.pages import embed
from softmatch.runs.folder import RunFolder
from tests.report.example import make_calibration, make_run, rewrite_records

HOSTILE = "</script><img src=x onerror=alert(1)>&amp;\u2028<!--"


class Page(HTMLParser):
    """Elements with their attributes, the visible text, and the content of each script."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._raw = ""
        self.feed(path.read_text(encoding="utf-8"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._raw = tag if tag in ("script", "style") else ""
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._raw = ""

    def handle_data(self, data: str) -> None:
        if self._raw == "script":
            self.scripts[-1] += data
        elif not self._raw:
            self.text += data

    @property
    def data(self) -> Any:
        return json.loads(self.scripts[0])

    @property
    def charts(self) -> list[str]:
        return [str(attributes["data-chart"]) for _, attributes in self.elements if "data-chart" in attributes]


def report(run: RunFolder) -> Page:
    return Page(write_report(run))


def test_complete_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert write_report(run) == tmp_path / "run" / "report.html"
    page = Page(run.report)
    assert page.charts == ["error", "pseudo", "histogram", "statistic-0", "statistic-4", "loss", "rate"]
    assert sum(tag == "canvas" for tag, _ in page.elements) == 2
    for words in ("two-moons", "The unlabelled data helped", "softmatch train --config config.yaml", "figure 1d", "75.4\u202fs"):
        assert words in page.text
    assert "Not on this page" not in page.text
    assert [path.name for path in run.path.glob(".report*")] == []  # no temporary file is left
    assert run.report.stat().st_size < 200_000


def test_page_needs_nothing_else(tmp_path: Path) -> None:
    page = report(make_run(tmp_path / "run"))
    addresses = [value for _, a in page.elements for key, value in a.items() if key in ("src", "href", "action", "poster")]
    assert addresses == ["data:,"]
    text = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"@import|url\(", text)
    assert "default-src 'none'" in text


def test_licence_of_uplot_goes_with_it(tmp_path: Path) -> None:
    script = report(make_run(tmp_path / "run")).scripts[1]
    assert "Copyright (c) 2022 Leon Sorokin" in script
    assert "The above copyright notice and this permission notice shall be included" in script
    assert "uPlot (v1.6.32)" in script


def test_hostile_names_are_text(tmp_path: Path) -> None:
    names = (HOSTILE, "\"'\n<b>", "🦊\u202e")
    evaluation = {"kind": "none", "samples": 0, "folds": None, "reason": HOSTILE}
    calibration = make_calibration(60).as_dict() | {"temperature": None, "reason": HOSTILE}
    for number, change in enumerate(({"calibration": calibration}, {"evaluation": evaluation, "test_error": None})):
        result = {"warnings": [f"Look: {HOSTILE}", None, 3], **change}
        settings = {"source": HOSTILE, HOSTILE: HOSTILE}
        page = report(make_run(tmp_path / str(number), evaluation="crossfit", classes=names, result=result, settings=settings))
        assert not [tag for tag, _ in page.elements if tag in ("img", "b")]
        assert not [key for _, attributes in page.elements for key in attributes if key.startswith("on")]
        assert len(page.scripts) == 2
        assert page.text.count(HOSTILE) >= 7  # warning, class, the reason, heading, title and settings
        assert page.data["classes"] == list(names)
        assert [a["title"] for tag, a in page.elements if tag == "th" and "title" in a] == [*reversed(names)]


def test_embedded_json_is_harmless_and_unchanged() -> None:
    text = str(embed([HOSTILE, {"\u2029": 1.5}]))
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == [HOSTILE, {"\u2029": 1.5}]


@pytest.mark.parametrize(
    ("options", "words", "absent"),
    [
        ({"finished": False}, ["has not finished", "result.json is missing"], ["The unlabelled data helped"]),
        ({"twin": False}, ["not known whether the unlabelled data helped", "nothing to compare with"], ["thin grey bar"]),
        (
            {"method": "supervised"},
            ["no pseudo-labels, weights or thresholds"],
            ["Confidence of the pseudo-labels", "Quality g of"],
        ),
        ({"truth": False}, ["wrong predictions cannot be shown", "truth not known"], ["are wrong. Line"]),
        ({"boundary": False}, ["helped"], ["Decision boundary"]),
        (
            {"evaluation": "crossfit"},
            ["How this was measured.", "another division into parts", "Calibration:", "Class by class", "Claimed, but wrong"],
            ["Warning", "held-out", "how accurate"],
        ),
        (
            {"evaluation": "none", "twin": False},
            ["could not be measured", "3 labelled samples are too few", "Warning", "Class by class"],
            ["Test error", "Baseline", "Calibration", "How this was measured", "intervals", "Error"],
        ),
        (
            {"evaluation": "test", "method": "supervised"},
            ["240 test samples", "Calibration:"],
            ["Confidence of the pseudo-labels"],
        ),
        ({"method": "mine.py:own"}, ["mine.py:own", "a statistic that this method keeps"], ["Confidence threshold"]),
    ],
)
def test_incomplete_runs(tmp_path: Path, options: dict[str, Any], words: list[str], absent: list[str]) -> None:
    text = " ".join(report(make_run(tmp_path / "run", **options)).text.split())
    assert [w for w in words if w not in text] == []
    assert [w for w in absent if w in text] == []


@pytest.mark.parametrize(("classes", "most"), [(150, 250_000), (1000, 900_000)])
def test_page_of_many_classes_stays_small(tmp_path: Path, classes: int, most: int) -> None:
    run = make_run(
        tmp_path / "run", evaluation="test", classes=tuple(f"class number {c}" for c in range(classes)), boundary=False
    )
    page = report(run)
    assert run.report.stat().st_size < most
    assert sum(tag == "th" and a.get("scope") == "row" and "title" in a for tag, a in page.elements) == classes


def test_empty_folder(tmp_path: Path) -> None:
    page = report(RunFolder(tmp_path))
    assert page.charts == []
    assert "there is nothing to judge" in page.text


def test_method_without_alignment_says_so(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", method="fixmatch")
    rewrite_records(run, lambda r: r["classes"].update(unaligned_quantity=r["classes"]["quantity"]))
    page = report(run)
    assert "FixMatch does not align its weights" in page.text
    assert not [a for _, a in page.elements if a.get("id") == "alignment"]


def test_partly_known_truth_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    rewrite_records(run, lambda r: r.update(histogram={"all": [10, 90], "wrong": [10, 0], "right": [0, 30]}))
    assert "known for 40.0\u202f% of the samples" in report(run).text


def test_report_is_replaced(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    run.report.write_text("old")
    write_report(run)
    first = run.report.read_bytes()
    write_report(run)
    assert run.report.read_bytes() == first  # the same folder gives the same bytes
