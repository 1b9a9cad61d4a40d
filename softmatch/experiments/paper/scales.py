"""Where the paper's experiments are run: its own settings, and a laptop's, as columns of sheets.

The laptop's columns are small enough for two cores: small networks, a few hundred steps. They take the paper's data sets where
these are small to get (CIFAR-10, AG News), and Fashion-MNIST and the embedded digits in the place of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from softmatch.experiments.sheet import Column, Run

Scale = Literal["laptop", "paper"]
Settings = Mapping[str, Any]

PAPER_SEEDS, LAPTOP_SEEDS, TABLE_SEEDS = (0, 1, 2), (0, 1, 2, 3, 4), (0, 1, 2, 3, 4)
"""Of the paper's tables; of everything at a laptop's scale; of the paper's long-tailed table."""
ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
"""Of texts at a laptop's scale: 22.7 million parameters, six layers. Frozen; the paper trains BERT-Base."""

EMBEDDED = ("digits", "two-moons")
"""Sources that need no files."""
SECONDS: Mapping[str, float] = {"digits": 8.0, "two-moons": 6.0, "fashion-mnist": 28.0, "cifar10": 48.0, "agnews": 20.0}
LONG_TAILED_SECONDS: Mapping[str, float] = {**SECONDS, "cifar10": 35.0}
"""Of a run at a laptop's scale with one thread, about: those of docs/results, on two cores that had other work too."""

SMALL: Settings = {"network": "small-conv-8", "labeled_batch": 16, "unlabeled_batch": 48, "steps": 600, "evaluate_every": 100}
"""Of images at a laptop's scale: six records."""
LONGER: Settings = {**SMALL, "steps": 960, "evaluate_every": 160}
"""Of CIFAR-10, where in 600 steps nothing gains from unlabelled images yet."""
DIGITS: Settings = {"network": "small-conv-16", "steps": 300, "evaluate_every": 50}
LONG_TAILED: Settings = {
    **SMALL,
    "unlabeled_batch": 32,
    "optimizer": "adam",
    "lr": 0.002,
    "weight_decay": 4e-5,
    "decay": "shrink",
}
"""The paper's optimiser for long-tailed data, and as many times more unlabelled than labelled samples as it takes."""

TITLES = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "svhn": "SVHN",
    "stl10": "STL-10",
    "imagenet": "ImageNet",
    "fashion-mnist": "Fashion-MNIST",
    "digits": "Digits",
    "agnews": "AG News",
    "dbpedia": "DBpedia",
    "imdb": "IMDb",
    "amazon-5": "Amazon-5",
    "yelp-5": "Yelp-5",
    "two-moons": "Two moons",
}


EPOCH = 1024
"""Steps that the paper's figures of early training call an epoch."""


def paper(source: str, labels: int) -> Column:
    """The paper's setting for a source, with so many labels; on CIFAR-10 its figures need a record for each epoch."""
    settings = {"recipe": "paper", "labels": labels, **({"evaluate_every": EPOCH} if source == "cifar10" else {})}
    return Column(f"{labels:,}", source, settings, TITLES[source])


def paper_long_tailed(source: str, gamma: int) -> Column:
    return Column(f"γ = {gamma}", source, {"recipe": "paper", "imbalance": gamma}, f"{TITLES[source]}-LT")


def laptop(source: str, labels: int) -> Column:
    """A small setting for a source, with so many labels."""
    settings = {"digits": DIGITS, "cifar10": LONGER}.get(source, SMALL)
    return Column(f"{labels:,}", source, {**settings, "labels": labels}, TITLES[source])


def laptop_long_tailed(source: str, gamma: int) -> Column:
    if source == "digits":  # there are 180 of a class
        settings = {**DIGITS, "imbalance": gamma, "largest_class_labels": 20, "largest_class_unlabeled": 80}
    else:
        settings = {**LONG_TAILED, "imbalance": gamma}
    return Column(f"γ = {gamma}", source, settings, f"{TITLES[source]}-LT")


def laptop_text(source: str, labels: int) -> Column:
    return Column(f"{labels:,}", source, {"labels": labels, "encoder": ENCODER}, TITLES[source])


MOONS = Column("4", "two-moons", {}, TITLES["two-moons"])
"""The source's defaults are the paper's setting, which is small enough for every machine."""


def seconds(run: Run) -> float:
    """That a run at a laptop's scale takes, about."""
    return (LONG_TAILED_SECONDS if "imbalance" in run.settings else SECONDS)[run.source]
