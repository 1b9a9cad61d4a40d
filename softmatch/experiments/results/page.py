"""Page of a sheet: its table, the curves of its rows, its runs, in one HTML file that needs no other."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from softmatch.errors import InputError
from softmatch.experiments.results.curves import curves
from softmatch.experiments.results.layout import Layout, figure, in_words, last_words, plain, probability
from softmatch.experiments.results.markdown import link
from softmatch.report.pages import Page
from softmatch.units import duration

HERE = Path(__file__).parent
PAGE = Page(HERE / "page.html", [HERE / "page.js"], [HERE / "page.css"])
COLORS = 7
DASHES = ("", "8 4", "2 3", "10 3 2 3")
"""Line styles in SVG's notation: rows beyond the colours get the next one."""
SHOWN, FOLD = 4, 10
"""Charts that are not folded, and charts in a fold."""
LONGEST_MESSAGE = 2000
PNG = b"\x89PNG\r\n\x1a\n"
STATES = {
    "finished": "finished",
    "unmeasured": "finished, without this figure",
    "unreadable": "its result cannot be read",
    "failed": "failed",
    "unfinished": "not finished",
    "missing": "not begun",
}


def page(layout: Layout, figures: Sequence[Path], commands: Sequence[str], folder: Path) -> str:
    """The page as text, for a file in `folder`."""
    drawn, results = curves(layout.results), layout.results
    charts = [{"place": place, "title": column["title"]} for place, column in enumerate(drawn["columns"]) if column["cells"]]
    entries = list(results.entries())
    return PAGE.render(
        {**drawn, "dashes": [[int(length) for length in dash.split()] for dash in DASHES], "colors": COLORS},
        layout=layout,
        counted=((len(layout.lines), "row"), (len(layout.columns), "column"), (len(results.sheet.seeds), "seed")),
        groups=[(name, len(list(places))) for name, places in groupby(column.group for column in layout.columns)],
        rows=[(line.name, place % COLORS, DASHES[place // COLORS % len(DASHES)]) for place, line in enumerate(layout.lines)],
        charts=charts[:SHOWN],
        folds=_folds(layout, charts[SHOWN:]),
        tests=_tests(layout),
        pictures=[{"title": plain(path.stem.replace("-", " ").replace("_", " ")), "data": _picture(path)} for path in figures],
        entries=entries,
        commands=[plain(command) for command in commands],
        example=entries[0][1].run.name if entries else None,
        states=STATES,
        plain=plain,
        duration=duration,
        number=partial(figure, measure=results.measure),
        link=partial(link, folder=folder),
        ending=partial(last_words, most=LONGEST_MESSAGE),
    )


def _folds(layout: Layout, charts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Charts beyond the first few, by group, and not too many that are drawn at once."""
    folds, sizes = [], Counter(column.group for column in layout.columns)
    for group, found in groupby(charts, key=lambda chart: layout.columns[chart["place"]].group):
        members = list(found)
        for start in range(0, len(members), FOLD):
            part = members[start : start + FOLD]
            title = part[0]["title"] if len(part) == 1 else f"{part[0]['title']} to {part[-1]['title']}"
            folds.append({"title": group if group and len(part) == sizes[group] else title, "charts": part})
    return folds


def _tests(layout: Layout) -> list[dict[str, Any]]:
    """Each row against the best of its column, in numbers."""
    found = []
    for column in layout.results.sheet.columns:
        ranking = layout.rankings[column.title]
        for row, test in ranking.tests.items():
            names = [plain(text) for text in (column.title, ranking.best[0], row)]
            figures = [*in_words(test, layout.results.measure), probability(test.p), probability(test.corrected), str(test.n)]
            found.append({"cells": names + figures, "clear": test.distinguishable})
    return found


def _picture(path: Path) -> str:
    """A PNG file as an address."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"the figure {path} cannot be read: {error.strerror or error}.") from error
    if not content.startswith(PNG):
        raise InputError(f"the figure {path} is not a PNG file; the page can show no other.")
    return "data:image/png;base64," + base64.b64encode(content).decode()
