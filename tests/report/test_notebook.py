"""Displays in notebooks: results, tables of a comparison, cards of methods and charts; names of classes are escaped."""

import sys
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

import softmatch
from softmatch.training.job import Result
from tests.experiments.results.test_layout import layout_of
from tests.refusals import refused
from tests.report.example import make_run

EVIL = "<script>alert(1)</script>"


class Parsed(HTMLParser):
    """Tags and text of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags, self.text = list[str](), ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def result_of(path: Path, **changes: Any) -> Result:
    """The result of a run folder."""
    run = make_run(path, evaluation="holdout")
    found = run.read_json("result.json") | {"run": run.path, "warnings": []} | changes
    return Result(**{each.name: found.get(each.name) for each in fields(Result)})


def test_a_result(tmp_path: Path) -> None:
    result = result_of(tmp_path / EVIL.replace("/", ""), warnings=[f"No sample of '{EVIL}' was recognised."])
    parsed = Parsed(result._repr_html_())
    assert set(parsed.tags) == {"div", "p", "strong", "table", "tbody", "tr", "td"}
    assert f"No sample of '{EVIL}' was recognised." in parsed.text
    assert "the baseline, trained on the labels only, makes" in parsed.text
    assert "Quantity f" in parsed.text
    assert str(result.run / "report.html") in parsed.text


def test_an_unmeasured_result(tmp_path: Path) -> None:
    unmeasured = {"kind": "none", "samples": 0, "folds": None, "reason": "Too few labels."}
    shown = result_of(tmp_path / "run", test_error=None, evaluation=unmeasured)._repr_html_()
    assert "could not be measured. Too few labels." in shown


def test_charts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = result_of(tmp_path / "run").plot()
    assert isinstance(drawn, Figure)
    assert [axes.get_title() for axes in drawn.axes] == ["Evaluation error", "Quantity and quality of pseudo-labels"]
    assert [len(axes.lines) for axes in drawn.axes] == [2, 2]
    assert drawn._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]  # for notebooks
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
    refused("has no records to draw", softmatch.plot, tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    refused("pip install", softmatch.plot, tmp_path / "run")


def test_a_table_of_a_comparison(tmp_path: Path) -> None:
    layout = layout_of(tmp_path)
    shown = layout._repr_html_()
    parsed = Parsed(shown)
    assert parsed.tags.count("tr") == len(layout.lines) + 1
    best = next(cell for line in layout.lines for cell in line.cells if cell.best)
    assert f"<strong>{best.value}</strong>" in shown
    assert layout.caption in parsed.text


def test_cards_of_methods() -> None:
    for name, entry in softmatch.METHODS.items():
        parsed = Parsed(entry._repr_html_())
        assert "h1" in parsed.tags, name
        assert "script" not in parsed.tags
    assert "table" in Parsed(softmatch.METHODS["softmatch"]._repr_html_()).tags


def test_a_classifier_keeps_the_display_of_scikit_learn() -> None:
    assert "Classifier" in softmatch.Classifier()._repr_html_()
