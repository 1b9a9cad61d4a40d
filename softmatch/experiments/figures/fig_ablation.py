"""Figure 3 of the paper: ablations of SoftMatch as bars of mean errors with a dot for each seed, one panel for each sheet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from softmatch.experiments.figures.style import INK, SOFT, colours, is_softmatch, means, new_figure, percent, place, styled
from softmatch.experiments.results.collect import Results

FILLED = 0.84  # share of the space of a group that bars fill


def figure(sheets: Sequence[Results], title: str = "Ablations of SoftMatch") -> Figure | None:
    """Two panels in a row, each with a legend of its own; None where no run is finished."""
    counts = [cell.n for results in sheets for cell in results.cells.values() if cell.n]
    if not counts:
        return None
    down = -(-len(sheets) // 2)
    with styled():
        made = new_figure(0.4 + 3.1 * down, f"{title} · {means(counts)}, each a dot")
        grid: Any = made.subplots(down, 2, squeeze=False).ravel()
        for letter, axes, results in zip("abcdefgh", grid, sheets, strict=False):
            axes.set_title(f"({letter}) {results.sheet.title}")
            _draw(axes, results)
        for axes in grid[len(sheets) :]:
            axes.remove()
    return made


def _draw(axes: Axes, results: Results) -> None:
    """Groups of bars, one for each column; what has no finished run is left out."""
    cells = [cell for cell in results.cells.values() if cell.n]
    axes.grid(axis="x", visible=False)
    if not cells:
        axes.text(0.5, 0.5, "no finished runs", ha="center", va="center", color=SOFT, transform=axes.transAxes)
        axes.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
        return
    rows = list(dict.fromkeys(cell.row.name for cell in cells))
    columns = [column for column in results.sheet.columns if any(cell.column is column for cell in cells)]
    by_name = colours(rows, next((cell.row.name for cell in cells if is_softmatch(cell)), None))
    width = FILLED / len(rows)
    for position, row in enumerate(rows):
        own = [cell for cell in cells if cell.row.name == row]
        centres = [columns.index(cell.column) - FILLED / 2 + (position + 0.5) * width for cell in own]
        heights = [cell.mean or 0.0 for cell in own]
        axes.bar(centres, heights, width=0.92 * width, color=by_name[row], label=row, linewidth=0)
        axes.errorbar(centres, heights, [cell.sd or 0.0 for cell in own], fmt="none", ecolor=INK, elinewidth=0.9, capsize=2)
        for centre, cell in zip(centres, own, strict=True):
            # side by side in the order of seeds, so that dots of equal errors can be told apart
            places = centre + 0.5 * width * (np.arange(1, cell.n + 1) / (cell.n + 1) - 0.5)
            axes.scatter(places, list(cell.values.values()), s=7, facecolor="white", edgecolor=INK, linewidths=0.6, zorder=3)
    axes.set_xticks(range(len(columns)), [place(column, "\n") for column in columns])
    axes.tick_params(bottom=False)
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel("test error (%)")
    percent(axes.yaxis)
    ncols = 3 if sum(sorted(map(len, rows))[-3:]) <= 48 else 2
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=ncols, fontsize=7.5, columnspacing=1.2)
