"""Figure 4 of the paper: weight λ over the confidence for each weighting function, and FixMatch's threshold for reference."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from softmatch import weightings as w
from softmatch.experiments.figures.style import colours, new_figure, percent, styled

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


def figure() -> Figure:
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
