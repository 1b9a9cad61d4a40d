"""Small copies of datasets of texts, written in the forms in which they are kept."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

WORDS = {"World": "dog", "Sports": "cat", "Business": "bird", "Sci/Tech": "tree"}
"""A word that gives away the class of a made-up news."""


def news(number: int, start: int = 0, versions: bool = False) -> list[dict[str, Any]]:
    """So many of each class of AG News, all different, by turns."""
    rows = []
    for k in range(start, start + number):
        for name, word in WORDS.items():
            row = {"text": f"the {word} {word} sat {k}", "label": name}
            if versions:
                row |= {"aug_0": f"a {word} {word} sat {k}", "aug_1": f"a {word} {word} ran {k}"}
            rows.append(row)
    return rows


def write_jsonl(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_news(folder: Path, train: int = 12, test: int = 3, versions: bool = True) -> Path:
    """As `softmatch augment` leaves them: train.jsonl with two versions of each text, and test.jsonl."""
    write_jsonl(folder / "train.jsonl", news(train, versions=versions))
    write_jsonl(folder / "test.jsonl", news(test, start=1000))
    return folder


def write_parquet(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    import pyarrow
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.table(dict(columns)), path)


def write_usb(path: Path, rows: Sequence[Mapping[str, Any]], indent: int | None = None) -> None:
    """USB's form: one object of numbered objects, with the text as `ori` and the number of the class as text."""
    numbers = {name: str(number) for number, name in enumerate(WORDS)}
    made = {
        str(k): {
            "ori": row["text"],
            **{key: row[key] for key in row if key.startswith("aug")},
            "label": numbers[row["label"]],
        }
        for k, row in enumerate(rows)
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made, indent=indent))
