"""SoftMatch: train a classifier from a handful of labels and a lot of unlabelled data.

Names are imported when they are first used, so that `softmatch --help` does not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softmatch import alignments, averages, methods, metrics, targets, thresholds, views, weightings
    from softmatch.alignments import Alignment, NoAlignment
    from softmatch.averages import RunningAverage, momentum_for
    from softmatch.classifier import Classifier
    from softmatch.errors import InputError, SoftmatchError, TrainingError
    from softmatch.methods import METHODS, Match, Method, Problem, Supervised, build
    from softmatch.metrics import PseudoLabelMeter, PseudoLabels, class_quality, quality, quantity
    from softmatch.runs import Model, load_model
    from softmatch.seen import Seen
    from softmatch.thresholds import CurriculumThreshold, LossThreshold, RelativeThreshold, SelfAdaptiveThreshold
    from softmatch.training.job import Result, train
    from softmatch.using.exporting import export
    from softmatch.using.predicting import predict
    from softmatch.using.pseudo_labels import write_pseudo_labels
    from softmatch.using.suggesting import cold_start, suggest
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

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Alignment",
    "Classifier",
    "Constant",
    "CurriculumThreshold",
    "Gaussian",
    "InputError",
    "Laplacian",
    "Linear",
    "LossThreshold",
    "Match",
    "Method",
    "Model",
    "NoAlignment",
    "Problem",
    "PseudoLabelMeter",
    "PseudoLabels",
    "Quadratic",
    "RampUp",
    "RelativeThreshold",
    "Result",
    "RunningAverage",
    "Seen",
    "SelfAdaptiveThreshold",
    "SoftmatchError",
    "Supervised",
    "Threshold",
    "TrainingError",
    "TruncatedGaussian",
    "TruncatedLaplacian",
    "Weighting",
    "alignments",
    "averages",
    "build",
    "class_quality",
    "cold_start",
    "export",
    "load_model",
    "methods",
    "metrics",
    "momentum_for",
    "predict",
    "quality",
    "quantity",
    "suggest",
    "targets",
    "thresholds",
    "train",
    "views",
    "weight_curve",
    "weightings",
    "write_pseudo_labels",
]

_MODULES = ("alignments", "averages", "methods", "metrics", "targets", "thresholds", "views", "weightings")
_AFTER = ("using.predicting", "using.pseudo_labels", "using.suggesting", "using.exporting")
_HOMES = ("errors", *_MODULES, "runs", "seen", "training.job", "classifier", *_AFTER)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"softmatch.{name}")
    if name in __all__:
        for home in _HOMES:
            module = importlib.import_module(f"softmatch.{home}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module 'softmatch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
