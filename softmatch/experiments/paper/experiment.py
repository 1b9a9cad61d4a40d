"""What a table or figure of the paper is, as data; and the rows, columns and sentences that several of them share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from softmatch.experiments.claims import Claim
from softmatch.experiments.paper.published import Published
from softmatch.experiments.paper.scales import LAPTOP_SEEDS, PAPER_SEEDS, Scale, laptop, paper
from softmatch.experiments.sheet import Column, Row, Sheet

ALONE = {"baseline": False}
"""Labels alone are a row of their own where they are wanted."""


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Attributes:
        name: as of `softmatch reproduce`.
        where: in the paper.
        title: what it shows.
        sheets: what is run, by scale; a figure of several panels has several, an illustration none.
        published: the paper's numbers, by row and column of the paper's own scale.
        beside: title of a laptop's column → title of the paper's column whose number stands beside it.
        claims: what the paper says about it.
        figure: it is drawn; otherwise it is a table.
        differs: what a laptop's scale does in another way than the paper, in sentences.
        open: what the paper does not say, or was added to it, at both scales.
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
"""In the place of SoftMatch's λ, with uniform alignment, as in the paper."""


def sheet(title: str, rows: Sequence[Row], columns: Sequence[Column], seeds: Sequence[int], name: str = "") -> Sheet:
    """Of an experiment; the name tells it from the experiment's others."""
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
"""What the ablations are run on, at both scales."""
ABLATED = {SMALL_FASHION.title: C10_250.title}
"""What stands in the place of what the paper's three small ablations are run on."""
NO_CIFAR = (
    "Fashion-MNIST with 40 labels stands in the place of CIFAR-10, where no method gains from unlabelled images in so few steps "
    "(table-main)"
)
IN_PLACES = f"{NO_CIFAR}, and the embedded digits in that of SVHN."
FEW_STEPS = (
    "CIFAR-10 and Fashion-MNIST: small-conv-8, 960 and 600 steps of 16 + 48 images, separate batch statistics. Digits: "
    "small-conv-16, 300 steps of 40 + 96 images, joint batch statistics. The paper's networks are much larger and its "
    "runs a thousand times longer and more: errors are far from the paper's, only the order of the rows can be compared."
)
SHORT = "Averages span 10 to 24 steps and forget their initial values, since the paper's momentum of 0.999 would outlast the run."
