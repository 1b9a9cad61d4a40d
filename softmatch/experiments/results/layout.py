"""Results of a sheet as words and numbers, the same in Markdown, LaTeX, on the page and in the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from softmatch.experiments.results.collect import Cell, Entry, Results
from softmatch.experiments.results.measures import Measure
from softmatch.experiments.results.statistics import LEVEL, Difference, Ranking, rank
from softmatch.experiments.sheet import Column

BLOCK = 10
"""Columns side by side in a table of a document."""
NAMED = 4
"""Rows that a headline names."""

Published = Mapping[tuple[str, str], str]
"""Numbers of a paper, by the name of a row and the title of a column."""


def plain(text: str) -> str:
    """Text on one line, without characters that break or turn lines or cannot be written."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def last_words(message: str, most: int) -> str:
    """The end of a message, which has the reason."""
    return message if len(message) <= most else "…" + message[-most:]


@dataclass(frozen=True)
class Shown:
    """A cell in words."""

    cell: Cell | None  # None where the sheet leaves it out
    value: str = ""  # '4.91 ± 0.12', a dash where no seed has a figure
    partial: str = ""  # 'n = 3 of 5' where seeds are missing
    best: bool = False  # bold
    close: bool = False  # marked †
    published: str = ""  # the paper's number

    def marks(self, dagger: str) -> str:
        """What follows the value."""
        return (dagger if self.close else "") + (f" ({self.partial})" if self.partial else "")


@dataclass(frozen=True)
class Line:
    """A row in words."""

    name: str
    cells: tuple[Shown, ...]

    @property
    def published(self) -> bool:
        return any(cell.published for cell in self.cells)


@dataclass(frozen=True)
class Layout:
    """Everything that a table says; the legend explains only marks that occur."""

    results: Results
    rankings: Mapping[str, Ranking]
    title: str
    columns: Sequence[Column]
    lines: Sequence[Line]
    headline: str
    caption: str
    legend: Sequence[str]
    notes: Sequence[str]
    failures: Sequence[tuple[str, Entry]]  # where it is, and the run

    @property
    def grouped(self) -> bool:
        return any(column.group for column in self.columns)

    def blocks(self) -> list[range]:
        """Places of columns side by side; columns of a group stay together where they can."""
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
    """Lay out a table, with published numbers of its cells, and sentences to show under it."""
    sheet, rankings, beside = results.sheet, rank(results), published or {}
    lines = []
    for row in sheet.rows:
        keys = [(row.name, column.title) for column in sheet.columns]
        shown = (_shown(results, rankings[key[1]], key, plain(beside.get(key, ""))) for key in keys)
        lines.append(Line(plain(row.name), tuple(shown)))
    return Layout(
        results=results,
        rankings=rankings,
        title=plain(sheet.title),
        columns=[replace(column, name=plain(column.name), group=plain(column.group)) for column in sheet.columns],
        lines=lines,
        headline=_headline(results, rankings),
        caption=_caption(results),
        legend=_legend(len(sheet.seeds), [cell for line in lines for cell in line.cells]),
        notes=[plain(note) for note in notes],
        failures=[
            (f"{plain(cell.row.name)}, {plain(cell.column.title)}, seed {entry.seed}", entry)
            for cell, entry in results.entries()
            if entry.state in ("failed", "unreadable")
        ],
    )


def _shown(results: Results, ranking: Ranking, key: tuple[str, str], published: str) -> Shown:
    cell, measure = results.cell(*key), results.measure
    if cell is None or cell.mean is None:
        return Shown(cell, "" if cell is None else "–", published=published)
    value = figure(cell.mean, measure) + ("" if cell.sd is None else f" ± {figure(cell.sd, measure)}")
    partial = f"n = {cell.n} of {len(cell.entries)}" if cell.missing else ""
    return Shown(cell, value, partial, cell.row.name in ranking.best, ranking.is_close(cell.row.name), published)


def figure(value: float, measure: Measure) -> str:
    """A value in the unit of the measure: an error of 0.0491 is '4.91'."""
    return f"{value * measure.factor:.{measure.digits}f}"


def signed(value: float, factor: float, digits: int) -> str:
    """A difference with its sign; without one if it is shown as zero."""
    text = f"{value * factor:+.{digits}f}"
    return (text if float(text) else text[1:]).replace("-", "\N{MINUS SIGN}")


def in_words(difference: Difference, measure: Measure) -> tuple[str, str]:
    """Mean and interval of a difference, '+0.31' and '+0.12 to +0.50'; a dash for what is missing."""
    mean, *bounds = (
        "–" if value is None else signed(value, measure.factor, measure.digits)
        for value in (difference.mean, *(difference.interval or (None,)))
    )
    return mean, " to ".join(bounds)


def probability(p: float | None) -> str:
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _caption(results: Results) -> str:
    measure, seeds, (finished, total) = results.measure, len(results.sheet.seeds), results.progress
    spread = f"mean ± standard deviation over n = {seeds} seeds" if seeds > 1 else f"of n = {seeds} seed"
    if total == 1:
        progress = "The run is" if finished else "The run is not"
    else:
        progress = f"All {total:,} runs are" if finished == total else f"{finished:,} of {total:,} runs are"
    unit = "per cent" if measure.unit == "%" else "seconds"
    title = measure.title[0].upper() + measure.title[1:]
    return f"{title} in {unit}, {spread}; {measure.better} is better. {progress} finished."


def _legend(seeds: int, cells: Sequence[Shown]) -> list[str]:
    weak = f"With {seeds} seeds that is weak" if seeds > 1 else "One seed allows no test at all"
    sentences = {
        "Bold: the best mean of a column, among rows that have all seeds.": any(cell.best for cell in cells),
        "†: not distinguishable from the best (paired two-sided t-test over the seeds, Holm’s correction over the rows of a "
        f"column, p ≥ {1 - LEVEL:.2f}, or not to be tested). {weak}: it does not say that two rows are equal. That the best "
        "was chosen by the same values is not corrected for.": any(cell.close for cell in cells),
        "Cells that lack seeds show their own n. Their means are of other splits: they are never bold, and are compared with "
        "the best over the seeds that both have.": any(cell.partial for cell in cells),
        "–: no finished run has this figure.": any(cell.value == "–" for cell in cells),
        "Paper: the number that the paper prints, for its own setting. It was not measured here.": any(
            cell.published for cell in cells
        ),
    }
    return [sentence for sentence, occurs in sentences.items() if occurs]


def _headline(results: Results, rankings: Mapping[str, Ranking]) -> str:
    """The best rows, and in how many columns they are more than chance better than the others."""
    if not results.progress[0]:
        return "No run is finished yet."
    decided = [ranking for ranking in rankings.values() if ranking.best]
    if len(results.sheet.rows) < 2:
        return ""
    if not decided:
        return "No column has a row with all seeds yet: no mean is called the best."
    wins = Counter(name for ranking in decided for name in ranking.best)
    several = f" of {len(decided)} columns"
    named = [f"{plain(name)} in {count}{several}" if len(decided) > 1 else plain(name) for name, count in wins.most_common()]
    shown = "; ".join([*named[:NAMED], *([f"{len(named) - NAMED} more"] if len(named) > NAMED else [])])
    extreme = "Lowest" if results.measure.better == "lower" else "Highest"
    return f"{extreme} mean {results.measure.title}: {shown}. {_how_clear(decided)}".strip()


def _how_clear(decided: Sequence[Ranking]) -> str:
    if len(decided) > 1:
        clear = sum(ranking.is_clear for ranking in decided)
        return f"In {clear or 'none'} of {len(decided)} columns the best is distinguishable from every other row."
    tests = decided[0].tests.values()
    if close := sum(not test.distinguishable for test in tests):
        return f"{close} of {len(tests)} other rows cannot be distinguished from it."
    return "Every other row is distinguishable from it." if tests else ""
