"""What became of the texts: how many were changed, by how much, and examples to look at."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from softmatch.augmenting.via import Entry
from softmatch.augmenting.words import words_of

__all__ = ["Augmented", "NewColumn", "summarize"]

EXAMPLES = 3
SHOWN = 300
"""Characters of an example."""


@dataclass(frozen=True)
class NewColumn:
    """What a column became.

    Attributes:
        via: what made it.
        changed: versions that differ from their text.
        empty: texts whose version is empty; `softmatch train` uses the text itself there.
        kept: mean share of the words of a text that its version has too; None: no text with a version has words.
    """

    name: str
    via: str
    changed: int
    empty: int
    kept: float | None


@dataclass(frozen=True)
class Augmented:
    """What was written.

    Attributes:
        out: the new file, or folder of a source.
        texts: how many rows have a text.
        rows: how many there are.
        examples: some texts, each followed by its versions.
        train: the command to train on it.
    """

    out: Path
    texts: int
    rows: int
    columns: tuple[NewColumn, ...]
    examples: tuple[tuple[str, ...], ...]
    train: str

    def describe(self) -> str:
        """For a person."""
        width = max(len(column.name) for column in self.columns)
        lines = [f"{self.texts:,} texts in {self.out}"]
        for column in self.columns:
            kept = "" if column.kept is None else f", {column.kept:.0%} of the words kept on average"
            empty = f", {column.empty:,} are empty: training uses the text itself" if column.empty else ""
            figures = f"{column.changed:,} differ from the original{kept}{empty}"
            lines.append(f"  {column.name:<{width}}  {figures}  (via {column.via})")
        if self.rows > self.texts:
            lines.append(f"  {self.rows - self.texts:,} rows have no text: their new cells are empty")
        for original, *versions in self.examples:
            lines += ["", f"  {'text':<{width}}  {_short(original)}"]
            lines += [f"  {column.name:<{width}}  {_short(text)}" for column, text in zip(self.columns, versions, strict=True)]
        return "\n".join([*lines, "", f"Train on it:  {self.train}", *self._warnings()])

    def _warnings(self) -> list[str]:
        """About columns in which nothing is new."""
        lines = []
        for column in self.columns:
            if not column.changed:
                what = "empty" if column.empty == self.texts else "the text itself" + (" or empty" if column.empty else "")
                lines.append(
                    f"Warning: {column.name} is of no use: every version is {what}. Look at what --via {column.via} does."
                )
        return ["", *lines] if lines else []


def summarize(
    out: Path, texts: Sequence[str], columns: Mapping[str, Sequence[str]], entries: Sequence[Entry], train: str
) -> Augmented:
    """Compare texts with their versions.

    Args:
        columns: new ones, by name.
        entries: what made each of them.
        train: the command to train on them.
    """
    about = tuple(
        NewColumn(name, entry.name, *_compare(texts, versions))
        for (name, versions), entry in zip(columns.items(), entries, strict=True)
    )
    given = sum(bool(each.strip()) for each in texts)
    return Augmented(out, given, len(texts), about, _examples(texts, list(columns.values())), train)


def _compare(texts: Sequence[str], versions: Sequence[str]) -> tuple[int, int, float | None]:
    """How many differ, how many are empty, and the mean share of words that the others keep."""
    shares, changed, empty = list[float](), 0, 0
    for text, version in zip(texts, versions, strict=True):
        if text.strip() and not version.strip():
            empty += 1
            continue
        changed += text != version
        words = Counter(words_of(text))
        if words:
            shares.append((words & Counter(words_of(version))).total() / words.total())
    return changed, empty, sum(shares) / len(shares) if shares else None


def _examples(texts: Sequence[str], made: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Some of the texts that were changed, from all over the table."""
    rows = [row for row, text in enumerate(texts) if any(column[row].strip() and column[row] != text for column in made)]
    chosen = [rows[len(rows) * place // EXAMPLES] for place in range(min(EXAMPLES, len(rows)))]
    return tuple((texts[row], *(column[row] for column in made)) for row in chosen)


def _short(text: str) -> str:
    line = re.sub(r"\s+", " ", text).strip()
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}…"
