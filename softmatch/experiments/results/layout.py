"""Results of a sheet as words and numbers, the same in Markdown, LaTeX, on the page and in the terminal."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from softmatch.experiments.paper.published_numbers import Published
from softmatch.experiments.results.collect import Cell, Entry, Results
from softmatch.experiments.results.statistics import LEVEL, Ranking, rank
from softmatch.experiments.sheet import Column
from softmatch.formatting import plain
from softmatch.report.drawn_charts import html_table

BLOCK = 10  # columns side by side in a table of a document
NAMED = 4  # rows that a headline names


@dataclass(frozen=True)
class Shown:
    """A cell in words."""

    cell: Cell
    value: str  # '4.91 ± 0.12', a dash where no seed has a figure
    partial: str  # 'n = 3 of 5' where some seeds are missing
    best: bool  # bold
    close: bool  # marked †
    published: str  # the paper's number

    def marks(self, dagger: str) -> str:
        """The marks after the value."""
        return (dagger if self.close else "") + (f" ({self.partial})" if self.partial else "")


class Line(NamedTuple):
    """A row in words."""

    name: str
    cells: list[Shown]


@dataclass(frozen=True)
class Layout:
    """Everything that a table of results says, with published numbers of its cells and sentences to show under it."""

    results: Results
    published: Published = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def title(self) -> str:
        return plain(self.results.sheet.title)

    @cached_property
    def rankings(self) -> dict[str, Ranking]:
        return rank(self.results)

    @cached_property
    def columns(self) -> list[Column]:
        return [replace(column, name=plain(column.name), group=plain(column.group)) for column in self.results.sheet.columns]

    @cached_property
    def lines(self) -> list[Line]:
        sheet = self.results.sheet
        return [Line(plain(row.name), [self._shown(row.name, column.title) for column in sheet.columns]) for row in sheet.rows]

    def _shown(self, row: str, column: str) -> Shown:
        published = plain(self.published.get((row, column), ""))
        cell, measure, ranking = self.results.cells[row, column], self.results.measure, self.rankings[column]
        value = measure.shown(cell.mean) + ("" if cell.sd is None else f" ± {measure.shown(cell.sd)}")
        partial = f"n = {cell.n} of {len(cell.entries)}" if cell.n and cell.missing else ""
        return Shown(cell, value, partial, row in ranking.best, ranking.is_close(row), published)

    @property
    def failures(self) -> list[tuple[str, Entry]]:
        """Runs that failed, each with its place in the table."""
        return [
            (f"{plain(cell.row.name)}, {plain(cell.column.title)}, seed {entry.run.seed}", entry)
            for cell, entry in self.results.entries()
            if entry.state in ("failed", "unreadable")
        ]

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

    def groups(self, block: range | None = None) -> list[tuple[str, int, int]]:
        """Headings over neighbouring columns, each with its first and last place in a table; the names of rows are in place 1."""
        places = range(len(self.columns)) if block is None else block
        groups = [(name, list(found)) for name, found in groupby(places, key=lambda place: self.columns[place].group)]
        return [(name, found[0] - places.start + 2, found[-1] - places.start + 2) for name, found in groups]

    @property
    def caption(self) -> str:
        measure, seeds, (finished, total) = self.results.measure, len(self.results.sheet.seeds), self.results.progress
        spread = f"mean ± standard deviation over n = {seeds} seeds" if seeds > 1 else f"of n = {seeds} seed"
        if total == 1:
            progress = "The run is" if finished else "The run is not"
        else:
            progress = f"All {total:,} runs are" if finished == total else f"{finished:,} of {total:,} runs are"
        unit = "per cent" if measure.unit == "%" else "seconds"
        title = measure.title[0].upper() + measure.title[1:]
        return f"{title} in {unit}, {spread}; {measure.better} is better. {progress} finished."

    @property
    def legend(self) -> list[str]:
        """Explanations of the marks that occur."""
        seeds, cells = len(self.results.sheet.seeds), [cell for line in self.lines for cell in line.cells]
        published = any(cell.published for cell in cells)
        weak = f"With {seeds} seeds this is weak evidence" if seeds > 1 else "One seed allows no test at all"
        sentences = {
            "Bold: the best mean of a column, among rows that have all seeds.": any(cell.best for cell in cells),
            "†: not distinguishable from the best (paired two-sided t-test over the seeds, Holm’s correction over the rows of a "
            f"column, p ≥ {1 - LEVEL:.2f}, or not testable). {weak}: it does not mean that two rows are equal. The choice of the "
            "best by the same values is not corrected for.": any(cell.close for cell in cells),
            "Cells that lack seeds show their own n. Their means are of other splits: they are never bold, and are compared with "
            "the best over the seeds that both have.": any(cell.partial for cell in cells),
            "–: no finished run has this figure.": any(cell.value == "–" for cell in cells),
            "Paper: the number that the paper prints, for its own setting. It was not measured here.": published,
        }
        return [sentence for sentence, occurs in sentences.items() if occurs]

    @property
    def headline(self) -> str:
        """The best rows, and in how many columns they are more than chance better than the others."""
        decided = [ranking for ranking in self.rankings.values() if ranking.best]
        if not self.results.progress[0]:
            return "No run is finished yet."
        if len(self.lines) < 2:
            return ""
        if not decided:
            return "No column has a row with all seeds yet: no mean is called the best."
        wins = Counter(plain(name) for ranking in decided for name in ranking.best).most_common()
        named = [f"{name} in {count} of {len(decided)} columns" if len(decided) > 1 else name for name, count in wins]
        shown = "; ".join([*named[:NAMED], *([f"{len(named) - NAMED} more"] if len(named) > NAMED else [])])
        extreme = "Lowest" if self.results.measure.better == "lower" else "Highest"
        return f"{extreme} mean {self.results.measure.title}: {shown}. {_how_clear(decided)}".strip()

    def _repr_html_(self) -> str:
        """Show the table in a notebook, with its legend."""

        def shown(cell: Shown) -> Markup:
            return (Markup("<strong>{}</strong>") if cell.best else Markup("{}")).format(cell.value) + cell.marks(" †")

        rows = [(line.name, *map(shown, line.cells)) for line in self.lines]
        heads = ["", *(column.title for column in self.columns)]
        return html_table(
            self.title, heads, rows, [text for text in (self.caption, self.headline, *self.legend, *self.notes) if text]
        )


def _how_clear(decided: Sequence[Ranking]) -> str:
    if len(decided) > 1:
        clear = sum(ranking.is_clear for ranking in decided)
        return f"In {clear or 'none'} of {len(decided)} columns the best is distinguishable from every other row."
    tests = decided[0].tests.values()
    if close := sum(not test.distinguishable for test in tests):
        return f"{close} of {len(tests)} other rows cannot be distinguished from it."
    return "Every other row is distinguishable from it." if tests else ""


def link(path: Path, folder: Path) -> str:
    """Address of a file for a document in a folder; the same on every machine."""
    return quote(Path(os.path.relpath(path, folder)).as_posix())
