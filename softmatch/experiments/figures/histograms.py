"""Figures 1 and 5 of the paper, of confidences: two moons with four labels, and pseudo-labels early in training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from softmatch.experiments.figures import style
from softmatch.experiments.figures.curves_and_bars import PANELS
from softmatch.experiments.results.collect import Cell, Entry, known, numbers
from softmatch.metrics import BINS
from softmatch.report.run_contents import Record, clean_boundary, number
from softmatch.runs.folder import RunFolder

RECORDS = 6
EDGES: style.Values = np.arange(BINS + 1) / BINS
CENTRES: style.Values = (EDGES[:-1] + EDGES[1:]) / 2
DASHED: dict[str, Any] = {"linestyle": (0, (2, 2)), "linewidth": 1.0}


@dataclass(frozen=True)
class Moment:
    """Pseudo-labels of a method at a step, over the seeds that have a record of it."""

    step: int
    n: int  # seeds
    all: style.Values  # (BINS,), counts by confidence since the previous record, summed over seeds; so are the next two
    wrong: style.Values
    right: style.Values
    confidence: style.Values  # (P,); empty for a method without λ
    weight: style.Values  # (P,), λ at the record's last step, mean over seeds
    threshold: float | None  # mean over classes and seeds, for methods with a threshold for each class
    quality: float  # g, mean over seeds; NaN where it is not known


def moment(runs: Sequence[Entry], step: int) -> Moment:
    """Collect the records of a step."""
    records = [record for run in runs for record in run.records if record["step"] == step]
    curves = [(numbers(record, "curve", "confidence"), numbers(record, "curve", "weight")) for record in records]
    grid = next((confidence for confidence, weight in curves if confidence and weight), [])
    weights = np.array([weight for own, weight in curves if own == grid and len(weight) == len(grid) > 0], dtype=np.float64)
    thresholds = [value for record in records for value in known(numbers(record, "statistics", "class_thresholds"))]
    quality, _ = style.spread(np.array([[number(record.get("quality"))] for record in records], dtype=np.float64).reshape(-1, 1))
    return Moment(
        step=step,
        n=len(records),
        all=_counts(records, "all"),
        wrong=_counts(records, "wrong"),
        right=_counts(records, "right"),
        confidence=np.array(grid, dtype=np.float64),
        weight=style.spread(weights)[0] if len(weights) else np.empty(0),
        threshold=float(np.mean(thresholds)) if thresholds else None,
        quality=float(quality[0]),
    )


def _counts(records: Sequence[Record], name: str) -> style.Values:
    counts = [known(numbers(record, "histogram", name)) for record in records]
    total: style.Values = np.array([own for own in counts if len(own) == BINS], dtype=np.float64).reshape(-1, BINS).sum(0)
    return total


def draw_confidence(cells: Sequence[Cell], title: str) -> Figure | None:
    """A row of panels for each method, a column for each of the first records; None where runs have no step in common."""
    if not (steps := style.common_steps(cells)[:RECORDS]):
        return None
    by_name = style.colours(cell.row.name for cell in cells)
    rows = {cell.row.name: [moment(cell.runs, step) for step in steps] for cell in cells}
    every = [shown for moments in rows.values() for shown in moments]
    with style.styled():
        made = style.new_figure(1.0 + 1.35 * len(rows), f"{title} · summed over {style.seeds(shown.n for shown in every)}")
        grid: Any = made.subplots(len(rows), len(steps), sharex=True, sharey=True, squeeze=False)
        for panels, (name, moments) in zip(grid, rows.items(), strict=True):
            panels[0].set_ylabel(f"{name}\npseudo-labels (%)")
            for axes, shown in zip(panels, moments, strict=True):
                draw_histogram(axes, shown)
                right = second_axis(axes, "weight λ" if axes is panels[-1] else None)
                right.plot(shown.confidence, shown.weight, color=by_name[name])
                if shown.threshold is not None:
                    right.axvline(shown.threshold, color=by_name[name], **DASHED)
        for axes, step in zip(grid[0], steps, strict=True):
            axes.set_title(f"step {step:,}", loc="center")
        for axes in grid[-1]:
            axes.set_xlabel("confidence (%)")
        corner = grid[0][0]  # all panels share its axes
        lowest = min((shown.confidence[0] for shown in every if len(shown.confidence)), default=0.0)
        corner.set_xticks([0.0, 0.5, 1.0] if lowest < 0.4 else [0.5, 0.75, 1.0])  # two classes: no confidence is below a half
        corner.set_xlim(-0.02 if lowest < 0.4 else lowest - 0.01, 1.01)
        log_shares(corner)
        style.percent(corner.xaxis)
        handles, labels = corner.get_legend_handles_labels()
        handles += [Line2D([], [], color=style.INK), Line2D([], [], color=style.INK, **DASHED)]
        labels += ["weight λ (right axis)", "average threshold of classes"]
        made.legend(handles, labels, loc="outside lower center", ncols=4)
    return made


def draw_histogram(axes: Axes, shown: Moment) -> None:
    """Bars of all and of wrong pseudo-labels, as shares of all."""
    total = max(shown.all.sum(), 1.0)
    for counts, colour, label in ((shown.all, style.ALL, "all pseudo-labels"), (shown.wrong, style.WRONG, "wrong pseudo-labels")):
        axes.stairs(counts / total, EDGES, fill=True, color=colour, label=label, linewidth=0)


def second_axis(axes: Axes, label: str | None) -> Axes:
    """An axis of shares from 0 to 1 at the right; without a label its ticks have no numbers."""
    right = axes.twinx()
    right.set(ylim=(-0.02, 1.05), yticks=[0.0, 0.5, 1.0], ylabel=label or "")
    right.grid(False)
    right.spines["right"].set_visible(True)
    right.tick_params(labelright=label is not None)
    return right


def log_shares(axes: Axes) -> None:
    """Shares from 0.1 % to 100 % on a logarithmic axis: when nearly all are in the last bin, the others could not be seen."""
    axes.set_ylim(1e-3, 1.0)  # first: without pseudo-labels no scale could be found
    axes.set_yscale("log")
    axes.set_yticks([1e-3, 1e-2, 1e-1, 1.0])
    axes.minorticks_off()
    style.percent(axes.yaxis)


LABELLED: dict[str, Any] = {"s": 60, "marker": "^", "edgecolors": style.INK, "linewidths": 1.0, "zorder": 3}
USED = 0.01  # weight from which on a pseudo-label counts as used


def telling_step(cells: Sequence[Cell], steps: Sequence[int]) -> int:
    """The step between a quarter and three quarters of the run at which qualities differ most; the middle one if none do."""
    middle = [step for step in steps if steps[-1] / 4 <= step <= 3 * steps[-1] / 4] or steps
    qualities = {step: [moment(cell.runs, step).quality for cell in cells] for step in middle}
    differences = {step: max(found) - min(found) for step, found in qualities.items() if not np.isnan(found).any()}
    if not any(differences.values()):
        return middle[len(middle) // 2]
    return max(differences, key=lambda step: differences[step])


def draw_two_moons(cells: Sequence[Cell], title: str) -> Figure | None:
    """(a) and (d) have a panel for each method, (b) and (c) a line; None where runs have no step in common."""
    if not (steps := style.common_steps(cells)):
        return None
    by_name = style.colours(cell.row.name for cell in cells)
    with style.styled():
        made = style.new_figure(8.1, f"{title} · {style.means(len(cell.runs) for cell in cells)}")
        parts: Any = made.subfigures(3, 1, height_ratios=[1.0, 1.05, 1.1])
        top, middle, bottom = parts
        _confidences(top, cells, telling_step(cells, steps), by_name)
        _curves(middle, cells, by_name)
        bottom.suptitle("(d) Decision boundary at the end; triangles are the labelled samples", x=0.01, ha="left")
        for axes, cell in zip(bottom.subplots(1, len(cells), sharey=True, squeeze=False)[0], cells, strict=True):
            _boundary(axes, cell, by_name[cell.row.name])
    return made


def _confidences(part: Any, cells: Sequence[Cell], step: int, by_name: Mapping[str, str]) -> None:
    part.suptitle(f"(a) Confidence at step {step:,}, and the share of pseudo-labels that are right as used", x=0.01, ha="left")
    across = part.subplots(1, len(cells), sharey=True, squeeze=False)[0]
    for axes, cell in zip(across, cells, strict=True):
        shown = moment(cell.runs, step)
        axes.set_title(cell.row.name if np.isnan(shown.quality) else f"{cell.row.name}: {100 * shown.quality:.1f} % right")
        _confidence(axes, shown, by_name[cell.row.name], last=axes is across[-1])
    across[0].set_ylabel("pseudo-labels (%)")
    handles, names = across[0].get_legend_handles_labels()
    line = Line2D([], [], color=style.INK, marker="o", markersize=2.5)
    part.legend([*handles, line], [*names, "share right, where used (right axis)"], loc="outside lower center", ncols=3)


def _confidence(axes: Axes, shown: Moment, colour: str, last: bool) -> None:
    """A histogram, and a line for the share of right pseudo-labels where the method uses them."""
    draw_histogram(axes, shown)
    log_shares(axes)
    axes.set_xlim((shown.confidence[0] if len(shown.confidence) else 0.0) - 0.01, 1.005)
    axes.set_xlabel("confidence (%)")
    style.percent(axes.xaxis)
    judged = shown.wrong + shown.right
    weight = np.interp(CENTRES, shown.confidence, shown.weight) if len(shown.weight) else np.ones_like(CENTRES)
    drawn = (judged > 0) & (weight >= USED)
    right = second_axis(axes, "right (%)" if last else None)
    style.percent(right.yaxis)
    right.plot(CENTRES[drawn], (shown.right / np.maximum(judged, 1.0))[drawn], color=colour, marker="o", markersize=2.5)


def _curves(part: Any, cells: Sequence[Cell], by_name: Mapping[str, str]) -> None:
    both = part.subplots(1, 2)
    for axes, (heading, unit, get) in zip(both, PANELS[1:3], strict=True):
        for cell, label in zip(cells, style.labels(cells), strict=True):
            style.draw_series(axes, cell.runs, get, by_name[cell.row.name], label)
        style.over_training(axes, heading, unit)
    part.legend(*both[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(cells))


def _boundary(axes: Axes, cell: Cell, colour: str) -> None:
    """The averaged network of the first finished seed: its probabilities, and the samples."""
    entry = cell.runs[0]
    error = entry.figure("test_error")
    axes.set_title(f"{cell.row.name}, seed {entry.run.seed}" + ("" if error is None else f", error {100 * error:.1f} %"))
    axes.grid(False)
    axes.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    plane = clean_boundary(RunFolder(entry.folder).read_json("boundary.json"))
    if not plane:
        axes.text(0.5, 0.5, "no boundary recorded", ha="center", va="center", color=style.SOFT, transform=axes.transAxes)
        return
    x, y, probs, truth = (np.array(plane[key]) for key in ("x", "y", "probs", "truth"))
    points = np.array(plane["points"]).reshape(-1, 2)
    chosen = np.isin(np.arange(len(points)), plane["labeled"])
    regions = LinearSegmentedColormap.from_list("regions", [style.CLASSES[0], "white", style.CLASSES[1]])
    axes.imshow(probs, extent=(x[0], x[-1], y[0], y[-1]), origin="lower", cmap=regions, vmin=0, vmax=1, alpha=0.45, aspect="auto")
    if probs.min() < 0.5 < probs.max():
        axes.contour(x, y, probs, levels=[0.5], colors=[colour], linewidths=1.8)
    for label, shade in enumerate(style.CLASSES):
        others, labelled = points[(truth == label) & ~chosen], points[(truth == label) & chosen]
        axes.scatter(others[:, 0], others[:, 1], s=3, color=shade, linewidths=0)
        axes.scatter(labelled[:, 0], labelled[:, 1], color=shade, **LABELLED)
