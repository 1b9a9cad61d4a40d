"""Run folders of a sheet as training leaves them, written by hand, and what is made of them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from softmatch.experiments.results.collect import Cell, collect
from softmatch.experiments.results.layout import Layout
from softmatch.experiments.sheet import Column, Row, Run, Sheet
from softmatch.experiments.store import Store
from softmatch.experiments.sweep import Outcome
from tests.report.example import make_record, make_result

ROWS = (Row("Labels alone", {"method": "supervised"}), Row("FixMatch", {"method": "fixmatch"}), Row("SoftMatch", {}))
COLUMNS = (Column("40", "digits", {"labels": 40}, "Digits"), Column("100", "digits", {"labels": 100}, "Digits"))

Values = Mapping[tuple[str, str], Mapping[int, float]]


def make_sheet(**changes: Any) -> Sheet:
    """Two columns of three rows and three seeds."""
    given = {"name": "try", "title": "A try", "rows": ROWS, "columns": COLUMNS, "seeds": (0, 1, 2)}
    return Sheet(**{**given, **changes})


def finish(store: Store, run: Run, error: float | None, steps: tuple[int, ...] = (), **result: Any) -> Path:
    """The folder of a finished run, with a record for each of these steps."""
    folder = store.folder(run)
    folder.mkdir(parents=True, exist_ok=True)
    found = make_result(run.method, ("upper", "lower"), False, True, 60) | {"test_error": error, "seed": run.seed, **result}
    (folder / "result.json").write_text(json.dumps(found))
    records = [make_record(step, 2, run.method) | {"test_error": (error or 0) + 1 / step} for step in steps]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "report.html").write_text("<p>a report</p>")
    return folder


def finish_all(store: Store, sheet: Sheet, values: Values, steps: tuple[int, ...] = ()) -> None:
    """Finished runs for these values, by row, column and seed."""
    rows, columns = {row.name: row for row in sheet.rows}, {column.title: column for column in sheet.columns}
    for (row, column), by_seed in values.items():
        for seed, value in by_seed.items():
            finish(store, sheet.run(rows[row], columns[column], seed), value, steps)


def cell_of(sheet: Sheet, store: Store, row: str, column: str = "Digits, 40", measure: str = "error") -> Cell:
    return collect(sheet, store, measure).cells[row, column]


VALUES: Values = {
    ("Labels alone", "Digits, 40"): {0: 0.30, 1: 0.33, 2: 0.31},
    ("FixMatch", "Digits, 40"): {0: 0.11, 1: 0.15, 2: 0.10},
    ("SoftMatch", "Digits, 40"): {0: 0.10, 1: 0.12, 2: 0.11},
    ("Labels alone", "Digits, 100"): {0: 0.20, 1: 0.23, 2: 0.21},
    ("FixMatch", "Digits, 100"): {0: 0.01, 2: 0.02},
    ("SoftMatch", "Digits, 100"): {0: 0.05, 1: 0.06, 2: 0.07},
}
"""SoftMatch is the best where all seeds are there; FixMatch lacks one of Digits, 100, where its mean is lower."""
HOSTILE = 'a|b_{c}$d$%&<b>"e"\\\n*f*`g`[h](i)~j~#k,é'
"""A name that means something in every format."""
PUBLISHED = {("SoftMatch", "Digits, 40"): "4.91 ± 0.12", ("FixMatch", "Digits, 100"): "5.05 ± 0.12*", ("x", "y"): "1.00"}
"""One of them for a cell that the sheet does not have."""


def layout_of(folder: Path, values: Values = VALUES, steps: tuple[int, ...] = (), **changes: Any) -> Layout:
    """What a table of these values says, without runs that failed, published numbers and notes."""
    store, sheet = Store(folder), make_sheet(**changes)
    finish_all(store, sheet, values, steps)
    return Layout(collect(sheet, store))


def full_layout(folder: Path, message: str, **changes: Any) -> Layout:
    """As `layout_of`, with a run that failed, published numbers and a note."""
    store, sheet = Store(folder), make_sheet(**changes)
    finish_all(store, sheet, VALUES, (10, 20, 40))
    failed = Outcome(sheet.run(sheet.rows[1], sheet.columns[1], 1), "failed", 3, message)
    store.log(failed.run).write_text("first")
    return Layout(collect(sheet, store, outcomes=[failed]), PUBLISHED, ["Only 2^20 steps_here."])
