"""Verdicts on claims of the paper, by measured runs."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from softmatch.experiments.paper.experiment import close, higher, lower
from softmatch.experiments.results.findings import Verdict, judge
from softmatch.experiments.sheet import Column, Row, Sheet
from softmatch.experiments.store import Store

SHEET = Sheet(
    "test",
    "A test",
    [Row("ours", {"method": "softmatch"}), Row("theirs", {"method": "fixmatch"})],
    [Column("40", "digits", {"labels": 40}, "Digits"), Column("80", "digits", {"labels": 80}, "Digits")],
    range(5),
)


def write(store: Store, row: str, errors: Sequence[float], column: int = 0) -> None:
    chosen = next(each for each in SHEET.rows if each.name == row)
    for seed, error in enumerate(errors):
        folder = store.folder(SHEET.run(chosen, SHEET.columns[column], seed))
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps({"test_error": error, "quantity": 1 - error}))
        (folder / "report.html").write_text("")


@pytest.mark.parametrize(
    ("ours", "theirs", "lower_says", "close_says"),
    [
        ([0.10, 0.11, 0.12, 0.10, 0.11], [0.20, 0.22, 0.21, 0.20, 0.23], "holds", "differs"),
        ([0.10, 0.30, 0.12, 0.10, 0.11], [0.20, 0.22, 0.21, 0.20, 0.10], "leans that way", "no difference seen"),
        ([0.20, 0.22, 0.21, 0.20, 0.10], [0.10, 0.30, 0.12, 0.10, 0.11], "not seen", "no difference seen"),
        ([0.20, 0.22, 0.21, 0.20, 0.23], [0.10, 0.11, 0.12, 0.10, 0.11], "the opposite", "differs"),
        ([0.20, 0.21], [0.10, 0.11], "not measured", "not measured"),
        ([], [0.10, 0.11], "not measured", "not measured"),
    ],
)
def test_verdicts(tmp_path: Path, ours: list[float], theirs: list[float], lower_says: Verdict, close_says: Verdict) -> None:
    store = Store(tmp_path)
    write(store, "ours", ours)
    write(store, "theirs", theirs)
    claims = [lower("ours", "theirs", text="less"), close("ours", "theirs", text="the same")]
    found = judge(claims, SHEET, store)
    assert [(each.claim.text, each.column) for each in found] == [
        (text, column) for text in ("less", "the same") for column in ("Digits, 40", "Digits, 80")
    ]
    assert [each.verdict for each in found] == [lower_says, "not measured", close_says, "not measured"]


def test_figures_are_in_points_with_interval_and_n(tmp_path: Path) -> None:
    store = Store(tmp_path)
    write(store, "ours", [0.10, 0.12, 0.14])
    write(store, "theirs", [0.13, 0.14, 0.15, 0.5])
    (first, second) = judge([lower("ours", "theirs", text="less")], SHEET, store)
    # differences −3, −2, −1: mean −2, standard error 1/√3, t of 0.975 with 2 degrees of freedom 4.3027
    assert first.figures == "−2.00 points (−4.48 to +0.48), p = 0.074, n = 3"
    assert second.figures == "no common seeds"


def test_other_measures_and_rows_that_a_sheet_does_not_have(tmp_path: Path) -> None:
    store = Store(tmp_path)
    write(store, "ours", [0.10, 0.11, 0.12])
    write(store, "theirs", [0.20, 0.22, 0.21])
    more = higher("ours", "theirs", measure="quantity", text="ours uses more")
    assert judge([more], SHEET, store)[0].verdict == "holds"
    assert judge([more], SHEET, store)[0].figures.startswith("+10.00 points (")  # what the subject of the sentence has more
    assert judge([higher("theirs", "ours", measure="quantity", text="theirs does")], SHEET, store)[0].verdict == "the opposite"
    assert judge([lower("ours", "somebody", text="?")], SHEET, store) == []


def test_a_row_against_itself_in_another_measure(tmp_path: Path) -> None:
    store = Store(tmp_path)
    write(store, "ours", [0.10, 0.12, 0.11])
    fewer = lower("ours", "ours", measure="error", against="quantity", text="fewer errors than labels")
    found = judge([fewer], SHEET, store)[0]
    assert (found.verdict, found.difference.n) == ("holds", 3)
    assert found.difference.mean == pytest.approx(-0.78)
