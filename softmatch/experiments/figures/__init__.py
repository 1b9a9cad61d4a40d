"""The paper's figures, drawn from run folders: each module reads what it draws as plain data, and makes a figure of it.

    draw("fig-qualitative", sheet, store, folder)

A run that is missing or unfinished is left out, and a figure says of how many seeds it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmatch.errors import InputError, nearest
from softmatch.experiments.figures import alignment, confidence, qualitative, two_moons
from softmatch.experiments.figures.ablation import draw_ablation
from softmatch.experiments.figures.alignment import ua_balance
from softmatch.experiments.figures.functions import draw_functions
from softmatch.experiments.figures.reading import place
from softmatch.experiments.figures.style import save
from softmatch.experiments.sheet import Column, Sheet
from softmatch.experiments.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "draw", "draw_ablation", "draw_functions", "save", "ua_balance"]

FIGURES: Mapping[str, tuple[Callable[[Sheet, Store, Column], Any], Callable[[Any, str], Figure]]] = {
    "fig-two-moons": (two_moons.read, two_moons.figure),
    "fig-qualitative": (qualitative.read, qualitative.figure),
    "fig-confidence": (confidence.read, confidence.figure),
    "fig-ua": (alignment.read, alignment.figure),
}
"""Figures of one sheet: what reads a column of it, and what draws that."""


def draw(name: str, sheet: Sheet, store: Store, folder: Path) -> list[Path]:
    """Write a figure as PNG and PDF; of a sheet of several columns, a figure for each that has finished runs.

    Args:
        name: one of FIGURES; it names the files, with the column where there are several.

    Raises:
        InputError: where no finished run has anything to draw.
    """
    if name not in FIGURES:
        raise InputError(f"there is no figure {name!r} of one sheet. {nearest(name, FIGURES)}")
    read, figure = FIGURES[name]
    written = []
    for column in sheet.columns:
        if found := read(sheet, store, column):
            called = name if len(sheet.columns) == 1 else f"{name}-{_slug(column.title)}"
            written += save(figure(found, f"{sheet.title} · {place(column)}"), folder, called)
    if not written:
        raise InputError(
            f"{name}: no finished run of {sheet.name} in {store.runs} has what it shows. Run: softmatch reproduce {name}"
        )
    return written


def _slug(title: str) -> str:
    return re.sub(r"[^\w.]+", "-", title.replace(",", " ")).strip("-").lower()
