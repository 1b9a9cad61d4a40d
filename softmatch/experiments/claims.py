"""What the paper says about an experiment, and whether measured runs say the same: paired over seeds, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from softmatch.experiments.sheet import Sheet
from softmatch.experiments.store import Store

if TYPE_CHECKING:
    from softmatch.experiments.statistics import Difference

Verdict = Literal["holds", "leans that way", "not seen", "the opposite", "no difference seen", "differs", "not measured"]
"""Of a "lower" or "higher" claim: holds where the difference is more than chance, leans that way where it has the sign only, not
seen where it has the other sign, the opposite where that is more than chance. Of a "close" claim: no difference seen,
or differs."""

FEWEST = 3
"""Seeds below which nothing is said: two that happen to agree make any difference look sure."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper about two rows, in every column unless it names some.

    Attributes:
        row, other: `row` has less of the measure than `other` ("lower"), more ("higher"), or about as much ("close").
        measure: one of `softmatch.experiments.measures.MEASURES`.
        against: the measure of `other`, where it is another one.
        columns: titles of those that it is about; empty: all.
        but: titles of those that the paper takes out.
    """

    text: str
    row: str
    other: str
    kind: Literal["lower", "higher", "close"]
    measure: str = "error"
    against: str | None = None
    columns: Sequence[str] = ()
    but: Sequence[str] = ()

    def is_about(self, column: str) -> bool:
        return (not self.columns or column in self.columns) and column not in self.but


def lower(
    row: str,
    other: str,
    *,
    text: str,
    measure: str = "error",
    against: str | None = None,
    columns: Sequence[str] = (),
    but: Sequence[str] = (),
) -> Claim:
    """`row` has less than `other`."""
    return Claim(text, row, other, "lower", measure, against, columns, but)


def higher(row: str, other: str, *, text: str, measure: str) -> Claim:
    """`row` has more than `other`."""
    return Claim(text, row, other, "higher", measure)


def close(row: str, other: str, *, text: str, columns: Sequence[str] = ()) -> Claim:
    """`row` has about as much as `other`."""
    return Claim(text, row, other, "close", columns=columns)


@dataclass(frozen=True)
class Finding:
    """A claim in a column.

    Attributes:
        difference: `claim.row` − `claim.other`, of the measure.
    """

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
        text = f"{_points(found.mean)} points"
        if found.interval is not None and found.p is not None:
            low, high = found.interval
            text += f" ({_points(low)} to {_points(high)}), p {'< 0.001' if found.p < 0.001 else f'= {found.p:.3f}'}"
        return f"{text}, n = {found.n}"


def judge(claims: Sequence[Claim], sheet: Sheet, store: Store) -> list[Finding]:
    """What the finished runs of a sheet say about claims whose rows it has, in each of its columns."""
    from softmatch.experiments.collecting import collect  # imports torch; the claims themselves are data
    from softmatch.experiments.statistics import paired_difference

    rows = {row.name for row in sheet.rows}
    found = []
    for claim in claims:
        if not {claim.row, claim.other} <= rows:
            continue
        results = collect(sheet, store, claim.measure)
        others = results if claim.against is None else collect(sheet, store, claim.against)
        for column in (column for column in sheet.columns if claim.is_about(column.title)):
            ours, theirs = results.cell(claim.row, column.title), others.cell(claim.other, column.title)
            if ours is not None and theirs is not None:
                difference = paired_difference(ours, theirs)
                found.append(Finding(claim, column.title, difference, _verdict(claim, difference)))
    return found


def _verdict(claim: Claim, difference: Difference) -> Verdict:
    from softmatch.experiments.statistics import LEVEL

    if difference.mean is None or difference.n < FEWEST:
        return "not measured"
    # p is unknown where all seeds differ by the same number, which no test of means can judge
    sure = difference.p is not None and difference.p < 1 - LEVEL
    if claim.kind == "close":
        return "differs" if sure else "no difference seen"
    if difference.mean < 0 if claim.kind == "lower" else difference.mean > 0:
        return "holds" if sure else "leans that way"
    return "the opposite" if sure else "not seen"


def _points(share: float) -> str:
    return f"{100 * share:+.2f}".replace("-", "−")
