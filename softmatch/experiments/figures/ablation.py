"""The paper's figure 3: ablations of SoftMatch as bars, one panel for each sheet.

What differs: bars are means over seeds with whiskers of a standard deviation and a dot for each seed; the row that is SoftMatch
as it is has SoftMatch's colour in all panels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softmatch.errors import InputError
from softmatch.experiments.figures.reading import is_softmatch, place, spread
from softmatch.experiments.figures.style import (
    INK,
    SOFT,
    colours,
    legend_columns,
    means,
    new_figure,
    panel,
    percent,
    save,
    styled,
)
from softmatch.experiments.sheet import Sheet
from softmatch.experiments.store import Store
from softmatch.report.run_contents import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILLED = 0.84
"""Of the space of a group of bars."""


@dataclass(frozen=True)
class Bars:
    """A panel.

    Attributes:
        rows: names of bars.
        columns: names of groups.
        errors: by row and column, one of each seed; what is missing is left out.
        softmatch: the row that is SoftMatch as it is.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    errors: Mapping[tuple[str, str], Sequence[float]]
    softmatch: str | None = None


def read(sheet: Sheet, store: Store) -> Bars:
    """The test errors of finished runs."""
    errors = {}
    for row, column in sheet.cells():
        results = [store.result(sheet.run(row, column, seed)) or {} for seed in sheet.seeds]
        found = [error for result in results if (error := number(result.get("test_error"))) is not None]
        if found:
            errors[row.name, place(column, "\n")] = found
    return Bars(
        [row.name for row in sheet.rows if any(name == row.name for name, _ in errors)],
        [title for column in sheet.columns if any(group == (title := place(column, "\n")) for _, group in errors)],
        errors,
        next((row.name for row in sheet.rows if is_softmatch(sheet, row)), None),
    )


def figure(panels: Mapping[str, Bars], title: str) -> Figure:
    """Two panels in a row, each with a legend of its own under it."""
    counts = [len(errors) for bars in panels.values() for errors in bars.errors.values()]
    down = -(-len(panels) // 2)
    with styled():
        made = new_figure(0.4 + 3.1 * down, f"{title} · {means(counts)}, each a dot")
        grid: Any = made.subplots(down, 2, squeeze=False).ravel()
        for position, (axes, (heading, bars)) in enumerate(zip(grid, panels.items(), strict=False)):
            axes.set_title(panel(position, heading))
            _draw(axes, bars)
        for axes in grid[len(panels) :]:
            axes.remove()
    return made


def _draw(axes: Axes, bars: Bars) -> None:
    axes.grid(axis="x", visible=False)
    if not bars.errors:
        axes.text(0.5, 0.5, "no finished runs", ha="center", va="center", color=SOFT, transform=axes.transAxes)
        axes.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
        return
    by_name = colours(bars.rows, bars.softmatch if bars.softmatch in bars.rows else None)
    width = FILLED / len(bars.rows)
    for position, row in enumerate(bars.rows):
        known = [(group, bars.errors[row, column]) for group, column in enumerate(bars.columns) if (row, column) in bars.errors]
        centres = [group - FILLED / 2 + (position + 0.5) * width for group, _ in known]
        means, sds = zip(*(spread(np.array(errors)) for _, errors in known), strict=True)
        axes.bar(centres, means, width=0.92 * width, color=by_name[row], label=row, linewidth=0)
        axes.errorbar(centres, means, yerr=sds, fmt="none", ecolor=INK, elinewidth=0.9, capsize=2)
        for centre, (_, errors) in zip(centres, known, strict=True):
            # Side by side in the order of seeds: dots of equal errors can be told apart.
            places = centre + 0.5 * width * (np.arange(1, len(errors) + 1) / (len(errors) + 1) - 0.5)
            axes.scatter(places, errors, s=7, facecolor="white", edgecolor=INK, linewidths=0.6, zorder=3)
    axes.set_xticks(range(len(bars.columns)), bars.columns)
    axes.tick_params(bottom=False)
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel("test error (%)")
    percent(axes.yaxis)
    ncols = legend_columns(bars.rows, letters=42)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=ncols, fontsize=7.5, columnspacing=1.2)


def draw_ablation(sheets: Mapping[str, Sheet], store: Store, folder: Path, title: str = "Ablations of SoftMatch") -> list[Path]:
    """Write fig-ablation.

    Args:
        sheets: by the title of their panel, in the order of the panels.

    Raises:
        InputError: where no run of any of them is finished.
    """
    panels = {heading: read(sheet, store) for heading, sheet in sheets.items()}
    if not any(bars.errors for bars in panels.values()):
        raise InputError(f"fig-ablation: no run is finished in {store.runs}. Run: softmatch reproduce fig-ablation")
    return save(figure(panels, title), folder, "fig-ablation")
