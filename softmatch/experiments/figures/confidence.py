"""The paper's figure 5: confidence of all and of wrong pseudo-labels early in training, and the weight they are given.

What differs: a column of panels is a record of metrics.jsonl, which counts all pseudo-labels since the previous one, where the
paper has an epoch; the counts of all seeds are summed. λ is that of the record's last step, its mean over seeds. FlexMatch has
a threshold for each class: its λ is the share of classes whose threshold is reached, and a dashed line is the paper's average
threshold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from softmatch.experiments.figures.reading import Values, at_step, common_steps, finished_runs, spread
from softmatch.experiments.figures.style import ALL, INK, WRONG, colours, new_figure, percent, seeds, styled
from softmatch.experiments.sheet import Column, Sheet
from softmatch.experiments.store import Store
from softmatch.metrics import BINS
from softmatch.report.run_contents import Contents, Record, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RECORDS = 6
EDGES: Values = np.arange(BINS + 1) / BINS
CENTRES: Values = (EDGES[:-1] + EDGES[1:]) / 2
LEGEND = {"all": "all pseudo-labels", "wrong": "wrong pseudo-labels"}


@dataclass(frozen=True)
class Moment:
    """The pseudo-labels of a method at a record, of all seeds.

    Attributes:
        n: seeds.
        all, wrong, right: (50,), counts by confidence, summed over seeds.
        confidence, weight: λ over the confidence, (P,), its mean over seeds; empty where a method has none.
        threshold: mean over classes and seeds, of methods with a threshold for each class.
        quality: g, its mean over seeds; NaN where it is unknown.
    """

    step: int
    n: int
    all: Values
    wrong: Values
    right: Values
    confidence: Values
    weight: Values
    threshold: float | None
    quality: float


def moment(runs: Sequence[Contents], step: int) -> Moment:
    """The record of a step, over the seeds that have it."""
    records = at_step(runs, step)
    curves = [record["curve"] for record in records if record.get("curve")]
    grid = curves[0]["confidence"] if curves else []
    weights = [curve["weight"] for curve in curves if curve["confidence"] == grid and len(curve["weight"]) == len(grid)]
    thresholds = [value for record in records for value in _thresholds(record)]
    qualities = np.array([[number(record.get("quality"))] for record in records], dtype=np.float64)
    return Moment(
        step=step,
        n=len(records),
        all=_counts(records, "all"),
        wrong=_counts(records, "wrong"),
        right=_counts(records, "right"),
        confidence=np.array(grid, dtype=np.float64),
        weight=spread(np.array(weights, dtype=np.float64))[0] if weights else np.empty(0),
        threshold=float(np.mean(thresholds)) if thresholds else None,
        quality=float(spread(qualities)[0][0]) if records else float("nan"),
    )


def _counts(records: Sequence[Record], name: str) -> Values:
    total = np.zeros(BINS)
    for record in records:
        counts = (record.get("histogram") or {}).get(name)
        if counts and len(counts) == BINS:
            total += np.array(counts, dtype=np.float64)
    return total


def _thresholds(record: Record) -> list[float]:
    found = record.get("statistics", {}).get("class_thresholds")
    return [value for value in found if value is not None] if isinstance(found, list) else []


def read(sheet: Sheet, store: Store, column: Column) -> dict[str, list[Moment]]:
    """The first six records of every row that has finished runs."""
    runs = finished_runs(sheet, store, column)
    steps = common_steps(runs)[:RECORDS]
    return {name: [moment(several, step) for step in steps] for name, several in runs.items()} if steps else {}


def draw_histogram(axes: Axes, shown: Moment) -> None:
    """Bars of all and of wrong pseudo-labels, as shares of all."""
    total = max(shown.all.sum(), 1.0)
    for counts, colour, name in ((shown.all, ALL, "all"), (shown.wrong, WRONG, "wrong")):
        axes.stairs(counts / total, EDGES, fill=True, color=colour, label=LEGEND[name], linewidth=0)


def second_axis(axes: Axes, label: str | None) -> Axes:
    """An axis of shares from 0 to 1 at the right.

    Args:
        label: of the axis; without one its ticks have no numbers.
    """
    right = axes.twinx()
    right.set_ylim(-0.02, 1.05)
    right.set_yticks([0.0, 0.5, 1.0])
    right.grid(False)
    right.spines["right"].set_visible(True)
    if label is None:
        right.tick_params(labelright=False)
    else:
        right.set_ylabel(label)
    return right


def figure(rows: Mapping[str, Sequence[Moment]], title: str) -> Figure:
    """One row of panels for each method, one column for each record."""
    across = max(len(moments) for moments in rows.values())
    by_name = colours(list(rows))
    with styled():
        made = new_figure(
            1.0 + 1.35 * len(rows), f"{title} · summed over {seeds(m.n for moments in rows.values() for m in moments)}"
        )
        grid: Any = made.subplots(len(rows), across, sharex=True, sharey=True, squeeze=False)
        for panels, (name, moments) in zip(grid, rows.items(), strict=True):
            panels[0].set_ylabel(f"{name}\npseudo-labels (%)")
            for axes, shown in zip(panels, moments, strict=False):
                draw_histogram(axes, shown)
                _draw_weights(second_axis(axes, "weight λ" if axes is panels[-1] else None), shown, by_name[name])
        for axes, shown in zip(grid[0], next(iter(rows.values())), strict=False):
            axes.set_title(f"step {shown.step:,}", loc="center")
        for axes in grid[-1]:
            axes.set_xlabel("confidence (%)")
        _scale(grid, rows)
        _legend(made, grid[0][0])
    return made


def _scale(grid: Any, rows: Mapping[str, Sequence[Moment]]) -> None:
    """The same axes in all panels; of two classes no confidence is below a half."""
    lowest = min((shown.confidence[0] for moments in rows.values() for shown in moments if len(shown.confidence)), default=0.0)
    corner = grid[0][0]
    corner.set_xticks([0.0, 0.5, 1.0] if lowest < 0.4 else [0.5, 0.75, 1.0])
    corner.set_xlim(-0.02 if lowest < 0.4 else lowest - 0.01, 1.01)
    log_shares(corner)
    percent(corner.xaxis)


def log_shares(axes: Axes) -> None:
    """Shares from 0.1 % to 100 % on a logarithmic axis: once nearly all lie in the last bin, others could not be seen."""
    axes.set_ylim(1e-3, 1.0)  # first: of no pseudo-labels no scale could be found
    axes.set_yscale("log")
    axes.set_yticks([1e-3, 1e-2, 1e-1, 1.0])
    axes.minorticks_off()
    percent(axes.yaxis)


def _draw_weights(axes: Axes, shown: Moment, colour: str) -> None:
    axes.plot(shown.confidence, shown.weight, color=colour, label="weight λ")
    if shown.threshold is not None:
        axes.axvline(shown.threshold, color=colour, linestyle=(0, (2, 2)), linewidth=1.0, label="average threshold")


def _legend(made: Figure, axes: Axes) -> None:
    from matplotlib.lines import Line2D

    handles, labels = axes.get_legend_handles_labels()
    handles += [Line2D([], [], color=INK), Line2D([], [], color=INK, linestyle=(0, (2, 2)), linewidth=1.0)]
    labels += ["weight λ (right axis)", "average threshold of classes"]
    made.legend(handles, labels, loc="outside lower center", ncols=4)
