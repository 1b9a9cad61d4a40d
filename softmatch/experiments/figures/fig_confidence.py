"""Figure 5 of the paper: confidence of all and of wrong pseudo-labels early in training, and the weight that they get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from softmatch.experiments.figures import style
from softmatch.experiments.results.collect import Cell
from softmatch.experiments.results.run_files import Record, RunFiles, known, number, numbers
from softmatch.metrics import BINS

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


def moment(runs: Sequence[RunFiles], step: int) -> Moment:
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


def figure(cells: Sequence[Cell], title: str) -> Figure | None:
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
