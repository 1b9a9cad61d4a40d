"""Look of all figures, the same bytes when drawn again, and lines over training; pyplot and a user's settings are not touched."""

import io
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from softmatch.errors import InputError
from softmatch.experiments.results.collect import Cell, Entry
from softmatch.experiments.sheet import Column
from softmatch.files.atomic import write_atomically
from softmatch.report.run_contents import Record, number

Values = NDArray[np.float64]

WIDTH, DPI = 8.0, 150  # inches and dots per inch: a PNG has 1,200 pixels
TITLE_LETTERS = 92
FEW = 12  # records, up to which each is marked

FIXMATCH, FLEXMATCH, SOFTMATCH = "#0072B2", "#009E73", "#D55E00"
COLOURS = {
    **{"FixMatch": FIXMATCH, "FlexMatch": FLEXMATCH, "SoftMatch": SOFTMATCH, "Threshold": FIXMATCH},
    **{"Truncated Gaussian": SOFTMATCH, "Truncated Laplacian": "#56B4E9", "Gaussian": "#E69F00", "Laplacian": "#332288"},
    **{"Quadratic": "#CC79A7", "Linear": "#8C8C8C", "Labels alone": "#4D4D4D"},
}
"""After Okabe and Ito, whose colours nearly everybody can tell apart; a method and its weighting function have the same."""
OTHERS = ("#56B4E9", "#E69F00", "#332288", "#CC79A7", "#8C8C8C", "#882255", "#999933", "#44AA99", "#4D4D4D")
ALL, WRONG, CLASSES = "#C9D1D9", "#57606A", ("#56B4E9", "#E69F00")  # pseudo-labels; the two classes of a plane
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
    low, high = axes.get_ylim()
    missing = max(0.04 - (high - low), 0.0) / 2
    axes.set(title=title, ylabel=label, xlabel="training step", ylim=(max(low - missing, -0.02), min(high + missing, 1.02)))
    percent(axes.yaxis)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def seeds(counts: Iterable[int]) -> str:
    """'n = 5 seeds', or 'n = 3 to 5 seeds' where some are missing; no line breaks within it."""
    known = sorted(set(counts))
    some = f"{known[0]}" if len(known) == 1 else f"{known[0]} to {known[-1]}"
    return f"n = {some} seed{'' if known == [1] else 's'}".replace(" ", "\N{NO-BREAK SPACE}")


def means(counts: Iterable[int]) -> str:
    """'mean ± sd, n = 5 seeds', or 'n = 1 seed'."""
    known = set(counts)
    return seeds(known) if known == {1} else f"mean ± sd, {seeds(known)}"


def is_softmatch(cell: Cell) -> bool:
    """True if a row is SoftMatch with all of its defaults, whatever its name."""
    return cell.entries[0].run.method == "softmatch" and set(cell.row.settings) <= {"method"}


def place(column: Column, between: str = ", ") -> str:
    """A column in words; a name that is a number counts labels."""
    name = f"{column.name} labels" if re.fullmatch(r"[\d,]+", column.name) else column.name
    return f"{column.group}{between}{name}" if column.group else name


def spread(values: Values) -> tuple[Values, Values]:
    """Mean and standard deviation (n − 1) over the first axis, NaN left out; the deviation of a single value is 0."""
    known = np.ma.masked_invalid(values)
    mean, sd = known.mean(0), known.std(0, ddof=1)
    return mean.filled(np.nan), np.where(known.count(0) == 1, 0.0, sd.filled(np.nan))


def over_steps(runs: Sequence[Entry], get: Callable[[Record], Any]) -> tuple[list[int], Values]:
    """A figure at every step that a run has recorded, (runs, steps); NaN where a run has none."""
    found = [{record["step"]: number(get(record)) for record in run.records} for run in runs]
    steps = sorted({step for own in found for step in own})
    return steps, np.array([[own.get(step) for step in steps] for own in found], dtype=np.float64)


def common_steps(cells: Sequence[Cell]) -> list[int]:
    """Steps at which all runs have a record."""
    each = [{record["step"] for record in run.records} for cell in cells for run in cell.runs]
    return sorted(set.intersection(*each)) if each else []


def draw_series(
    axes: Axes, runs: Sequence[Entry], get: Callable[[Record], Any], colour: str, label: str, *, dashed: bool = False
) -> None:
    """Draw the mean of a figure over seeds, in a band of one standard deviation to each side."""
    steps, values = over_steps(runs, get)
    mean, sd = spread(values)
    if len(runs) > 1:
        axes.fill_between(steps, mean - sd, mean + sd, color=colour, alpha=0.16, linewidth=0)
    marker = "o" if len(steps) <= FEW else None
    axes.plot(steps, mean, color=colour, label=label, linestyle=(0, (3, 1.5)) if dashed else "-", marker=marker)


def labels(cells: Sequence[Cell]) -> list[str]:
    """Names of rows in a legend, with their number of seeds if these differ."""
    counts = {len(cell.runs) for cell in cells}
    return [cell.row.name if len(counts) == 1 else f"{cell.row.name} (n = {len(cell.runs)})" for cell in cells]
