"""Figures 2 and 4 of the paper, of lines: error, quantity and quality over training, and the weighting functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from softmatch import weightings as w
from softmatch.experiments.figures.style import (
    INK,
    colours,
    draw_series,
    labels,
    means,
    new_figure,
    over_training,
    percent,
    styled,
)
from softmatch.experiments.results.collect import Cell, Record, known, numbers


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
    by_name = colours(shown)
    with styled():
        made = new_figure(3.6, "Sample weighting functions, ten classes")
        axes = made.subplots()
        for name, (weighting, parameters) in shown.items():
            confidence, weight = (values.double().numpy() for values in w.weight_curve(weighting, CLASSES, POINTS))
            style = (0, (4, 2)) if name == "Threshold" else "-"
            axes.plot(confidence, weight, color=by_name[name], label=name + parameters, linestyle=style)
        axes.set(xlabel="confidence max p (%)", ylabel="weight λ(p)", xlim=(0.0, 1.005), yticks=np.linspace(0.0, 1.0, 6))
        percent(axes.xaxis)
        made.legend(loc="outside right center")
    return made
