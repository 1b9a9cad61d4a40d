"""How all figures look, and how they are saved: the same colour for a method everywhere, the same bytes on repetition.

matplotlib is an extra: it is imported where it is used. Nothing here touches pyplot or a user's own settings of matplotlib.
"""

from __future__ import annotations

import importlib.util
import io
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmatch.errors import InputError
from softmatch.files.atomic import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 8.0
"""Inches: 1,200 pixels of a PNG."""
DPI = 150
TITLE_LETTERS = 92
"""Of a line over the whole figure."""

FIXMATCH, FLEXMATCH, SOFTMATCH = "#0072B2", "#009E73", "#D55E00"
COLOURS = {
    "FixMatch": FIXMATCH,
    "FlexMatch": FLEXMATCH,
    "SoftMatch": SOFTMATCH,
    "Threshold": FIXMATCH,
    "Truncated Gaussian": SOFTMATCH,
    "Truncated Laplacian": "#56B4E9",
    "Gaussian": "#E69F00",
    "Laplacian": "#332288",
    "Quadratic": "#CC79A7",
    "Linear": "#8C8C8C",
    "Labels alone": "#4D4D4D",
}
"""After Okabe and Ito, whose colours can be told apart by nearly everybody. FixMatch's λ is a threshold, SoftMatch's the
truncated Gaussian."""
OTHERS = ("#56B4E9", "#E69F00", "#332288", "#CC79A7", "#8C8C8C", "#882255", "#999933", "#44AA99", "#4D4D4D")
"""Of names that have no colour of their own, in the order of their appearance."""
ALL, WRONG, CLASSES = "#C9D1D9", "#57606A", ("#56B4E9", "#E69F00")
"""Histograms of all and of wrong pseudo-labels; the two classes of a plane."""
INK, SOFT, GRID = "#1B1F24", "#59636E", "#E6E9ED"

STYLE: dict[Any, Any] = {
    "figure.facecolor": "white",
    "figure.titlesize": 9.5,
    "savefig.facecolor": "white",
    "font.family": "DejaVu Sans",  # which comes with matplotlib
    "font.size": 8.5,
    "text.color": INK,
    "text.parse_math": False,  # a name of a class may have a $
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.labelcolor": INK,
    "axes.edgecolor": SOFT,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "lines.linewidth": 1.6,
    "lines.markersize": 3.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "pdf.fonttype": 42,  # TrueType: conferences refuse matplotlib's default
}


def require_matplotlib() -> None:
    """Raise InputError where it is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError("figures need matplotlib: pip install 'softmatch[plots]'.")


@contextmanager
def styled() -> Iterator[None]:
    """These settings and no others, while a figure is made or saved."""
    require_matplotlib()
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def new_figure(height: float, title: str) -> Figure:
    """An empty figure of so many inches with a title, which is wrapped. Only within `styled`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), dpi=DPI, layout="constrained")
    kept = title.replace(" ·", "\N{NO-BREAK SPACE}·")  # which does not begin a line
    figure.suptitle(textwrap.fill(kept, TITLE_LETTERS), x=0.01, ha="left", fontweight="bold")
    return figure


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write folder/name.png and folder/name.pdf, without a date: the same figure gives the same bytes."""
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


def colours(names: Sequence[str], softmatch: str | None = None) -> dict[str, str]:
    """A colour for each name: its own, or one of the others that no name here has.

    Args:
        softmatch: a name which stands for SoftMatch as it is.
    """
    found = {name: COLOURS[name] for name in names if name in COLOURS}
    if softmatch is not None:
        found[softmatch] = SOFTMATCH
    left = [colour for colour in OTHERS if colour not in found.values()] or list(OTHERS)
    unnamed = [name for name in names if name not in found]
    return found | {name: left[position % len(left)] for position, name in enumerate(unnamed)}


def percent(axis: Any) -> None:
    """Show the fractions of an axis (axes.xaxis, axes.yaxis) as per cent; the label says so."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.6g}"))


def percent_range(axes: Axes, least: float = 0.0) -> None:
    """Per cent on the vertical axis, which shows no more than 0 to 100 and a margin.

    Args:
        least: that it spans, so that noise does not look like a difference.
    """
    low, high = axes.get_ylim()
    missing = max(least - (high - low), 0.0) / 2
    low, high = max(low - missing, -0.02), min(high + missing, 1.02)
    axes.set_ylim(low, high)
    percent(axes.yaxis)


def step_axis(axes: Axes) -> None:
    """Training steps, as whole numbers."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("training step")


def panel(number: int, title: str) -> str:
    """'(a) title' of the first panel."""
    return f"({'abcdefgh'[number]}) {title}"


def seeds(counts: Iterable[int]) -> str:
    """'n = 5 seeds', or 'n = 3 to 5 seeds' where some are missing; no line ends within it."""
    known = sorted(set(counts))
    some = f"{known[0]}" if len(known) == 1 else f"{known[0]} to {known[-1]}"
    return f"n = {some} seed{'' if known == [1] else 's'}".replace(" ", "\N{NO-BREAK SPACE}")


def means(counts: Iterable[int]) -> str:
    """What is shown of so many seeds: their mean and spread, or the only one."""
    known = set(counts)
    return seeds(known) if known == {1} else f"mean ± sd, {seeds(known)}"


def legend_columns(names: Sequence[str], letters: int, most: int = 3) -> int:
    """How many columns of a legend, which are filled one after the other, fit into a line of so many letters."""
    for columns in range(min(most, len(names)), 1, -1):
        down = -(-len(names) // columns)
        if sum(max(map(len, names[first : first + down])) for first in range(0, len(names), down)) <= letters:
            return columns
    return 1
