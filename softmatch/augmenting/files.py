"""`softmatch augment FILE`: a table of texts in, the same table with augmented versions of them out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Unpack

from softmatch.augmenting.making import Options, augment_texts, find_entries
from softmatch.augmenting.summary import Augmented, summarize
from softmatch.augmenting.table_files import TextTable, choose_out, find_table, open_texts, write_columns

__all__ = ["augment_file"]


def augment_file(
    where: str | Path,
    via: str | Sequence[str],
    out: Path | None = None,
    text: str | None = None,
    *,
    note: Callable[[str], None] | None = None,
    **options: Unpack[Options],
) -> Augmented:
    """Write a table again with a new column aug_N for each entry of `via`.

    Args:
        out: the new file; by default beside the old one, with "-augmented" in its name.
        text: column of the texts, where it is not obvious.
        note: told what was noticed about the table, before anything is made.
        options: of `augment_texts`.

    Raises:
        InputError: before anything is made, for what cannot work, and where the new file exists or cannot be written.
    """
    entries = find_entries(via, **options)
    path = find_table(where)
    target = choose_out(path, out)
    table = open_texts(path, text)
    if note is not None:
        for finding in table.findings:
            note(finding.text)
    made = augment_texts(table.texts, via, **options)
    columns = dict(zip(table.next_names(len(made)), made, strict=True))
    write_columns(table, target, columns)
    return summarize(target, table.texts, columns, entries, _train(table, target))


def _train(table: TextTable, out: Path) -> str:
    label = "COLUMN" if table.label is None else table.label
    return shlex.join(["softmatch", "train", str(out), "--text", table.text, "--label", label])
