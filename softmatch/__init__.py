"""SoftMatch: train a classifier from a handful of labels and a lot of unlabelled data.

Names are imported when they are first used, so that `softmatch --help` does not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "alignments": ("Alignment", "NoAlignment"),
    "averages": ("RunningAverage", "momentum_for"),
    "errors": ("InputError", "SoftmatchError", "TrainingError"),
    "methods": ("METHODS", "Match", "Method", "Problem", "Supervised", "build"),
    "metrics": ("PseudoLabelMeter", "PseudoLabels", "class_quality", "quality", "quantity"),
    "runs": ("Model", "load_model"),
    "seen": ("Seen",),
    "thresholds": ("CurriculumThreshold", "LossThreshold", "RelativeThreshold", "SelfAdaptiveThreshold"),
    "training.job": ("Result", "train"),
    "weightings": (
        "Constant",
        "Gaussian",
        "Laplacian",
        "Linear",
        "Quadratic",
        "RampUp",
        "Threshold",
        "TruncatedGaussian",
        "TruncatedLaplacian",
        "Weighting",
        "weight_curve",
    ),
}
_MODULES = ("alignments", "averages", "methods", "metrics", "targets", "thresholds", "views", "weightings")

__all__ = sorted([*_MODULES, *(name for names in _HOMES.values() for name in names)])

if TYPE_CHECKING:
    from softmatch import alignments, averages, methods, metrics, targets, thresholds, views, weightings
    from softmatch.alignments import Alignment, NoAlignment
    from softmatch.averages import RunningAverage, momentum_for
    from softmatch.errors import InputError, SoftmatchError, TrainingError
    from softmatch.methods import METHODS, Match, Method, Problem, Supervised, build
    from softmatch.metrics import PseudoLabelMeter, PseudoLabels, class_quality, quality, quantity
    from softmatch.runs import Model, load_model
    from softmatch.seen import Seen
    from softmatch.thresholds import CurriculumThreshold, LossThreshold, RelativeThreshold, SelfAdaptiveThreshold
    from softmatch.training.job import Result, train
    from softmatch.weightings import (
        Constant,
        Gaussian,
        Laplacian,
        Linear,
        Quadratic,
        RampUp,
        Threshold,
        TruncatedGaussian,
        TruncatedLaplacian,
        Weighting,
        weight_curve,
    )


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"softmatch.{name}")
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"softmatch.{home}"), name)
    raise AttributeError(f"module 'softmatch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
