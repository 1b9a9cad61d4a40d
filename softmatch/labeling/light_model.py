"""The light model: a logistic regression on the features, fitted again after every label."""

import warnings
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from softmatch.inference.clusters import Array
from softmatch.seeds import derive

MOST_FITTED = 3000
"""Labels that the light model uses at most."""
REGULARIZATION = 0.1
"""Inverse strength at which the confidence of the light model was about its accuracy, with 30 to 300 labels on three sets."""


class Head(NamedTuple):
    """Predictions of the light model on all samples with features: classes, and probabilities (n, C)."""

    classes: list[str]
    probs: Array

    def likeliest(self, rows: Any) -> tuple[str, float]:
        """Likeliest class of a row, or of several together, and its probability."""
        probs = np.atleast_2d(self.probs[rows]).mean(0)
        return self.classes[int(probs.argmax())], float(probs.max())

    def of_one_class(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Rows that the model takes for the likeliest class of them all."""
        return rows[self.probs[rows].argmax(1) == self.probs[rows].mean(0).argmax()] if len(rows) else rows


def fit_head(features: Array, rows: npt.NDArray[np.int64], labels: list[str], seed: int) -> Head | None:
    """Fit a logistic regression to the labelled rows; None where they are of one class."""
    classes = sorted(set(labels))
    if len(classes) < 2:
        return None
    if len(rows) > MOST_FITTED:
        some = np.random.default_rng(derive(seed, "head")).permutation(len(rows))[:MOST_FITTED]
        rows, labels = rows[some], [labels[k] for k in some]
    model = fitted(features[rows], labels)
    return Head([str(name) for name in model.classes_], np.asarray(model.predict_proba(features), dtype=np.float32))


def fitted(features: Array, labels: list[str]) -> Any:
    """Logistic regression on features of one scale."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=REGULARIZATION, max_iter=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged: it is fitted again after the next label
        return model.fit(features, labels)
