"""Which differences between rows are more than chance: paired tests over seeds.

The same seed draws the same labelled samples in every row, so rows are compared seed by seed: the paired two-sided t-test. In
each column the best mean is compared with every other row, and Holm's correction lets one in twenty columns, not one in twenty
rows, call a difference that is none. That the best was chosen by the same values is not corrected for: it makes differences look
a little larger than they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from softmatch.experiments.collecting import Cell, Results

LEVEL = 0.95
"""Of intervals; what is more probable than 1 − LEVEL under chance alone is no difference."""
ROUNDING = 1e-12
"""Differences that vary by less than this share of the values are the same number."""


@dataclass(frozen=True)
class Difference:
    """Of two rows over the seeds that both have.

    Attributes:
        mean: of first − second; None without a common seed.
        interval: of the mean, at LEVEL. None where nothing can be said: with fewer than two seeds, or where the differences
            of all seeds are the same number other than zero, which no test of means can judge.
        p: probability of at least such a mean under chance alone; None as for `interval`, 1 where all values are the same.
        n: common seeds.
    """

    mean: float | None
    interval: tuple[float, float] | None
    p: float | None
    n: int


Values = Cell | Mapping[int, float]


def paired_difference(first: Values, second: Values) -> Difference:
    """first − second, seed by seed.

    Args:
        first, second: cells, or values by seed. Seeds that only one of them has are left out.
    """
    ours, theirs = (given.values if isinstance(given, Cell) else given for given in (first, second))
    seeds = [seed for seed in ours if seed in theirs]
    differences = [ours[seed] - theirs[seed] for seed in seeds]
    n = len(seeds)
    if not n:
        return Difference(None, None, None, 0)
    mean = math.fsum(differences) / n
    if n < 2:
        return Difference(mean, None, None, n)
    largest = max(abs(value) for seed in seeds for value in (ours[seed], theirs[seed]))
    if max(differences) - min(differences) <= ROUNDING * largest:
        same = abs(mean) <= ROUNDING * largest
        return Difference(0.0, (0.0, 0.0), 1.0, n) if same else Difference(mean, None, None, n)
    error = math.sqrt(math.fsum((each - mean) ** 2 for each in differences) / (n - 1) / n)
    return Difference(mean, *_student(mean, error, n - 1), n)


def _student(mean: float, error: float, freedom: int) -> tuple[tuple[float, float], float]:
    """Interval of a mean, and p of a mean that is zero, by Student's t."""
    from scipy.special import stdtr, stdtrit  # comes with scikit-learn; much faster to import than scipy.stats

    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error
    return (mean - half, mean + half), float(2 * stdtr(freedom, -abs(mean / error)))


def holm(probabilities: Sequence[float]) -> list[float]:
    """Holm's correction of several tests, in the same order."""
    order = sorted(range(len(probabilities)), key=lambda place: probabilities[place])
    corrected, largest = [0.0] * len(order), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * probabilities[place]))
        corrected[place] = largest
    return corrected


@dataclass(frozen=True)
class Test:
    """A row against the best of its column.

    Attributes:
        difference: row − best.
        p: of the difference after Holm's correction; None where it cannot be tested.
    """

    __test__ = False  # no test of pytest's

    difference: Difference
    p: float | None

    @property
    def distinguishable(self) -> bool:
        """What cannot be tested is not."""
        return self.p is not None and self.p < 1 - LEVEL


@dataclass(frozen=True)
class Ranking:
    """A column.

    Attributes:
        best: rows with the best mean among those with all seeds, more than one only where they are equal; empty where no row
            has all seeds. A row that lacks seeds is never the best: its mean is one of other, perhaps easier draws.
        tests: by row, all others that have a seed in common with the best.
    """

    best: tuple[str, ...] = ()
    tests: Mapping[str, Test] = field(default_factory=dict)

    def is_close(self, row: str) -> bool:
        """Whether a row is not distinguishable from the best."""
        return row in self.tests and not self.tests[row].distinguishable

    @property
    def is_clear(self) -> bool:
        """The best is distinguishable from every other row."""
        return bool(self.best) and bool(self.tests) and all(test.distinguishable for test in self.tests.values())


def rank(results: Results) -> dict[str, Ranking]:
    """The best row of every column and what can be said of the others, by the title of the column."""
    sign = 1 if results.measure.better == "lower" else -1
    return {column.title: _ranking(results.column(column.title), sign) for column in results.sheet.columns}


def _ranking(cells: Sequence[Cell], sign: int) -> Ranking:
    means = {cell.row.name: sign * cell.mean for cell in cells if cell.complete and cell.mean is not None}
    if not means:
        return Ranking()
    lowest = min(means.values())
    best = tuple(name for name, mean in means.items() if mean - lowest <= ROUNDING * abs(lowest))
    reference = next(cell for cell in cells if cell.row.name == best[0])
    differences = {cell.row.name: paired_difference(cell, reference) for cell in cells if cell.row.name not in best}
    differences = {name: difference for name, difference in differences.items() if difference.n}
    tested = {name: difference.p for name, difference in differences.items() if difference.p is not None}
    corrected = dict(zip(tested, holm(list(tested.values())), strict=True))
    return Ranking(best, {name: Test(difference, corrected.get(name)) for name, difference in differences.items()})
