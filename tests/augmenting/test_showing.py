"""What is shown meanwhile."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from softmatch.augmenting.showing import Showing, _figures


def test_figures_are_done_rate_time_left_and_what_was_made_before() -> None:
    assert _figures("sentences", 300, 1200, 100, 10.0) == "300/1,200 sentences, 20.0 per second, 45 s left, 100 from the cache"
    assert _figures("texts", 1200, 1200, 0, 2.0) == "1,200/1,200 texts, 600 per second"
    assert _figures("texts", 5, 5, 5, 0.0) == "5/5 texts, 5 from the cache"


def tell(showing: Showing) -> None:
    for name, before in (("de", 0), ("ru", 40)):
        for done in range(before, 101, 2):
            showing(name, "sentences", done, 100, before)


def test_a_line_now_and_then_without_a_terminal() -> None:
    out = io.StringIO()
    with Showing(Console(file=out)) as showing:
        tell(showing)
    lines = out.getvalue().splitlines()
    assert 10 <= sum(line.startswith("de: ") for line in lines) <= 12
    assert lines[0] == "de: 0/100 sentences"
    assert lines[-1].startswith("ru: 100/100 sentences")
    assert lines[-1].endswith("40 from the cache")
    assert showing.made == {"sentences": 160}
    assert showing.kept() == "160 new sentences"


def test_names_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    Showing()("mine.py:boom:[red]", "texts", 0, 5, 0)
    assert capsys.readouterr().err == "mine.py:boom:[red]: 0/5 texts\n"
    out = io.StringIO()
    with Showing(Console(file=out, force_terminal=True, width=120)) as showing:
        showing("mine.py:boom:[red]", "texts", 0, 5, 0)
    assert "mine.py:boom:[red]" in out.getvalue()


def test_a_bar_for_each_column_on_a_terminal() -> None:
    out = io.StringIO()
    with Showing(Console(file=out, force_terminal=True, width=120)) as showing:
        showing.note("what was found")
        tell(showing)
    assert "what was found" in out.getvalue()
    assert "100/100 sentences" in out.getvalue()
    assert out.getvalue().count("de: ") == 0
