"""Differences between rows by paired t-tests over seeds: rankings with Holm's correction, and verdicts on claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal

from softmatch.experiments.paper.experiment import Claim
from softmatch.experiments.results.collect import MEASURES, Cell, Measure, Results, collect
from softmatch.experiments.sheet import Sheet
from softmatch.experiments.store import Store

LEVEL = 0.95  # confidence of intervals; a difference is more than chance if p < 1 − LEVEL
ROUNDING = 1e-12  # differences that vary by less than this share of the values are the same number


@dataclass(frozen=True)
class Difference:
    """Paired difference of two rows over the seeds that both have."""

    mean: float | None = None
    interval: tuple[float, float] | None = None  # None, as p is, with one seed, or where all differ by the same number
    p: float | None = None
    n: int = 0  # common seeds
    corrected: float | None = None  # p after Holm's correction over the rows of a column

    @property
    def distinguishable(self) -> bool:
        """True if the difference is more than chance after correction; False if it cannot be tested."""
        return self.corrected is not None and self.corrected < 1 - LEVEL

    def in_words(self, measure: Measure) -> tuple[str, str]:
        """Mean and interval, '+0.31' and '+0.12 to +0.50'; a dash for what is missing."""
        mean, *bounds = (measure.shown(value, "+") for value in (self.mean, *(self.interval or (None,))))
        return mean, " to ".join(bounds)


def paired_difference(first: Mapping[int, float], second: Mapping[int, float]) -> Difference:
    """first − second, seed by seed: the same seed draws the same labelled samples in every row."""
    seeds = [seed for seed in first if seed in second]
    ours, theirs = ([values[seed] for seed in seeds] for values in (first, second))
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    if not seeds:
        return Difference()
    mean, n = fmean(differences), len(seeds)
    tolerance = ROUNDING * max(map(abs, ours + theirs))
    if n > 1 and max(map(abs, differences)) <= tolerance:
        return Difference(0.0, (0.0, 0.0), 1.0, n)
    if n < 2 or max(differences) - min(differences) <= tolerance:
        return Difference(mean, n=n)
    from scipy.stats import ttest_rel

    test = ttest_rel(ours, theirs)
    low, high = test.confidence_interval(LEVEL)
    return Difference(mean, (float(low), float(high)), float(test.pvalue), n)


def probability(p: float | None) -> str:
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def holm(probabilities: Sequence[float]) -> list[float]:
    """Holm's correction of several tests, in the same order."""
    order = sorted(range(len(probabilities)), key=lambda place: probabilities[place])
    corrected, largest = [0.0] * len(order), 0.0
    for rank, place in enumerate(order):
        corrected[place] = largest = max(largest, min(1.0, (len(order) - rank) * probabilities[place]))
    return corrected


@dataclass(frozen=True)
class Ranking:
    """Best rows of a column, and the differences of the other rows that share a seed with them."""

    best: tuple[str, ...] = ()  # among rows with all seeds; more than one only where means are equal
    tests: Mapping[str, Difference] = field(default_factory=dict)  # row − best

    def is_close(self, row: str) -> bool:
        """True if a row is not distinguishable from the best."""
        return row in self.tests and not self.tests[row].distinguishable

    @property
    def is_clear(self) -> bool:
        """True if the best is distinguishable from every other row."""
        return bool(self.best) and bool(self.tests) and all(test.distinguishable for test in self.tests.values())


def rank(results: Results) -> dict[str, Ranking]:
    """Rankings by the title of the column."""
    sign = 1 if results.measure.better == "lower" else -1
    return {column.title: _ranking(results.column(column.title), sign) for column in results.sheet.columns}


def _ranking(cells: Sequence[Cell], sign: int) -> Ranking:
    means = {cell.row.name: sign * cell.mean for cell in cells if not cell.missing and cell.mean is not None}
    if not means:
        return Ranking()
    lowest = min(means.values())
    best = tuple(name for name, mean in means.items() if mean - lowest <= ROUNDING * abs(lowest))
    reference = next(cell.values for cell in cells if cell.row.name == best[0])
    others = {cell.row.name: paired_difference(cell.values, reference) for cell in cells if cell.row.name not in best}
    tested = {name: other.p for name, other in others.items() if other.p is not None}
    corrected = dict(zip(tested, holm(list(tested.values())), strict=True))
    return Ranking(best, {name: replace(other, corrected=corrected.get(name)) for name, other in others.items() if other.n})


Verdict = Literal["holds", "leans that way", "not seen", "the opposite", "no difference seen", "differs", "not measured"]
"""For a "lower" or "higher" claim: holds if the difference is more than chance, leans that way if only its sign agrees, not seen
if the sign is the other one, the opposite if that is more than chance. For a "close" claim: no difference seen, or differs."""

FEWEST = 3  # seeds below which nothing is said: two that happen to agree make any difference look certain


@dataclass(frozen=True)
class Finding:
    """A claim in a column; the difference is `claim.row` − `claim.other`."""

    claim: Claim
    column: str
    difference: Difference
    verdict: Verdict

    @property
    def figures(self) -> str:
        """'−1.25 points (−2.10 to −0.40), p = 0.013, n = 5'."""
        found = self.difference
        if found.mean is None:
            return "no common seeds"
        mean, interval = found.in_words(MEASURES[self.claim.measure])
        p = probability(found.p)
        tested = "" if found.p is None else f" ({interval}), p {p if p.startswith('<') else f'= {p}'}"
        return f"{mean} points{tested}, n = {found.n}"


def judge(claims: Sequence[Claim], sheet: Sheet, store: Store) -> list[Finding]:
    """Test the claims whose rows a sheet has on its finished runs, in each of its columns."""
    measures = {name for claim in claims for name in (claim.measure, claim.against or claim.measure)}
    results = {name: collect(sheet, store, name) for name in measures}
    found = []
    for claim in claims:
        for title in (column.title for column in sheet.columns if claim.is_about(column.title)):
            ours = results[claim.measure].cells.get((claim.row, title))
            theirs = results[claim.against or claim.measure].cells.get((claim.other, title))
            if ours is not None and theirs is not None:
                difference = paired_difference(ours.values, theirs.values)
                found.append(Finding(claim, title, difference, _verdict(claim, difference)))
    return found


def _verdict(claim: Claim, difference: Difference) -> Verdict:
    if difference.mean is None or difference.n < FEWEST:
        return "not measured"
    # p is unknown where all seeds differ by the same number, which no test of means can judge
    sure = difference.p is not None and difference.p < 1 - LEVEL
    if claim.kind == "close":
        return "differs" if sure else "no difference seen"
    if difference.mean < 0 if claim.kind == "lower" else difference.mean > 0:
        return "holds" if sure else "leans that way"
    return "the opposite" if sure else "not seen"
