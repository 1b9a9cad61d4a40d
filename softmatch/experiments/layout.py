"""A sheet's results as words and numbers to be set: the same in Markdown, LaTeX, on the page and in the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from softmatch.experiments.collecting import Cell, Entry, Results
from softmatch.experiments.measures import Measure
from softmatch.experiments.sheet import Column
from softmatch.experiments.statistics import LEVEL, Difference, Ranking, rank

MINUS = "\u2212"
BLOCK = 10
"""Columns that stand side by side in a table of a document."""

NAMED = 4
"""Rows that a headline names."""

Published = Mapping[tuple[str, str], str]
"""Numbers of a paper, by the name of a row and the title of a column."""


def plain(text: str) -> str:
    """A name on one line, without what turns or breaks lines or cannot be written."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


@dataclass(frozen=True)
class Set:
    """A cell as it is set.

    Attributes:
        mean, sd: in the unit of the measure; empty where there is none.
        n, wanted: seeds that it has and should have.
        best: bold. close: marked †.
        published: the paper's number; empty where it has none.
        included: False where the sheet leaves the cell out.
    """

    mean: str = ""
    sd: str = ""
    n: int = 0
    wanted: int = 0
    best: bool = False
    close: bool = False
    published: str = ""
    included: bool = True

    @property
    def value(self) -> str:
        """'4.91 ± 0.12', a dash where no seed has a figure, nothing where the cell is left out."""
        if not self.n:
            return "–" if self.included else ""
        return f"{self.mean} ± {self.sd}" if self.sd else self.mean

    @property
    def partial(self) -> str:
        """'n = 3 of 5' where seeds are missing, else nothing."""
        return f"n = {self.n} of {self.wanted}" if 0 < self.n < self.wanted else ""


@dataclass(frozen=True)
class Line:
    """A row as it is set."""

    name: str
    cells: tuple[Set, ...]

    @property
    def published(self) -> bool:
        return any(cell.published for cell in self.cells)


@dataclass(frozen=True)
class Failure:
    """A run that is not there, and why."""

    row: str
    column: str
    entry: Entry


@dataclass(frozen=True)
class Layout:
    """Everything that a table says.

    Attributes:
        caption: what the numbers are.
        legend: what the marks mean; only marks that occur.
        notes: of the caller.
    """

    results: Results
    rankings: Mapping[str, Ranking]
    title: str
    columns: Sequence[Column]
    lines: Sequence[Line]
    headline: str
    caption: str
    legend: Sequence[str]
    notes: Sequence[str]
    failures: Sequence[Failure]

    @property
    def grouped(self) -> bool:
        return any(column.group for column in self.columns)

    def blocks(self) -> list[range]:
        """Places of columns that stand side by side; columns of a group stay together where they can."""
        found: list[range] = []
        for _, group in groupby(range(len(self.columns)), key=lambda place: self.columns[place].group):
            places = list(group)
            for start in range(places[0], places[-1] + 1, BLOCK):
                end = min(start + BLOCK, places[-1] + 1)
                if found and end - found[-1].start <= BLOCK:
                    found[-1] = range(found[-1].start, end)
                else:
                    found.append(range(start, end))
        return found


def arrange(results: Results, published: Published | None = None, notes: Sequence[str] = ()) -> Layout:
    """What a table of these results says.

    Args:
        published: for cells of this sheet; others are passed over.
        notes: sentences to stand under the table.
    """
    sheet, rankings, beside = results.sheet, rank(results), published or {}
    lines = [
        Line(
            plain(row.name),
            tuple(
                _set(
                    results.cell(row.name, column.title),
                    results.measure,
                    rankings[column.title],
                    plain(beside.get((row.name, column.title), "")),
                )
                for column in sheet.columns
            ),
        )
        for row in sheet.rows
    ]
    failures = [Failure(plain(cell.row.name), plain(cell.column.title), entry) for cell, entry in results.failures]
    columns = [Column(plain(c.name), c.source, c.settings, plain(c.group)) for c in sheet.columns]
    return Layout(
        results,
        rankings,
        plain(sheet.title),
        columns,
        lines,
        _headline(results, rankings),
        _caption(results),
        _legend(results, lines),
        [plain(note) for note in notes],
        failures,
    )


def figure(value: float | None, measure: Measure) -> str:
    """In the unit of the measure: an error of 0.0491 is '4.91'."""
    return "" if value is None else f"{value * measure.factor:.{measure.digits}f}"


def signed(value: float | None, measure: Measure) -> str:
    """A difference with its sign; none where it would be shown as zero."""
    text = f"{(value or 0.0) * measure.factor:+.{measure.digits}f}"
    return "" if value is None else (text if float(text) else text[1:]).replace("-", MINUS)


def interval(difference: Difference, measure: Measure) -> str:
    """'+0.12 to +0.50', or nothing."""
    return "" if difference.interval is None else " to ".join(signed(bound, measure) for bound in difference.interval)


def probability(p: float | None) -> str:
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _set(cell: Cell | None, measure: Measure, ranking: Ranking, published: str) -> Set:
    if cell is None:
        return Set(published=published, included=False)
    name = cell.row.name
    return Set(
        mean=figure(cell.mean, measure),
        sd=figure(cell.sd, measure),
        n=cell.n,
        wanted=len(cell.entries),
        best=name in ranking.best,
        close=ranking.is_close(name),
        published=published,
    )


def _caption(results: Results) -> str:
    measure, seeds, (finished, all_of_them) = results.measure, len(results.sheet.seeds), results.progress
    spread = "mean ± standard deviation over" if seeds > 1 else "of"
    unit = "per cent" if measure.unit == "%" else "seconds"
    return (
        f"{measure.title[0].upper()}{measure.title[1:]} in {unit}, {spread} n = {seeds} {'seeds' if seeds > 1 else 'seed'}; "
        f"{measure.better} is better. {_are(finished, all_of_them)} finished."
    )


def _are(finished: int, total: int) -> str:
    if total == 1:
        return "The run is" if finished else "The run is not"
    return f"All {total:,} runs are" if finished == total else f"{finished:,} of {total:,} runs are"


def _legend(results: Results, lines: Sequence[Line]) -> list[str]:
    cells = [cell for line in lines for cell in line.cells]
    few = len(results.sheet.seeds)
    found = []
    if any(cell.best for cell in cells):
        found.append("Bold: the best mean of a column, among rows that have all seeds.")
    if any(cell.close for cell in cells):
        weak = f"With {few} seeds that is weak" if few > 1 else "One seed allows no test at all"
        found.append(
            "†: not distinguishable from the best (paired two-sided t-test over the seeds, Holm’s correction over the rows of a "
            f"column, p ≥ {1 - LEVEL:.2f}, or not to be tested). {weak}: it does not say that two rows are equal. That the best "
            "was chosen by the same values is not corrected for."
        )
    if any(cell.partial for cell in cells):
        found.append(
            "Cells that lack seeds show their own n. Their means are of other draws of labelled samples: they are never bold, "
            "and are compared with the best over the seeds that both have."
        )
    if any(cell.included and not cell.n for cell in cells):
        found.append("–: no finished run has this figure.")
    if any(cell.published for cell in cells):
        found.append("Paper: the number that the paper prints, for its own setting. It was not measured here.")
    return found


def _headline(results: Results, rankings: Mapping[str, Ranking]) -> str:
    """Which rows are best, and in how many columns that is more than chance."""
    if not results.progress[0]:
        return "No run is finished yet."
    decided = [ranking for ranking in rankings.values() if ranking.best]
    rows = len(results.sheet.rows)
    if not decided or rows < 2:
        return "No column has a row with all seeds yet: no mean is called the best." if rows > 1 else ""
    wins = Counter(name for ranking in decided for name in ranking.best)
    several = f" of {len(decided)} columns" if len(decided) > 1 else ""
    named = [f"{plain(name)} in {count}{several}" if several else plain(name) for name, count in wins.most_common()]
    shown = "; ".join([*named[:NAMED], *([f"{len(named) - NAMED} more"] if len(named) > NAMED else [])])
    extreme = "Lowest" if results.measure.better == "lower" else "Highest"
    return f"{extreme} mean {results.measure.title}: {shown}. {_how_clear(decided)}".strip()


def _how_clear(decided: Sequence[Ranking]) -> str:
    clear = sum(ranking.is_clear for ranking in decided)
    if len(decided) > 1:
        return f"In {clear or 'none'} of {len(decided)} columns the best is distinguishable from every other row."
    tests = decided[0].tests.values()
    close = sum(not test.distinguishable for test in tests)
    if not tests:
        return ""
    return (
        f"{close} of {len(tests)} other rows cannot be distinguished from it."
        if close
        else "Every other row is distinguishable from it."
    )
