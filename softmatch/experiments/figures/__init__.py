"""Figures of the paper, drawn from finished runs, by the names that `softmatch reproduce` gives them.

The package imports matplotlib, an extra: import it only to draw.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from softmatch.errors import InputError
from softmatch.experiments.figures.curves_and_bars import draw_ablation, draw_functions, draw_qualitative, draw_ua
from softmatch.experiments.figures.histograms import draw_confidence, draw_two_moons
from softmatch.experiments.figures.style import place, save
from softmatch.experiments.results.collect import Cell, collect
from softmatch.experiments.sheet import Sheet
from softmatch.experiments.store import Store

FIGURES: Mapping[str, Callable[[Sequence[Cell], str], Figure | None]] = {
    "fig-two-moons": draw_two_moons,
    "fig-qualitative": draw_qualitative,
    "fig-confidence": draw_confidence,
    "fig-ua": draw_ua,
}
"""Figures of one sheet, drawn from the cells of a column that have finished runs, with a title."""


def draw(name: str, sheets: Sequence[Sheet], store: Store, folder: Path) -> list[Path]:
    """Write a figure of the paper as PNG and PDF; for a sheet of several columns, one for each that has finished runs."""
    results = [collect(sheet, store) for sheet in sheets]
    made: dict[str, Figure | None] = {}
    if name == "fig-functions":
        made[name] = draw_functions()
    elif name == "fig-ablation":
        made[name] = draw_ablation(results)
    else:
        for column in sheets[0].columns:
            cells = [cell for cell in results[0].column(column.title) if cell.runs]
            slug = re.sub(r"[^\w.]+", "-", column.title.replace(",", " ")).strip("-").lower()
            called = name if len(sheets[0].columns) == 1 else f"{name}-{slug}"
            made[called] = FIGURES[name](cells, f"{sheets[0].title} · {place(column)}") if cells else None
    written = [path for called, figure in made.items() if figure is not None for path in save(figure, folder, called)]
    if not written:
        raise InputError(f"{name}: no finished run in {store.runs} has what it shows. Run: softmatch reproduce {name}")
    return written
