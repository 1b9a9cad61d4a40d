"""Figure 2 of the paper: error, quantity and quality of pseudo-labels over training, and the quality of two classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from softmatch.experiments.figures.style import INK, colours, draw_series, labels, means, new_figure, over_training, styled
from softmatch.experiments.results.collect import Cell
from softmatch.experiments.results.run_files import Record, known, numbers


def best(record: Record) -> float | None:
    """Highest quality of a class; the best class is chosen anew for every record and seed."""
    return max(known(numbers(record, "classes", "quality")), default=None)


def worst(record: Record) -> float | None:
    """Lowest quality of a class."""
    return min(known(numbers(record, "classes", "quality")), default=None)


PANELS: Sequence[tuple[str, str, Callable[[Record], Any]]] = (
    ("(a) Evaluation error", "error (%)", lambda record: record.get("test_error")),
    ("(b) Quantity of pseudo-labels", "quantity f (%)", lambda record: record.get("quantity")),
    ("(c) Quality of pseudo-labels", "quality g (%)", lambda record: record.get("quality")),
    ("(d) Quality of the best and the worst class", "quality g (%)", best),
)


def figure(cells: Sequence[Cell], title: str) -> Figure:
    """Four panels; one colour for each method."""
    by_name = colours(cell.row.name for cell in cells)
    with styled():
        made = new_figure(5.4, f"{title} · {means(len(cell.runs) for cell in cells)}")
        every = made.subplots(2, 2).ravel()
        for cell, label in zip(cells, labels(cells), strict=True):
            for axes, (_, _, get) in zip(every, PANELS, strict=True):
                draw_series(axes, cell.runs, get, by_name[cell.row.name], label)
            draw_series(every[3], cell.runs, worst, by_name[cell.row.name], label, dashed=True)
        for axes, (heading, unit, _) in zip(every, PANELS, strict=True):
            over_training(axes, heading, unit)
        handles, names = every[0].get_legend_handles_labels()
        handles += [Line2D([], [], color=INK), Line2D([], [], color=INK, linestyle=(0, (3, 1.5)))]
        made.legend(handles, [*names, "best class", "worst class"], loc="outside lower center", ncols=len(handles))
    return made
