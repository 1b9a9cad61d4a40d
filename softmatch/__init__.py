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
    from softmatch.inference.export import export
    from softmatch.inference.predict import predict
    from softmatch.inference.pseudo_labels import write_pseudo_labels
    from softmatch.inference.suggest import cold_start, suggest
    from softmatch.methods import METHODS, Match, Method, Problem, Supervised, build
    from softmatch.metrics import PseudoLabelMeter, PseudoLabels, class_quality, quality, quantity
    from softmatch.runs.model import Model, load_model
    from softmatch.step import Seen
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

_HOMES = {
    "Alignment": "alignments",
    "Classifier": "classifier",
    "Constant": "weightings",
    "CurriculumThreshold": "thresholds",
    "Gaussian": "weightings",
    "InputError": "errors",
    "Laplacian": "weightings",
    "Linear": "weightings",
    "LossThreshold": "thresholds",
    "METHODS": "methods",
    "Match": "methods",
    "Method": "methods",
    "Model": "runs.model",
    "NoAlignment": "alignments",
    "Problem": "methods",
    "PseudoLabelMeter": "metrics",
    "PseudoLabels": "metrics",
    "Quadratic": "weightings",
    "RampUp": "weightings",
    "RelativeThreshold": "thresholds",
    "Result": "training.job",
    "RunningAverage": "averages",
    "Seen": "step",
    "SelfAdaptiveThreshold": "thresholds",
    "SoftmatchError": "errors",
    "Supervised": "methods",
    "Threshold": "weightings",
    "TrainingError": "errors",
    "TruncatedGaussian": "weightings",
    "TruncatedLaplacian": "weightings",
    "Weighting": "weightings",
    "build": "methods",
    "class_quality": "metrics",
    "cold_start": "inference.suggest",
    "export": "inference.export",
    "load_model": "runs.model",
    "momentum_for": "averages",
    "predict": "inference.predict",
    "quality": "metrics",
    "quantity": "metrics",
    "suggest": "inference.suggest",
    "train": "training.job",
    "weight_curve": "weightings",
    "write_pseudo_labels": "inference.pseudo_labels",
}
"""Public names, each with the module that defines it."""
_MODULES = ("alignments", "averages", "methods", "metrics", "targets", "thresholds", "views", "weightings")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"softmatch.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"softmatch.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'softmatch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
