"""The paper's figure 4: λ over the confidence, of every weighting function of its table, computed by the functions themselves.

What differs: FixMatch's threshold is added for reference. The truncated functions follow the confidence seen in training: they
are shown for a mean and a spread in the middle of it, and with the 2σ range of the paper's experiments, which its table leaves
out; both have the same variance. The confidence starts at 1/10, the lowest of ten classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from softmatch.experiments.figures.reading import Values
from softmatch.experiments.figures.style import colours, new_figure, percent, save, styled
from softmatch.weightings import (
    Gaussian,
    Laplacian,
    Linear,
    Quadratic,
    Threshold,
    TruncatedGaussian,
    TruncatedLaplacian,
    Weighting,
    weight_curve,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLASSES = 10
POINTS = 901
MEAN, STD = 0.8, 0.2
"""μ and σ of the truncated functions."""


@dataclass(frozen=True)
class Function:
    """λ (P,) over the confidence (P,), and with which parameters."""

    confidence: Values
    weight: Values
    parameters: str = ""


def functions() -> dict[str, Function]:
    """The paper's weighting functions, by name."""
    laplacian, gaussian, threshold = Laplacian(), Gaussian(), Threshold()
    truncated = TruncatedLaplacian(CLASSES)
    truncated.mean.value.fill_(MEAN)
    truncated.spread.value.fill_(STD / math.sqrt(2.0))  # b of the same variance
    learned = TruncatedGaussian(CLASSES, estimation="fixed", mean=MEAN, variance=STD**2)
    scale = float(truncated.scale())
    shown: dict[str, tuple[Weighting, str]] = {
        "Linear": (Linear(), ""),
        "Quadratic": (Quadratic(), ""),
        "Laplacian": (laplacian, f"μ = {laplacian.mean:g}, b = {laplacian.scale:g}"),
        "Gaussian": (gaussian, f"μ = {gaussian.mean:g}, σ = {gaussian.std:g}"),
        "Truncated Laplacian": (truncated, f"μ = {MEAN:g}, b = {scale:.2g}, {truncated.k:g} times narrower"),
        "Truncated Gaussian": (learned, f"μ = {MEAN:g}, σ = {STD:g}, {learned.k:g} times narrower"),
        "Threshold": (threshold, f"FixMatch, τ = {threshold.threshold:g}"),
    }
    return {name: _function(weighting, parameters) for name, (weighting, parameters) in shown.items()}


def _function(weighting: Weighting, parameters: str) -> Function:
    confidence, weight = weight_curve(weighting, CLASSES, POINTS)
    return Function(confidence.double().numpy(), weight.double().numpy(), parameters)


def figure(shown: dict[str, Function]) -> Figure:
    """One line each; the legend says the parameters."""
    by_name = colours(list(shown))
    with styled():
        made = new_figure(3.6, "Sample weighting functions, ten classes")
        axes = made.subplots()
        for name, found in shown.items():
            label = f"{name} ({found.parameters})" if found.parameters else name
            style = (0, (4, 2)) if name == "Threshold" else "-"
            axes.plot(found.confidence, found.weight, color=by_name[name], label=label, linestyle=style)
        axes.set_xlabel("confidence max p (%)")
        axes.set_ylabel("weight λ(p)")
        axes.set_xlim(0.0, 1.005)
        axes.set_yticks(np.linspace(0.0, 1.0, 6))
        percent(axes.xaxis)
        made.legend(loc="outside right center")
    return made


def draw_functions(folder: Path) -> list[Path]:
    """Write fig-functions; no run is needed."""
    return save(figure(functions()), folder, "fig-functions")
