"""`softmatch augment`: a table of texts in, the same table with augmented versions of them out."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from softmatch.augmenting.making import BATCH, TEMPERATURE, Progress, augment_texts
from softmatch.augmenting.table_files import TextTable, choose_out, find_table, open_texts, write_columns
from softmatch.augmenting.via import parse_via
from softmatch.augmenting.words import words_of

__all__ = ["Augmented", "NewColumn", "augment_file"]

EXAMPLES = 3
SHOWN = 300
"""Characters of an example."""


@dataclass(frozen=True)
class NewColumn:
    """What a column became.

    Attributes:
        via: what made it.
        changed: texts that differ from their original.
        kept: mean share of the words of a text that its version has too; None: no text has words.
    """

    name: str
    via: str
    changed: int
    kept: float | None


@dataclass(frozen=True)
class Augmented:
    """What was written.

    Attributes:
        out: the new file.
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
            lines.append(f"  {column.name:<{width}}  {column.changed:,} differ from the original{kept}  (via {column.via})")
        if self.rows > self.texts:
            lines.append(f"  {self.rows - self.texts:,} rows have no text: their new cells are empty")
        for original, *versions in self.examples:
            lines += ["", f"  {'text':<{width}}  {_short(original)}"]
            lines += [f"  {column.name:<{width}}  {_short(text)}" for column, text in zip(self.columns, versions, strict=True)]
        return "\n".join([*lines, "", f"Train on it:  {self.train}"])


def augment_file(
    where: str | Path,
    via: str | Sequence[str],
    out: Path | None = None,
    text: str | None = None,
    *,
    language: str = "en",
    temperature: float = TEMPERATURE,
    seed: int = 0,
    batch: int = BATCH,
    device: str = "auto",
    processes: int = 1,
    progress: Progress | None = None,
    note: Callable[[str], None] | None = None,
) -> Augmented:
    """Write a table again with a new column aug_N for each entry of `via`.

    Args:
        out: the new file; by default beside the old one, with "-augmented" in its name.
        text: column of the texts, where it is not obvious.
        note: told what was noticed about the table, before anything is made.

    The others are as of `augment_texts`.

    Raises:
        InputError: before anything is made, for what cannot work, and where the new file exists.
    """
    entries = parse_via(via, language, drawn=temperature > 0)
    path = find_table(where)
    target = choose_out(path, out)
    table = open_texts(path, text)
    if note is not None:
        for finding in table.findings:
            note(finding.text)
    made = augment_texts(
        table.texts,
        via,
        language=language,
        temperature=temperature,
        seed=seed,
        batch=batch,
        device=device,
        processes=processes,
        progress=progress,
    )
    columns = dict(zip(table.next_names(len(made)), made, strict=True))
    write_columns(table, target, columns)
    about = tuple(
        NewColumn(name, entry.name, *_compare(table.texts, versions))
        for (name, versions), entry in zip(columns.items(), entries, strict=True)
    )
    given = sum(bool(each.strip()) for each in table.texts)
    return Augmented(target, given, len(table.texts), about, _examples(table.texts, made), _train(table, target))


def _compare(texts: Sequence[str], versions: Sequence[str]) -> tuple[int, float | None]:
    """How many differ, and the mean share of words that are kept."""
    shares = []
    for text, version in zip(texts, versions, strict=True):
        words = Counter(words_of(text))
        if words:
            shares.append((words & Counter(words_of(version))).total() / words.total())
    changed = sum(text != version for text, version in zip(texts, versions, strict=True))
    return changed, sum(shares) / len(shares) if shares else None


def _examples(texts: Sequence[str], made: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Some of the texts that were changed, from all over the table."""
    rows = [row for row, text in enumerate(texts) if any(column[row] != text for column in made)]
    chosen = [rows[len(rows) * place // EXAMPLES] for place in range(min(EXAMPLES, len(rows)))]
    return tuple((texts[row], *(column[row] for column in made)) for row in chosen)


def _short(text: str) -> str:
    line = re.sub(r"\s+", " ", text).strip()
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}…"


def _train(table: TextTable, out: Path) -> str:
    label = "COLUMN" if table.label is None else table.label
    return shlex.join(["softmatch", "train", str(out), "--text", table.text, "--label", label])
