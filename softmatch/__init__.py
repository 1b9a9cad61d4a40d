"""SoftMatch: train a classifier from a handful of labels and a lot of unlabelled data.

Names are imported when they are first used, so that `softmatch --help` does not wait for torch.
"""

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softmatch import alignments, averages, methods, metrics, targets, thresholds, views, weightings
    from softmatch.alignments import Alignment, EstimatedAlignment, NoAlignment
    from softmatch.averages import RunningAverage, momentum_for
    from softmatch.classifier import Classifier
    from softmatch.data.pairs import PairBatch, PairLoader
    from softmatch.errors import InputError, SoftmatchError, TrainingError
    from softmatch.inference.distil import distil
    from softmatch.inference.export import export
    from softmatch.inference.predict import predict
    from softmatch.inference.pseudo_labels import write_pseudo_labels
    from softmatch.inference.suggest import cold_start, suggest
    from softmatch.methods import METHODS, Match, Method, Problem, Supervised, build
    from softmatch.metrics import PseudoLabelMeter, PseudoLabels, class_quality, quality, quantity
    from softmatch.report.drawn_charts import plot
    from softmatch.runs.model import Model, load_model
    from softmatch.step import Seen
    from softmatch.thresholds import CurriculumThreshold, LossThreshold, RelativeThreshold, SelfAdaptiveThreshold
    from softmatch.training.job import Result, train
    from softmatch.training.learning_curve import LearningCurve, learning_curve
    from softmatch.training.tracking import Listener, TrackedRun
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

__version__ = "0.2.0"

logging.getLogger("softmatch").addHandler(logging.NullHandler())  # silent, unless the program that imports it sets logging up

__all__ = ["Constant", "Gaussian", "Laplacian", "Linear", "Quadratic", "RampUp", "Threshold", "TruncatedGaussian"]
__all__ += ["TruncatedLaplacian", "Weighting", "weight_curve"]
__all__ += ["CurriculumThreshold", "LossThreshold", "RelativeThreshold", "SelfAdaptiveThreshold"]
__all__ += ["Alignment", "EstimatedAlignment", "NoAlignment", "RunningAverage", "Seen", "momentum_for"]
__all__ += ["METHODS", "Match", "Method", "Problem", "Supervised", "build"]
__all__ += ["PseudoLabelMeter", "PseudoLabels", "class_quality", "quality", "quantity"]
__all__ += ["Classifier", "InputError", "LearningCurve", "Listener", "Model", "Result", "SoftmatchError", "TrackedRun"]
__all__ += ["PairBatch", "PairLoader", "TrainingError"]
__all__ += [
    "cold_start",
    "distil",
    "export",
    "learning_curve",
    "load_model",
    "plot",
    "predict",
    "suggest",
    "train",
    "write_pseudo_labels",
]
__all__ += ["alignments", "averages", "methods", "metrics", "targets", "thresholds", "views", "weightings"]

_HOMES = {
    "alignments": "Alignment EstimatedAlignment NoAlignment",
    "averages": "RunningAverage momentum_for",
    "classifier": "Classifier",
    "data.pairs": "PairBatch PairLoader",
    "errors": "InputError SoftmatchError TrainingError",
    "inference.distil": "distil",
    "inference.export": "export",
    "inference.predict": "predict",
    "inference.pseudo_labels": "write_pseudo_labels",
    "inference.suggest": "cold_start suggest",
    "methods": "METHODS Match Method Problem Supervised build",
    "metrics": "PseudoLabelMeter PseudoLabels class_quality quality quantity",
    "report.drawn_charts": "plot",
    "runs.model": "Model load_model",
    "step": "Seen",
    "thresholds": "CurriculumThreshold LossThreshold RelativeThreshold SelfAdaptiveThreshold",
    "training.job": "Result train",
    "training.learning_curve": "LearningCurve learning_curve",
    "training.tracking": "Listener TrackedRun",
    "weightings": "Constant Gaussian Laplacian Linear Quadratic RampUp Threshold TruncatedGaussian TruncatedLaplacian "
    "Weighting weight_curve",
}
"""Modules with the public names that each defines; all other public names are modules."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'softmatch' has no attribute {name!r}")
    home = next((module for module, names in _HOMES.items() if name in names.split()), None)
    found = importlib.import_module(f"softmatch.{home or name}")
    return found if home is None else getattr(found, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
