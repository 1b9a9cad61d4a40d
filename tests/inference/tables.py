"""Reading back what was written."""

import csv
from pathlib import Path

from softmatch.data.cells import unguarded


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return [{key: unguarded(cell) for key, cell in row.items()} for row in csv.DictReader(file)]
