"""Claims tested on finished runs: paired over seeds, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from softmatch.experiments.paper.experiment import Claim
from softmatch.experiments.results.collect import collect, measure_named
from softmatch.experiments.results.layout import in_words, probability
from softmatch.experiments.results.statistics import LEVEL, Difference, paired_difference
from softmatch.experiments.sheet import Sheet
from softmatch.experiments.store import Store

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
        mean, interval = in_words(found, measure_named(self.claim.measure))
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
            ours = results[claim.measure].cell(claim.row, title)
            theirs = results[claim.against or claim.measure].cell(claim.other, title)
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
