"""Summary of augmented texts: how many versions differ, by how much, and examples to read."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from softmatch.views.text_statistics import words_of

EXAMPLES, LONGEST = 3, 300


@dataclass(frozen=True)
class NewColumn:
    """Summary of a column that the entry `via` has made."""

    name: str
    via: str
    changed: int  # versions that differ from their text
    empty: int  # texts whose version is empty: `softmatch train` uses the text itself
    kept: float | None  # mean share of the words of a text that are in its version; None if no text has words

    def describe(self) -> str:
        kept = "" if self.kept is None else f", {self.kept:.0%} of the words kept on average"
        empty = f", {self.empty:,} are empty: training uses the text itself" if self.empty else ""
        return f"{self.changed:,} differ from the original{kept}{empty}  (via {self.via})"


@dataclass(frozen=True)
class Augmented:
    """Summary of a file or folder that was written."""

    out: Path
    texts: int  # rows with a text
    rows: int
    columns: tuple[NewColumn, ...]
    examples: tuple[tuple[str, ...], ...]  # some texts, each followed by its versions
    train: str  # command that trains on it

    def describe(self) -> str:
        """The summary as lines of text, with examples and warnings."""
        names = ["text", *(column.name for column in self.columns)]
        width = max(map(len, names))
        lines = [f"{self.texts:,} texts in {self.out}"]
        lines += [f"  {column.name:<{width}}  {column.describe()}" for column in self.columns]
        if self.rows > self.texts:
            lines.append(f"  {self.rows - self.texts:,} rows have no text: their new cells are empty")
        for example in self.examples:
            lines += ["", *(f"  {name:<{width}}  {_shorten(text)}" for name, text in zip(names, example, strict=True))]
        useless = [column for column in self.columns if not column.changed]
        lines += ["", f"Train on it:  {self.train}", *([""] if useless else [])]
        problem = "is of no use: every version is empty or the text itself. Check what --via"
        lines += [f"Warning: {column.name} {problem} {column.via} does." for column in useless]
        return "\n".join(lines)


def summarize(out: Path, texts: Sequence[str], columns: Mapping[str, Sequence[str]], via: Sequence[str], train: str) -> Augmented:
    """Compare texts with the new columns that the entries `via` have made."""
    made = list(columns.values())
    about = tuple(_compare(name, entry, texts, columns[name]) for name, entry in zip(columns, via, strict=True))
    rows = [row for row, text in enumerate(texts) if any(column[row].strip() and column[row] != text for column in made)]
    chosen = [rows[len(rows) * place // EXAMPLES] for place in range(min(EXAMPLES, len(rows)))]  # from all over the table
    examples = tuple((texts[row], *(column[row] for column in made)) for row in chosen)
    return Augmented(out, sum(bool(text.strip()) for text in texts), len(texts), about, examples, train)


def _compare(name: str, via: str, texts: Sequence[str], versions: Sequence[str]) -> NewColumn:
    pairs = [(text, version) for text, version in zip(texts, versions, strict=True) if version.strip() or not text.strip()]
    words = [(Counter(words_of(text)), Counter(words_of(version))) for text, version in pairs]
    shares = [(before & after).total() / before.total() for before, after in words if before]
    changed, kept = sum(text != version for text, version in pairs), sum(shares) / len(shares) if shares else None
    return NewColumn(name, via, changed, len(texts) - len(pairs), kept)


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"
