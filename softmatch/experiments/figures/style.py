"""Look of all figures: the same colour for a method everywhere, the same bytes when a figure is drawn again.

Nothing here touches pyplot or a user's own settings of matplotlib.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from softmatch.errors import InputError
from softmatch.training.checked_files import write_atomically

WIDTH, DPI = 8.0, 150
"""Inches and dots per inch: a PNG has 1,200 pixels."""
TITLE_LETTERS = 92

FIXMATCH, FLEXMATCH, SOFTMATCH = "#0072B2", "#009E73", "#D55E00"
COLOURS = {
    **{"FixMatch": FIXMATCH, "FlexMatch": FLEXMATCH, "SoftMatch": SOFTMATCH, "Threshold": FIXMATCH},
    **{"Truncated Gaussian": SOFTMATCH, "Truncated Laplacian": "#56B4E9", "Gaussian": "#E69F00", "Laplacian": "#332288"},
    **{"Quadratic": "#CC79A7", "Linear": "#8C8C8C", "Labels alone": "#4D4D4D"},
}
"""After Okabe and Ito, whose colours nearly everybody can tell apart. FixMatch's λ is a threshold, SoftMatch's the truncated
Gaussian."""
OTHERS = ("#56B4E9", "#E69F00", "#332288", "#CC79A7", "#8C8C8C", "#882255", "#999933", "#44AA99", "#4D4D4D")
"""Colours of other names, in the order of their appearance."""
ALL, WRONG, CLASSES = "#C9D1D9", "#57606A", ("#56B4E9", "#E69F00")
"""Histograms of all and of wrong pseudo-labels; the two classes of a plane."""
INK, SOFT = "#1B1F24", "#59636E"


def styled() -> AbstractContextManager[None]:
    """Only our settings, while a figure is made or saved."""
    found: AbstractContextManager[None] = style.context(Path(__file__).with_name("figures.mplstyle"), after_reset=True)
    return found


def new_figure(height: float, title: str) -> Figure:
    """An empty figure with a height in inches and a wrapped title, to be made within `styled`."""
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, layout="constrained")
    kept = title.replace(" ·", "\N{NO-BREAK SPACE}·")  # which does not begin a line
    figure.suptitle(textwrap.fill(kept, TITLE_LETTERS), x=0.01, ha="left", fontweight="bold")
    return figure


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write folder/name.png and folder/name.pdf without a date, so that the same figure gives the same bytes."""
    metadata: dict[str, dict[str, Any]] = {"png": {"Software": None}, "pdf": {"CreationDate": None}}
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for kind, about in metadata.items():
            content = io.BytesIO()
            with styled():
                figure.savefig(content, format=kind, dpi=DPI, metadata=about)
            written.append(folder / f"{name}.{kind}")
            write_atomically(written[-1], content.getvalue())
    except OSError as error:
        raise InputError(f"the figure {name} cannot be written to {folder}: {error.strerror or error}.") from error
    return written


def colours(names: Iterable[str], softmatch: str | None = None) -> dict[str, str]:
    """A colour for each name: its own, or one that no name here has. `softmatch` is a row that is SoftMatch with its defaults."""
    found = {name: COLOURS.get(name, "") for name in names}
    if softmatch is not None:
        found[softmatch] = SOFTMATCH
    left = [colour for colour in OTHERS if colour not in found.values()] or list(OTHERS)
    unnamed = [name for name, colour in found.items() if not colour]
    return found | {name: left[position % len(left)] for position, name in enumerate(unnamed)}


def percent(axis: Any) -> None:
    """Show the fractions of an axis (axes.xaxis, axes.yaxis) in per cent; its label says so."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.6g}"))


def over_training(axes: Axes, title: str, label: str) -> None:
    """Panel of shares over training steps. It spans 4 points or more, so that noise does not look like a difference."""
    axes.set_title(title)
    axes.set_ylabel(label)
    low, high = axes.get_ylim()
    missing = max(0.04 - (high - low), 0.0) / 2
    axes.set_ylim(max(low - missing, -0.02), min(high + missing, 1.02))
    percent(axes.yaxis)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("training step")


def seeds(counts: Iterable[int]) -> str:
    """'n = 5 seeds', or 'n = 3 to 5 seeds' where some are missing; no line breaks within it."""
    known = sorted(set(counts))
    some = f"{known[0]}" if len(known) == 1 else f"{known[0]} to {known[-1]}"
    return f"n = {some} seed{'' if known == [1] else 's'}".replace(" ", "\N{NO-BREAK SPACE}")


def means(counts: Iterable[int]) -> str:
    """'mean ± sd, n = 5 seeds', or 'n = 1 seed'."""
    known = set(counts)
    return seeds(known) if known == {1} else f"mean ± sd, {seeds(known)}"


def legend_columns(names: Sequence[str], letters: int, most: int = 3) -> int:
    """Number of columns of a legend, filled one after the other, that fit into a line of so many letters."""
    for columns in range(min(most, len(names)), 1, -1):
        down = -(-len(names) // columns)
        if sum(max(map(len, names[first : first + down])) for first in range(0, len(names), down)) <= letters:
            return columns
    return 1
