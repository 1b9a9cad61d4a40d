"""The page in a real browser: it draws, resizes, obeys the slider and the colour scheme, and asks the network for nothing."""

from collections.abc import Iterator
from typing import Any

import pytest

from softmatch.report import write_report
from tests.report.chrome import Chrome, find_browser
from tests.report.example import make_run

HOSTILE = "</script><img src=x onerror=\"window.harmed = true; console.error('harmed')\">" + "long" * 30
NAMES = (HOSTILE, 'it\'s\n"two" lines', "\u202eturned round", "🦊", "<b>&amp;</b>")
CANVASES = "[...document.querySelectorAll('[data-chart] canvas, canvas.boundary')].filter(c => c.checkVisibility())"
OPEN = "document.querySelectorAll('details').forEach(d => { d.open = true })"
FOLDERS: dict[str, dict[str, Any]] = {
    "complete": {},
    "fixmatch": {"method": "fixmatch", "truth": False},
    "supervised": {"method": "supervised"},
    "alone": {"twin": False, "finished": False},
    "short": {"steps": 5, "twin": False},
    "hostile": {"classes": (HOSTILE, "b"), "settings": {"source": HOSTILE}},
    "crossfit": {"evaluation": "crossfit"},
    "none": {"evaluation": "none", "truth": False, "twin": False},
    "own-hostile": {"evaluation": "holdout", "classes": NAMES, "result": {"warnings": [HOSTILE]}},
    "many": {"evaluation": "test", "classes": tuple(f"class number {c}" for c in range(150)), "boundary": False},
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
    return int(chrome.run("document.documentElement.scrollWidth - innerWidth"))


def ink(chrome: Chrome, selector: str) -> int:
    """How many pixels of a canvas are drawn."""
    data = "[...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]"
    return int(chrome.run(f"(c => {data}.filter((v, i) => i % 4 === 3 && v > 0).length)(document.querySelector({selector!r}))"))


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
    chrome.open(pages["own-hostile"])
    assert chrome.run("window.harmed === undefined && document.images.length === 0 && !document.querySelector('main b')")
    assert chrome.run("document.querySelector('.warnings li').textContent") == HOSTILE
    for table in ("classes", "results"):
        found = chrome.run(f"[...document.querySelectorAll('#{table} tbody th')].map(h => [h.textContent, h.title])")
        assert sorted(found) == sorted([name, name] for name in NAMES)


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


def test_many_classes_are_drawn_in_part_until_asked_for(chrome: Chrome, pages: dict[str, str]) -> None:
    chrome.open(pages["many"])
    rows = "['classes', 'alignment'].map(id => document.querySelectorAll(`#${id} tbody tr`).length)"
    assert chrome.run(rows) == [100, 100]
    assert chrome.run("document.getElementById('all-classes').innerText") == "Show all 150 classes"
    chrome.run("document.getElementById('all-classes').click()")
    assert chrome.run(rows) == [150, 150]
    assert chrome.run("document.getElementById('all-classes').hidden")
    assert chrome.problems == []


def test_results_of_each_class_are_sorted_and_searched(chrome: Chrome, pages: dict[str, str]) -> None:
    chrome.open(pages["many"])
    shown = "[...document.querySelectorAll('#results tbody tr')].filter(r => r.checkVisibility())"
    column = f"(c => {shown}.map(r => r.cells[c].textContent))"
    assert chrome.run(f"{shown}.length") == 150
    assert chrome.run("document.querySelector('#results').parentElement.clientHeight") < 600
    errors = [float(text.split("\u202f")[0]) for text in chrome.run(f"{column}(3)")]
    assert errors[0] == 95
    assert errors == sorted(errors, reverse=True)

    chrome.run("document.querySelectorAll('#results thead button')[0].click()")
    assert chrome.run(f"{column}(0)")[:3] == ["class number 0", "class number 1", "class number 2"]
    chrome.run("document.querySelectorAll('#results thead button')[5].click()")  # precision, of some classes not known
    assert chrome.run(f"{column}(5)")[-1] == "–"
    assert chrome.run("[...document.querySelectorAll('#results thead th')].map(h => h.getAttribute('aria-sort'))") == [
        *[None] * 5,
        "descending",
        None,
    ]
    chrome.run("document.querySelectorAll('#results thead button')[5].click()")
    precisions = chrome.run(f"{column}(5)")
    assert (precisions[0], precisions[-1]) == ("24.0\u202f%", "–")

    chrome.run("(s => { s.value = 'NUMBER 14'; s.dispatchEvent(new Event('input')) })(document.getElementById('searched'))")
    assert sorted(chrome.run(f"{column}(0)")) == sorted(f"class number {c}" for c in (14, *range(140, 150)))
    assert chrome.run("document.getElementById('found').textContent") == "11 of 150 classes"
    assert chrome.problems == []


@pytest.mark.parametrize("dark", [False, True])
def test_reliability_diagrams_are_drawn(chrome: Chrome, pages: dict[str, str], dark: bool) -> None:
    """Two pictures; each bar reaches as high as its bin is right, and can be told from the page."""
    chrome.open(pages["crossfit"], dark=dark)
    pictures = "[...document.querySelectorAll('svg.reliability')]"
    assert chrome.run(f"{pictures}.map(s => s.getBoundingClientRect()).every(b => b.width > 300 && b.height > 300)")
    heights = chrome.run(f"{pictures}.map(s => [...s.querySelectorAll('.right')].map(r => r.getBBox().height))")
    shares = chrome.run(
        "[...document.querySelectorAll('#calibration details')].map(d => [...d.querySelectorAll('tbody tr')]"
        ".map(r => parseFloat(r.cells[3].textContent)))"
    )
    assert len(heights) == 2
    for drawn, said in zip(heights, shares, strict=True):
        assert len(drawn) > 5
        assert drawn == pytest.approx([240 * share / 100 for share in said], abs=0.2)
    colors = chrome.run(
        "['.right', '.gap', '.strip'].map(c => getComputedStyle(document.querySelector('.reliability ' + c)).fill)"
    )
    page = chrome.run("getComputedStyle(document.body).backgroundColor")
    assert len({*colors, page}) == 4


def test_page_of_an_unmeasured_run(chrome: Chrome, pages: dict[str, str]) -> None:
    chrome.open(pages["none"])
    assert chrome.run("document.querySelector('.verdict').classList.contains('unmeasured')")
    assert chrome.run("document.querySelector('.warnings').getBoundingClientRect().top") < 500
    heads = chrome.run("[...document.querySelectorAll('#classes thead th')].map(h => h.textContent)")
    assert heads == ["Class", "Samples", "Quantity f", "Quality g"]
    assert chrome.run("[...document.getElementById('order').options].map(o => o.value)") == ["class", "quality", "samples"]
    assert chrome.run("document.querySelectorAll('[data-chart=error], #calibration').length") == 0


def test_decision_boundary_is_drawn(chrome: Chrome, pages: dict[str, str]) -> None:
    chrome.open(pages["complete"])
    area = chrome.run("(c => c.width * c.height)(document.querySelector('canvas.boundary'))")
    assert ink(chrome, "canvas.boundary") > 0.9 * area
    assert chrome.run("document.getElementById('boundary-legend').innerText.split(/\\s*\\n\\s*/).join('|')").startswith("upper")


@pytest.mark.parametrize(
    ("name", "there", "absent"),  # nothing is shown that needs the script
    [
        ("complete", ["scripts are disabled", "unlabelled data helped", "Test error", "Run it again"], "One moment of training"),
        ("many", ["class number 149", "Reliability diagram: Before temperature", "How this was measured."], "Search for a class"),
    ],
)
def test_without_scripts_the_figures_are_there(
    chrome: Chrome, pages: dict[str, str], name: str, there: list[str], absent: str
) -> None:
    chrome.open(pages[name], scripts=False)
    nodes = chrome.send("Accessibility.getFullAXTree")["nodes"]
    chrome.send("Emulation.setScriptExecutionDisabled", value=False)
    text = " ".join(str(node.get("name", {}).get("value", "")) for node in nodes)
    assert [words for words in there if words not in text] == []
    assert absent not in text


def test_missing_browser_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTMATCH_CHROMIUM", "no-such-browser")
    with pytest.raises(RuntimeError, match="apt-get install chromium"):
        find_browser()
