"""The paper's figure 1: on two moons with four labels, confidence, quantity, quality, and the boundary that is learned.

What differs: the paper shows one confidence histogram with the lines of all methods in it, here each method has its own: the
confidences are those of its own network. The paper does not say at which point of training; here it is the record between a
quarter and three quarters of the run at which the qualities of the methods differ most. A line is the share of right
pseudo-labels among those of a confidence, drawn where the method uses them (λ ≥ 0.01); the share right as used, g, stands over
it. (b) and (c) are means over seeds, (d) is the averaged network of the first seed at the end of training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from softmatch.experiments.figures.confidence import CENTRES, Moment, draw_histogram, log_shares, moment, second_axis
from softmatch.experiments.figures.curves import draw_series, named
from softmatch.experiments.figures.reading import Runs, Series, common_steps, finished_runs, over_steps
from softmatch.experiments.figures.style import (
    CLASSES,
    INK,
    SOFT,
    colours,
    means,
    new_figure,
    panel,
    percent,
    percent_range,
    step_axis,
    styled,
)
from softmatch.experiments.sheet import Column, Sheet
from softmatch.experiments.store import Store
from softmatch.report.run_contents import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

USED = 0.01
"""From this weight on a pseudo-label counts as used."""


@dataclass(frozen=True)
class Moons:
    """A method on two moons.

    Attributes:
        confidence: at the moment where methods differ.
        boundary: boundary.json of the first seed; empty where it has none.
        seed, error: of that run.
    """

    quantity: Series
    quality: Series
    confidence: Moment
    boundary: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    error: float | None = None


def read(sheet: Sheet, store: Store, column: Column) -> dict[str, Moons]:
    """Every row that has finished runs."""
    runs = finished_runs(sheet, store, column)
    steps = common_steps(runs)
    if not steps:
        return {}
    step = telling_step(runs, steps)
    return {
        name: Moons(
            quantity=over_steps(several, lambda record: record.get("quantity")),
            quality=over_steps(several, lambda record: record.get("quality")),
            confidence=moment(several, step),
            boundary=several[0].boundary if _is_grid(several[0].boundary) else {},
            seed=several[0].setting("seed"),
            error=number(several[0].result.get("test_error")),
        )
        for name, several in runs.items()
    }


def telling_step(runs: Runs, steps: list[int]) -> int:
    """Of the steps between a quarter and three quarters of the run, the one at which the qualities differ most.

    The first of several; the middle one where there is no difference to measure.
    """
    middle = [step for step in steps if steps[-1] / 4 <= step <= 3 * steps[-1] / 4] or steps
    means = {step: [moment(several, step).quality for several in runs.values()] for step in middle}
    differences = {step: max(found) - min(found) for step, found in means.items() if not np.isnan(found).any()}
    if not any(differences.values()):
        return middle[len(middle) // 2]
    return max(differences, key=lambda step: differences[step])


def _is_grid(boundary: Mapping[str, Any]) -> bool:
    """Whether there is a probability for every point of the grid."""
    if not boundary:
        return False
    rows = boundary["probs"]
    return len(rows) == len(boundary["y"]) and all(len(row) == len(boundary["x"]) for row in rows)


def figure(methods: Mapping[str, Moons], title: str) -> Figure:
    """(a) and (d) have a panel for each method."""
    by_name, counts = colours(list(methods)), {found.quality.n for found in methods.values()}
    with styled():
        made = new_figure(8.1, f"{title} · {means(counts)}")
        parts: Any = made.subfigures(3, 1, height_ratios=[1.0, 1.05, 1.1])
        top, middle, bottom = parts
        _confidences(top, methods, by_name)
        _curves(middle, methods, by_name, counts)
        bottom.suptitle(panel(3, "Decision boundary at the end; triangles are the labelled samples"), x=0.01, ha="left")
        for axes, (name, found) in zip(_across(bottom, methods), methods.items(), strict=True):
            _draw_boundary(axes, found, name, by_name[name])
    return made


def _across(part: Any, methods: Mapping[str, Moons]) -> Any:
    return part.subplots(1, len(methods), sharey=True, squeeze=False)[0]


def _confidences(part: Any, methods: Mapping[str, Moons], by_name: Mapping[str, str]) -> None:
    from matplotlib.lines import Line2D

    step = next(iter(methods.values())).confidence.step
    part.suptitle(
        panel(0, f"Confidence at step {step:,}, and the share of pseudo-labels that are right as used"), x=0.01, ha="left"
    )
    across = _across(part, methods)
    for axes, (name, found) in zip(across, methods.items(), strict=True):
        _draw_confidence(axes, found.confidence, name, by_name[name], last=axes is across[-1])
    across[0].set_ylabel("pseudo-labels (%)")
    handles, labels = across[0].get_legend_handles_labels()
    line = Line2D([], [], color=INK, marker="o", markersize=2.5)
    part.legend([*handles, line], [*labels, "share right, where used (right axis)"], loc="outside lower center", ncols=3)


def _curves(part: Any, methods: Mapping[str, Moons], by_name: Mapping[str, str], counts: set[int]) -> None:
    left, right = part.subplots(1, 2)
    for name, found in methods.items():
        label = named(name, found.quality.n, counts)
        draw_series(left, found.quantity, by_name[name], label)
        draw_series(right, found.quality, by_name[name], label)
    for position, axes, word in ((1, left, "quantity f"), (2, right, "quality g")):
        axes.set_title(panel(position, f"{word.split()[0].capitalize()} of pseudo-labels"))
        axes.set_ylabel(f"{word} (%)")
        percent_range(axes, least=0.04)
        step_axis(axes)
    part.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=len(methods))


def _draw_confidence(axes: Axes, shown: Moment, name: str, colour: str, last: bool) -> None:
    draw_histogram(axes, shown)
    log_shares(axes)
    low = shown.confidence[0] if len(shown.confidence) else 0.0
    axes.set_xlim(low - 0.01, 1.005)
    axes.set_xlabel("confidence (%)")
    percent(axes.xaxis)
    axes.set_title(f"{name}: {100 * shown.quality:.1f} % right" if not np.isnan(shown.quality) else name)
    judged = shown.wrong + shown.right
    weight = np.interp(CENTRES, shown.confidence, shown.weight) if len(shown.weight) else np.ones_like(CENTRES)
    drawn = (judged > 0) & (weight >= USED)
    right = second_axis(axes, "right (%)" if last else None)
    percent(right.yaxis)
    right.plot(CENTRES[drawn], (shown.right / np.maximum(judged, 1.0))[drawn], color=colour, marker="o", markersize=2.5)


def _draw_boundary(axes: Axes, found: Moons, name: str, colour: str) -> None:
    error = "" if found.error is None else f", error {100 * found.error:.1f} %"
    axes.set_title(f"{name}{'' if found.seed is None else f', seed {found.seed}'}{error}")
    axes.grid(False)
    axes.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    if not found.boundary:
        axes.text(0.5, 0.5, "no boundary recorded", ha="center", va="center", color=SOFT, transform=axes.transAxes)
        return
    from matplotlib.colors import LinearSegmentedColormap

    x, y, probs = (np.array(found.boundary[key], dtype=np.float64) for key in ("x", "y", "probs"))
    regions = LinearSegmentedColormap.from_list("regions", [CLASSES[0], "white", CLASSES[1]])
    axes.imshow(probs, extent=(x[0], x[-1], y[0], y[-1]), origin="lower", cmap=regions, vmin=0, vmax=1, alpha=0.45, aspect="auto")
    if probs.min() < 0.5 < probs.max():
        axes.contour(x, y, probs, levels=[0.5], colors=[colour], linewidths=1.8)
    points = np.array(found.boundary["points"], dtype=np.float64).reshape(-1, 2)
    truth = np.array(found.boundary["truth"], dtype=np.int64)
    chosen = np.zeros(len(points), dtype=bool)
    chosen[[position for position in found.boundary["labeled"] if 0 <= position < len(points)]] = True
    if len(truth) == len(points):
        for label, shade in enumerate(CLASSES):
            own = truth == label
            others = points[own & ~chosen]
            axes.scatter(others[:, 0], others[:, 1], s=3, color=shade, linewidths=0)
            labeled = points[own & chosen]
            axes.scatter(labeled[:, 0], labeled[:, 1], s=60, marker="^", color=shade, edgecolors=INK, linewidths=1.0, zorder=3)
