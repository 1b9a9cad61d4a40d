"""The page of a sheet: its table, the curves of its rows over each other, its runs; one HTML file that needs no other."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from softmatch.errors import InputError
from softmatch.experiments.collecting import Cell, Entry
from softmatch.experiments.curves import curves
from softmatch.experiments.layout import Layout, figure, interval, plain, probability, signed
from softmatch.experiments.tables import last_words, link
from softmatch.formatting import duration
from softmatch.report.pages import Page, percent

HERE = Path(__file__).parent
PAGE = Page(HERE / "page.html", [HERE / "page.js"], [HERE / "page.css"])
COLORS = 7
DASHES = ("", "8 4", "2 3", "10 3 2 3")
"""Of lines, in SVG's notation: rows beyond the colours get the next one."""
SHOWN = 4
"""Charts that are not folded."""
FOLD = 10
"""Charts in a fold."""
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
    drawn = curves(layout.results)
    charts = [{"place": place, "title": column["title"]} for place, column in enumerate(drawn["columns"]) if column["cells"]]
    return PAGE.render(
        {**drawn, "dashes": [[int(length) for length in dash.split()] for dash in DASHES], "colors": COLORS},
        layout=layout,
        subtitle=_subtitle(layout),
        lines=[(line, _tips(layout, place)) for place, line in enumerate(layout.lines)],
        groups=[(name, len(list(places))) for name, places in groupby(column.group for column in layout.columns)],
        failures=[_failure(layout, place, folder) for place in range(len(layout.failures))],
        legend=_legend(layout),
        charts=charts[:SHOWN],
        folds=_folds(layout, charts[SHOWN:]),
        tests=_tests(layout),
        pictures=[{"title": plain(path.stem.replace("-", " ").replace("_", " ")), "data": _picture(path)} for path in figures],
        runs=[_run(layout, cell, entry, folder) for cell, entry in layout.results.entries()],
        commands=[plain(command) for command in commands],
        example=next((entry.run.name for _, entry in layout.results.entries()), None),
    )


def _subtitle(layout: Layout) -> list[str]:
    finished, total = layout.results.progress
    counted = [(len(layout.lines), "row", "rows"), (len(layout.columns), "column", "columns")]
    counted.append((len(layout.results.sheet.seeds), "seed", "seeds"))
    return [*(f"{n:,} {one if n == 1 else many}" for n, one, many in counted), f"{finished:,} of {total:,} runs finished"]


def _tips(layout: Layout, place: int) -> list[str]:
    """For each cell of a row its values, seed by seed."""
    row, measure = layout.results.sheet.rows[place], layout.results.measure
    cells = [layout.results.cell(row.name, column.title) for column in layout.results.sheet.columns]
    return [
        "" if cell is None else ", ".join(f"seed {s}: {figure(v, measure)}" for s, v in cell.values.items()) for cell in cells
    ]


def _legend(layout: Layout) -> list[dict[str, Any]]:
    return [
        {"name": line.name, "color": place % COLORS, "dash": DASHES[place // COLORS % len(DASHES)]}
        for place, line in enumerate(layout.lines)
    ]


def _folds(layout: Layout, charts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Charts beyond the first few: by their group, and not too many that are drawn at once."""
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
    measure, found = layout.results.measure, []
    for column, place in zip(layout.columns, layout.results.sheet.columns, strict=True):
        ranking = layout.rankings[place.title]
        for row, test in ranking.tests.items():
            cells = [
                *(column.title, plain(ranking.best[0]), plain(row), signed(test.difference.mean, measure)),
                *(interval(test.difference, measure), probability(test.difference.p), probability(test.p)),
                str(test.difference.n),
            ]
            found.append({"cells": [cell or "–" for cell in cells], "clear": test.distinguishable})
    return found


def _failure(layout: Layout, place: int, folder: Path) -> dict[str, Any]:
    failure = layout.failures[place]
    entry = failure.entry
    return {
        "where": f"{failure.row}, {failure.column}, seed {entry.seed}",
        "attempts": entry.attempts,
        "state": STATES[entry.state],
        "message": last_words(entry.message.strip(), LONGEST_MESSAGE),
        "log": link(entry.log, folder) if entry.log.is_file() else None,
    }


def _run(layout: Layout, cell: Cell, entry: Entry, folder: Path) -> dict[str, Any]:
    shares = [entry.figure(name) for name in ("test_error", "quantity", "quality")]
    return {
        "names": [plain(cell.row.name), plain(cell.column.title)],
        "seed": entry.seed,
        "cells": [
            *("–" if share is None else percent(share) for share in shares),
            duration(entry.seconds) if entry.seconds else "–",
        ],
        "state": STATES[entry.state],
        "report": link(entry.folder / "report.html", folder) if entry.files is not None else None,
    }


def _picture(path: Path) -> str:
    """A PNG file as an address."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"the figure {path} cannot be read: {error.strerror or error}.") from error
    if not content.startswith(PNG):
        raise InputError(f"the figure {path} is not a PNG file: only such can be shown on the page.")
    return "data:image/png;base64," + base64.b64encode(content).decode()
