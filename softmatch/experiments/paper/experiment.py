"""A table or figure of the paper as data; and rows, columns and sentences that several of them share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from softmatch.experiments.claims import Claim
from softmatch.experiments.paper.paper_numbers import Published
from softmatch.experiments.paper.scales import LAPTOP_SEEDS, PAPER_SEEDS, Scale, laptop, paper
from softmatch.experiments.sheet import Column, Row, Sheet

ALONE = {"baseline": False}
"""The baseline is a row of its own where it is wanted."""


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Attributes:
        name: argument of `softmatch reproduce`.
        where: its number in the paper.
        sheets: runs by scale; a figure of several panels has several sheets, an illustration none.
        published: the paper's numbers, by row and column of the paper's own scale.
        beside: title of a laptop's column → title of the paper's column whose number is shown beside it.
        claims: sentences of the paper about it.
        figure: True for a figure, False for a table.
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
    figure: bool = False
    differs: Sequence[str] = ()
    open: Sequence[str] = ()

    def published_at(self, scale: Scale) -> Published:
        """The paper's numbers by row and column of a scale."""
        if scale == "paper":
            return self.published
        places = {theirs: ours for ours, theirs in self.beside.items()}
        return {(row, places[column]): cell for (row, column), cell in self.published.items() if column in places}


def method(name: str, method: str, **options: object) -> Row:
    """A row that is a method with options."""
    return Row(name, {"method": method, **({"method_options": options} if options else {})})


SUPERVISED = method("Labels alone", "supervised")
FIXMATCH, FLEXMATCH, SOFTMATCH = (
    method("FixMatch", "fixmatch"),
    method("FlexMatch", "flexmatch"),
    method("SoftMatch", "softmatch"),
)
THREE = (FIXMATCH, FLEXMATCH, SOFTMATCH)
FUNCTIONS = (
    method("Linear", "softmatch.weightings:Linear"),
    method("Quadratic", "softmatch.weightings:Quadratic"),
    method("Laplacian", "softmatch.weightings:Laplacian"),
    method("Gaussian", "softmatch.weightings:Gaussian"),
    method("Truncated Laplacian", "softmatch.weightings:TruncatedLaplacian"),
    method("Truncated Gaussian", "softmatch"),
)
"""Weighting functions instead of SoftMatch's λ, with uniform alignment, as in the paper."""


def sheet(title: str, rows: Sequence[Row], columns: Sequence[Column], seeds: Sequence[int], name: str = "") -> Sheet:
    """A sheet of an experiment; its name tells it from the other sheets."""
    return Sheet(name, title, rows, columns, seeds, ALONE)


def sheets(
    title: str,
    rows: Sequence[Row],
    at_paper: Sequence[Column],
    at_laptop: Sequence[Column],
    seeds: Sequence[int] = PAPER_SEEDS,
) -> dict[Scale, Sequence[Sheet]]:
    """One sheet with the same rows at both scales; `seeds` are the paper's."""
    return {"paper": [sheet(title, rows, at_paper, seeds)], "laptop": [sheet(title, rows, at_laptop, LAPTOP_SEEDS)]}


C10_40, C10_250, SVHN_40 = paper("cifar10", 40), paper("cifar10", 250), paper("svhn", 40)
SMALL_C10_250, SMALL_FASHION, SMALL_DIGITS = laptop("cifar10", 250), laptop("fashion-mnist", 40), laptop("digits", 40)
PLACES = {SMALL_FASHION.title: C10_40.title, SMALL_DIGITS.title: SVHN_40.title}
"""Laptop columns of the ablations, and the paper's columns that they replace."""
ABLATED = {SMALL_FASHION.title: C10_250.title}
"""The same for the paper's three small ablations."""
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
