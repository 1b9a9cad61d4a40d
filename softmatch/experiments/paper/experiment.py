"""A table or figure of the paper as data: claims, the two scales, and rows, columns and sentences that several share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from softmatch.experiments.paper.published_numbers import Published
from softmatch.experiments.sheet import Column, Row, Run, Sheet


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper: `row` has less of the measure than `other` ("lower"), more ("higher"), or as much ("close")."""

    kind: Literal["lower", "higher", "close"]
    row: str
    other: str
    text: str
    measure: str = "error"  # a key of `softmatch.experiments.results.collect.MEASURES`
    against: str | None = None  # measure of `other`, if it is another one
    columns: Sequence[str] = ()  # titles; empty: all columns
    but: Sequence[str] = ()  # titles of columns that the paper excludes

    def is_about(self, column: str) -> bool:
        return (not self.columns or column in self.columns) and column not in self.but


lower, higher, close = partial(Claim, "lower"), partial(Claim, "higher"), partial(Claim, "close")


def against_both(kind: Literal["lower", "higher"], text: str, measure: str = "error") -> tuple[Claim, ...]:
    """Claims that SoftMatch has less or more of a measure than FixMatch and FlexMatch, whose name takes the place of {}."""
    return tuple(Claim(kind, "SoftMatch", other, text.format(other), measure) for other in ("FixMatch", "FlexMatch"))


LOWER_ERROR = against_both("lower", "SoftMatch has a lower error than {}")

Scale = Literal["laptop", "paper"]
Settings = Mapping[str, Any]

PAPER_SEEDS, LAPTOP_SEEDS = (0, 1, 2), (0, 1, 2, 3, 4)
"""Seeds of most of the paper's tables, and of everything at laptop scale."""
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
ADAM: Settings = {"optimizer": "adam", "lr": 0.002, "weight_decay": 4e-5, "decay": "shrink"}
LONG_TAILED: Settings = {**SMALL, **ADAM, "unlabeled_batch": 32}
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


def seconds(run: Run) -> float:
    """Rough duration of a run at laptop scale."""
    return (LONG_TAILED_SECONDS if "imbalance" in run.settings else SECONDS)[run.source]


ALONE = {"baseline": False}
"""The baseline is a row of its own where it is wanted."""


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Attributes:
        name: argument of `softmatch reproduce`.
        sheets: runs by scale; a figure of several panels has several sheets, an illustration none.
        published: the paper's numbers, by row and column of the paper's own scale.
        beside: title of a laptop's column → title of the paper's column whose number is shown beside it.
        claims: sentences of the paper about it.
        differs: sentences on how the laptop scale differs from the paper.
        open: sentences on what the paper does not say, or what was added, at both scales.
    """

    name: str
    where: str
    title: str
    sheets: Mapping[Scale, Sequence[Sheet]]
    published: Published = field(default_factory=dict)
    beside: Mapping[str, str] = field(default_factory=dict)
    claims: Sequence[Claim] = ()
    differs: Sequence[str] = ()
    open: Sequence[str] = ()

    @property
    def is_figure(self) -> bool:
        return self.name.startswith("fig-")

    def published_at(self, scale: Scale) -> Published:
        """The paper's numbers by row and column of a scale."""
        if scale == "paper":
            return self.published
        places = {theirs: ours for ours, theirs in self.beside.items()}
        return {(row, places[column]): cell for (row, column), cell in self.published.items() if column in places}


def method(name: str, method: str, **options: object) -> Row:
    """A row that is a method with options."""
    return Row(name, {"method": method, **({"method_options": options} if options else {})})


THREE = tuple(method(name, name.lower()) for name in ("FixMatch", "FlexMatch", "SoftMatch"))
FUNCTIONS = (
    *(method(name, f"softmatch.weightings:{name}") for name in ("Linear", "Quadratic", "Laplacian", "Gaussian")),
    method("Truncated Laplacian", "softmatch.weightings:TruncatedLaplacian"),
    method("Truncated Gaussian", "softmatch"),
)
"""Weighting functions instead of SoftMatch's λ, with uniform alignment, as in the paper."""


def sheet(title: str, rows: Sequence[Row], columns: Sequence[Column], seeds: Sequence[int], name: str = "") -> Sheet:
    """A sheet of an experiment, by default with its title; the name tells it from the other sheets."""
    return Sheet(name, title, rows, columns, seeds, ALONE)


def sheets(
    rows: Sequence[Row],
    at_paper: Sequence[Column],
    at_laptop: Sequence[Column],
    seeds: Sequence[int] = PAPER_SEEDS,
    title: str = "",
) -> dict[Scale, Sequence[Sheet]]:
    """One sheet with the same rows at both scales; `seeds` are the paper's."""
    return {"paper": [sheet(title, rows, at_paper, seeds)], "laptop": [sheet(title, rows, at_laptop, LAPTOP_SEEDS)]}


C10_40, C10_250, SVHN_40 = paper("cifar10", 40), paper("cifar10", 250), paper("svhn", 40)
SMALL_C10_250, SMALL_FASHION, SMALL_DIGITS = laptop("cifar10", 250), laptop("fashion-mnist", 40), laptop("digits", 40)
PLACES = {SMALL_FASHION.title: C10_40.title, SMALL_DIGITS.title: SVHN_40.title}
"""Laptop columns of the ablations, and the paper's columns that they replace."""
NO_CIFAR = (
    "Fashion-MNIST with 40 labels replaces CIFAR-10, where no method gains from unlabelled images in so few steps (table-main)"
)
IN_PLACES = f"{NO_CIFAR}, and the embedded digits replace SVHN."
FEW_STEPS = (
    "CIFAR-10 and Fashion-MNIST: small-conv-8, 960 and 600 steps of 16 + 48 images, separate batch statistics. Digits: "
    "small-conv-16, 300 steps of 40 + 96 images, joint batch statistics. The paper's networks are much larger and its "
    "runs at least a thousand times longer: errors are far from the paper's, only the order of the rows can be compared."
)
SHORT = "Averages span 10 to 24 steps and forget their initial values, since the paper's momentum of 0.999 would outlast the run."
