"""Figures 2, 3, 4 and 6 of the paper, of lines and bars: training, ablations, weighting functions and weights of classes."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from softmatch import weightings as w
from softmatch.errors import InputError
from softmatch.experiments.figures import style
from softmatch.experiments.results.collect import Cell, Results, known, numbers
from softmatch.report.run_contents import Record


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


def draw_qualitative(cells: Sequence[Cell], title: str) -> Figure:
    """Four panels; one colour for each method."""
    by_name = style.colours(cell.row.name for cell in cells)
    with style.styled():
        made = style.new_figure(5.4, f"{title} · {style.means(len(cell.runs) for cell in cells)}")
        every = made.subplots(2, 2).ravel()
        for cell, label in zip(cells, style.labels(cells), strict=True):
            for axes, (_, _, get) in zip(every, PANELS, strict=True):
                style.draw_series(axes, cell.runs, get, by_name[cell.row.name], label)
            style.draw_series(every[3], cell.runs, worst, by_name[cell.row.name], label, dashed=True)
        for axes, (heading, unit, _) in zip(every, PANELS, strict=True):
            style.over_training(axes, heading, unit)
        handles, names = every[0].get_legend_handles_labels()
        handles += [Line2D([], [], color=style.INK), Line2D([], [], color=style.INK, linestyle=(0, (3, 1.5)))]
        made.legend(handles, [*names, "best class", "worst class"], loc="outside lower center", ncols=len(handles))
    return made


CLASSES, POINTS = 10, 901  # the confidence starts at 1/10
MEAN, STD = 0.8, 0.2  # μ and σ of the truncated functions, which follow the confidence: values from the middle of training


def functions() -> dict[str, tuple[w.Weighting, str]]:
    """The weighting functions of the paper and their parameters in words, by name."""
    laplacian, gaussian, threshold = w.Laplacian(), w.Gaussian(), w.Threshold()
    truncated = w.TruncatedLaplacian(CLASSES)
    truncated.mean.value.fill_(MEAN)
    truncated.spread.value.fill_(STD / math.sqrt(2.0))  # b of the same variance
    learned = w.TruncatedGaussian(CLASSES, estimation="fixed", mean=MEAN, variance=STD**2)
    scale = float(truncated.scale())
    return {
        "Linear": (w.Linear(), ""),
        "Quadratic": (w.Quadratic(), ""),
        "Laplacian": (laplacian, f" (μ = {laplacian.mean:g}, b = {laplacian.scale:g})"),
        "Gaussian": (gaussian, f" (μ = {gaussian.mean:g}, σ = {gaussian.std:g})"),
        "Truncated Laplacian": (truncated, f" (μ = {MEAN:g}, b = {scale:.2g}, {truncated.k:g} times narrower)"),
        "Truncated Gaussian": (learned, f" (μ = {MEAN:g}, σ = {STD:g}, {learned.k:g} times narrower)"),
        "Threshold": (threshold, f" (FixMatch, τ = {threshold.threshold:g})"),
    }


def draw_functions() -> Figure:
    """One line for each function; the legend has the parameters."""
    shown = functions()
    by_name = style.colours(shown)
    with style.styled():
        made = style.new_figure(3.6, "Sample weighting functions, ten classes")
        axes = made.subplots()
        for name, (weighting, parameters) in shown.items():
            confidence, weight = (values.double().numpy() for values in w.weight_curve(weighting, CLASSES, POINTS))
            dashes = (0, (4, 2)) if name == "Threshold" else "-"
            axes.plot(confidence, weight, color=by_name[name], label=name + parameters, linestyle=dashes)
        axes.set(xlabel="confidence max p (%)", ylabel="weight λ(p)", xlim=(0.0, 1.005), yticks=np.linspace(0.0, 1.0, 6))
        style.percent(axes.xaxis)
        made.legend(loc="outside right center")
    return made


FILLED = 0.84  # share of the space of a group that bars fill


def draw_ablation(sheets: Sequence[Results], title: str = "Ablations of SoftMatch") -> Figure | None:
    """Two panels in a row, each with a legend of its own; None where no run is finished."""
    counts = [cell.n for results in sheets for cell in results.cells.values() if cell.n]
    if not counts:
        return None
    down = -(-len(sheets) // 2)
    with style.styled():
        made = style.new_figure(0.4 + 3.1 * down, f"{title} · {style.means(counts)}, each a dot")
        grid: Any = made.subplots(down, 2, squeeze=False).ravel()
        for letter, axes, results in zip("abcdefgh", grid, sheets, strict=False):
            axes.set_title(f"({letter}) {results.sheet.title}")
            _draw_groups(axes, results)
        for axes in grid[len(sheets) :]:
            axes.remove()
    return made


def _draw_groups(axes: Axes, results: Results) -> None:
    """Groups of bars, one for each column; what has no finished run is left out."""
    cells = [cell for cell in results.cells.values() if cell.n]
    axes.grid(axis="x", visible=False)
    if not cells:
        axes.text(0.5, 0.5, "no finished runs", ha="center", va="center", color=style.SOFT, transform=axes.transAxes)
        axes.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
        return
    rows = list(dict.fromkeys(cell.row.name for cell in cells))
    columns = [column for column in results.sheet.columns if any(cell.column is column for cell in cells)]
    by_name = style.colours(rows, next((cell.row.name for cell in cells if style.is_softmatch(cell)), None))
    width = FILLED / len(rows)
    for position, row in enumerate(rows):
        own = [cell for cell in cells if cell.row.name == row]
        centres = [columns.index(cell.column) - FILLED / 2 + (position + 0.5) * width for cell in own]
        heights = [cell.mean or 0.0 for cell in own]
        axes.bar(centres, heights, width=0.92 * width, color=by_name[row], label=row, linewidth=0)
        axes.errorbar(centres, heights, [cell.sd or 0.0 for cell in own], fmt="none", ecolor=style.INK, elinewidth=0.9, capsize=2)
        for centre, cell in zip(centres, own, strict=True):
            # side by side in the order of seeds, so that dots of equal errors can be told apart
            places = centre + 0.5 * width * (np.arange(1, cell.n + 1) / (cell.n + 1) - 0.5)
            axes.scatter(places, [*cell.values.values()], s=7, facecolor="white", edgecolor=style.INK, linewidths=0.6, zorder=3)
    axes.set_xticks(range(len(columns)), [style.place(column, "\n") for column in columns])
    axes.tick_params(bottom=False)
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel("test error (%)")
    style.percent(axes.yaxis)
    ncols = 3 if sum(sorted(map(len, rows))[-3:]) <= 48 else 2
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=ncols, fontsize=7.5, columnspacing=1.2)


NAMED = 40  # classes, up to which they have their names at the axis
KEYS = ("unaligned_quantity", "quantity")


def draw_ua(cells: Sequence[Cell], title: str) -> Figure | None:
    """Draw the first record of the row that is SoftMatch; None where no run of it has these weights."""
    if not (chosen := [cell for cell in cells if style.is_softmatch(cell)]):
        raise InputError(f"fig-ua shows SoftMatch with its own settings: {title} has no such row.")
    first = [(run, record) for run in chosen[0].runs for record in run.records[:1]]
    found = [(run, record) for run, record in first if all(numbers(record, "classes", key) for key in KEYS)]
    if not found:
        return None
    run, record = found[0]
    same = [other for _, other in found if other["step"] == record["step"]]
    before, after = (np.array([numbers(other, "classes", key) for other in same], dtype=np.float64) for key in KEYS)
    names = list(run.class_errors) if len(run.class_errors) == before.shape[1] else [str(n) for n in range(before.shape[1])]
    return draw_classes(names, before, after, f"{title} · SoftMatch at step {record['step']:,} · {style.means([len(before)])}")


def draw_classes(names: Sequence[str], before: style.Values, after: style.Values, title: str) -> Figure:
    """Three panels with a bar for each class, from weights (seeds, C); NaN for a class without pseudo-style.labels."""
    averages = [style.spread(values)[0] for values in (before, after)]
    sds = [f"sd of classes {100 * float(np.nanstd(average)):.1f} %" for average in averages]
    panels = (
        (f"(a) before UA, {sds[0]}", before, style.SOFT),
        (f"(b) after UA, {sds[1]}", after, style.SOFTMATCH),
        ("(c) after − before", after - before, "#56B4E9"),
    )
    places = np.arange(len(names))
    with style.styled():
        made = style.new_figure(1.3 + min(0.24 * len(places), 8.0), title)
        across: Any = made.subplots(1, 3, sharey=True)
        for axes, (heading, values, colour) in zip(across, panels, strict=True):
            mean, sd = style.spread(values)
            axes.barh(places, mean, color=colour, height=0.75, linewidth=0)
            if len(values) > 1:
                axes.errorbar(mean, places, xerr=sd, fmt="none", ecolor=style.INK, elinewidth=0.8, capsize=1.5)
            axes.set(title=heading, xlabel="difference of λ (points)" if axes is across[2] else "average weight λ (%)")
            axes.grid(axis="y", visible=False)
            axes.axvline(0.0, color=style.SOFT, linewidth=0.8)
            style.percent(axes.xaxis)
        for axes in across[:2]:
            axes.set_xlim(0.0, 1.05 * max(1.0, np.nanmax(averages)))  # whiskers may be longer than possible weights
        few = len(places) <= NAMED
        across[0].set_yticks(places if few else [], names if few else [])
        across[0].set_ylabel("class by pseudo-label")
        across[0].invert_yaxis()
    return made
