"""The two scales of the paper's experiments as columns of sheets: the paper's own settings, and small ones for two cores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from softmatch.experiments.sheet import Column, Run

Scale = Literal["laptop", "paper"]
Settings = Mapping[str, Any]

PAPER_SEEDS, LAPTOP_SEEDS, TABLE_SEEDS = (0, 1, 2), (0, 1, 2, 3, 4), (0, 1, 2, 3, 4)
"""Seeds of the paper's tables, of everything at laptop scale, and of the paper's long-tailed table."""
ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
"""Text encoder at laptop scale: 22.7 million parameters, six layers, frozen; the paper trains BERT-Base."""

EMBEDDED = ("digits", "two-moons")
"""Sources that need no files."""
SECONDS: Mapping[str, float] = {"digits": 8.0, "two-moons": 6.0, "fashion-mnist": 28.0, "cifar10": 48.0, "agnews": 20.0}
LONG_TAILED_SECONDS: Mapping[str, float] = {**SECONDS, "cifar10": 35.0}
"""Rough duration of a run at laptop scale with one thread, measured for docs/results on two busy cores."""

SMALL: Settings = {"network": "small-conv-8", "labeled_batch": 16, "unlabeled_batch": 48, "steps": 600, "evaluate_every": 100}
"""Settings for images at laptop scale, with six records."""
LONGER: Settings = {**SMALL, "steps": 960, "evaluate_every": 160}
"""Settings for CIFAR-10, where no method gains from unlabelled images within 600 steps."""
DIGITS: Settings = {"network": "small-conv-16", "steps": 300, "evaluate_every": 50}
LONG_TAILED: Settings = {
    **SMALL,
    "unlabeled_batch": 32,
    "optimizer": "adam",
    "lr": 0.002,
    "weight_decay": 4e-5,
    "decay": "shrink",
}
"""Settings for long-tailed data: the paper's optimiser and its ratio of unlabelled to labelled samples."""

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
    """The paper's setting for a source and a number of labels; on CIFAR-10 its figures need a record for each epoch."""
    settings = {"recipe": "paper", "labels": labels, **({"evaluate_every": EPOCH} if source == "cifar10" else {})}
    return Column(f"{labels:,}", source, settings, TITLES[source])


def paper_long_tailed(source: str, gamma: int) -> Column:
    return Column(f"γ = {gamma}", source, {"recipe": "paper", "imbalance": gamma}, f"{TITLES[source]}-LT")


def laptop(source: str, labels: int) -> Column:
    """A small setting for a source and a number of labels."""
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
    """Rough duration of a run at laptop scale."""
    return (LONG_TAILED_SECONDS if "imbalance" in run.settings else SECONDS)[run.source]
