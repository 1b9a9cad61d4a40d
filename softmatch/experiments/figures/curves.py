"""Figures over training, drawn: the mean over seeds, in a band of a standard deviation to each side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from softmatch.experiments.figures.reading import Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 12
"""Up to so many records each is marked."""


def draw_series(axes: Axes, series: Series, colour: str, label: str, *, dashed: bool = False) -> None:
    """One line, and its band where there are several seeds."""
    if series.n > 1:
        low, high = series.mean - series.sd, series.mean + series.sd
        axes.fill_between(series.steps, low, high, color=colour, alpha=0.16, linewidth=0)
    marker = "o" if len(series.steps) <= FEW else None
    style = (0, (3, 1.5)) if dashed else "-"
    axes.plot(series.steps, series.mean, color=colour, label=label, linestyle=style, marker=marker)


def named(name: str, n: int, counts: set[int]) -> str:
    """A row in a legend, with its number of seeds where others have another."""
    return name if len(counts) == 1 else f"{name} (n = {n})"
