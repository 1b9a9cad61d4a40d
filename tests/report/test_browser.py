"""The page in a real browser: it draws, resizes, obeys the slider and the colour scheme, and asks the network for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from softmatch.report import write_report
from tests.report.chrome import Chrome, find_browser
from tests.report.example import make_run

HOSTILE = "</script><img src=x onerror=\"window.harmed = true; console.error('harmed')\">" + "long" * 30
CANVASES = "[...document.querySelectorAll('[data-chart] canvas, canvas.boundary')].filter(c => c.checkVisibility())"
OPEN = "document.querySelectorAll('details').forEach(d => { d.open = true })"
FOLDERS: dict[str, dict[str, Any]] = {
    "complete": {},
    "fixmatch": {"method": "fixmatch", "truth": False},
    "supervised": {"method": "supervised"},
    "alone": {"twin": False, "finished": False},
    "short": {"steps": 5, "twin": False},
    "hostile": {"classes": (HOSTILE, "b"), "settings": {"source": HOSTILE}},
    "hundred": {"classes": tuple(f"class number {c}" for c in range(100)), "boundary": False},
}


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    browser = Chrome(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The address of a report for each kind of run."""
    root = tmp_path_factory.mktemp("runs")
    return {name: write_report(make_run(root / name, **options)).as_uri() for name, options in FOLDERS.items()}


def overflow(chrome: Chrome) -> int:
    found: int = chrome.run("document.documentElement.scrollWidth - innerWidth")
    return found


def ink(chrome: Chrome, selector: str) -> int:
    """How many pixels of a canvas are drawn."""
    found: int = chrome.run(
        f"(c => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data].filter((v, i) => i % 4 === 3 && v > 0).length)"
        f"(document.querySelector({selector!r}))"
    )
    return found


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (360, True)])
def test_page_draws_without_errors(chrome: Chrome, pages: dict[str, str], name: str, width: int, dark: bool) -> None:
    chrome.open(pages[name], width=width, dark=dark)
    chrome.run(OPEN)
    chrome.settle()
    shown = chrome.run(f"{CANVASES}.map(c => [c.width, c.height])")
    assert len(shown) == chrome.run("document.querySelectorAll('[data-chart], canvas.boundary').length") > 0
    assert all(w > 100 and h > 100 for w, h in shown)
    assert overflow(chrome) <= 0
    assert chrome.requests == [pages[name]]
    assert chrome.problems == []


def test_hostile_names_do_nothing(chrome: Chrome, pages: dict[str, str]) -> None:
    chrome.open(pages["hostile"])
    assert chrome.run("window.harmed === undefined && document.images.length === 0")
    assert chrome.run("document.querySelector('h1').textContent") == HOSTILE
    assert chrome.run("document.querySelector('#classes tbody th').textContent") == HOSTILE


def test_slider_moves_through_training(chrome: Chrome, pages: dict[str, str]) -> None:
    chrome.open(pages["complete"])
    shown = "[...document.querySelectorAll('#moment-label, #classes, #alignment')].map(e => e.innerText)"
    bars = "plots.get(document.querySelector('[data-chart=histogram]')).data[1].join()"
    last, last_bars = chrome.run(shown), chrome.run(bars)
    assert last[0] == "Step 60 of 60"
    chrome.run("document.getElementById('moment').focus()")
    chrome.press("Home")
    first = chrome.run(shown)
    assert first[0] == "Step 5 of 60"
    assert chrome.run("document.getElementById('moment').getAttribute('aria-valuetext')") == "Step 5 of 60"
    assert all(a != b for a, b in zip(first, last, strict=True))
    assert chrome.run(bars) != last_bars
    chrome.press("ArrowRight")
    assert chrome.run(shown)[0] == "Step 10 of 60"
    chrome.press("End")
    assert (chrome.run(shown), chrome.run(bars)) == (last, last_bars)
    assert chrome.problems == []


def test_play_button_starts_and_stops(chrome: Chrome, pages: dict[str, str]) -> None:
    chrome.open(pages["complete"])
    chrome.run("document.getElementById('play').click()")
    assert chrome.run("document.getElementById('moment-label').textContent") == "Step 5 of 60"
    assert chrome.run("document.getElementById('play').getAttribute('aria-label')") == "Stop"
    chrome.run("document.getElementById('play').click()")
    assert chrome.run("playing") == 0


def test_charts_follow_the_window(chrome: Chrome, pages: dict[str, str]) -> None:
    chrome.open(pages["complete"], width=1200)
    widths = "[...document.querySelectorAll('[data-chart] canvas, canvas.boundary')].map(e => e.clientWidth)"
    before = chrome.run(widths)
    chrome.resize(360)
    chrome.settle()
    after = chrome.run(widths)
    assert len(after) == len(before)
    assert max(after) <= 360 < max(before)
    assert overflow(chrome) <= 0


def test_dark_scheme_changes_page_and_charts(chrome: Chrome, pages: dict[str, str]) -> None:
    chrome.open(pages["complete"])
    error = "plots.get(document.querySelector('[data-chart=error]'))"
    seen = f"[getComputedStyle(document.body).backgroundColor, {error}.axes[0].stroke()]"
    light = chrome.run(seen)
    chrome.scheme(True)
    chrome.settle()
    dark = chrome.run(seen)
    assert light[0] == "rgb(255, 255, 255)"
    assert all(a != b for a, b in zip(light, dark, strict=True))
    assert chrome.problems == []


def test_keyboard_and_rest_of_the_legend(chrome: Chrome, pages: dict[str, str]) -> None:
    """At rest the legend shows the last values; arrow keys move through the records."""
    chrome.open(pages["complete"])
    legend = "[...document.querySelectorAll('[data-chart=error] .u-legend .u-value')].map(e => e.textContent)"
    assert chrome.run(legend) == ["60", "2.5\u202f%", "15.0\u202f%"]
    chrome.run("document.querySelector('[data-chart=error]').focus()")
    chrome.press("ArrowRight")
    assert chrome.run(legend) == ["5", "8.0\u202f%", "15.0\u202f%"]
    chrome.press("ArrowRight")
    assert chrome.run(legend)[:2] == ["10", "5.0\u202f%"]


def test_logarithmic_histogram(chrome: Chrome, pages: dict[str, str]) -> None:
    chrome.open(pages["complete"])
    chrome.run("document.getElementById('logarithmic').click()")
    chrome.settle()
    assert ink(chrome, "[data-chart=histogram] canvas") > 1000
    assert chrome.problems == []


def test_order_of_classes(chrome: Chrome, pages: dict[str, str]) -> None:
    chrome.open(pages["hundred"])
    assert chrome.run("document.querySelectorAll('#classes tbody tr').length") == 100
    assert chrome.run("document.getElementById('order').value") == "error"
    assert chrome.run("document.querySelector('#classes').parentElement.clientHeight") < 600
    chrome.run("(s => { s.value = 'samples'; s.dispatchEvent(new Event('change')) })(document.getElementById('order'))")
    first = "['classes', 'alignment'].map(id => document.querySelector(`#${id} tbody th`).textContent)"
    assert chrome.run(first) == ["class number 99", "class number 99"]


def test_decision_boundary_is_drawn(chrome: Chrome, pages: dict[str, str]) -> None:
    chrome.open(pages["complete"])
    area = chrome.run("(c => c.width * c.height)(document.querySelector('canvas.boundary'))")
    assert ink(chrome, "canvas.boundary") > 0.9 * area
    assert chrome.run("document.getElementById('boundary-legend').innerText.split(/\\s*\\n\\s*/).join('|')").startswith("upper")


def test_without_scripts_the_figures_are_there(chrome: Chrome, pages: dict[str, str]) -> None:
    chrome.open(pages["complete"], scripts=False)
    nodes = chrome.send("Accessibility.getFullAXTree")["nodes"]
    chrome.send("Emulation.setScriptExecutionDisabled", value=False)
    text = " ".join(str(node.get("name", {}).get("value", "")) for node in nodes)
    for words in ("scripts are switched off", "The unlabelled data helped", "Test error", "Run it again"):
        assert words in text
    assert "One moment of training" not in text  # nothing is shown that needs the script


def test_missing_browser_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTMATCH_CHROMIUM", "no-such-browser")
    with pytest.raises(RuntimeError, match="apt-get install chromium"):
        find_browser()
