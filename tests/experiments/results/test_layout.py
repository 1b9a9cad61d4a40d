"""A table in words, and columns side by side."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from softmatch.experiments.sheet import Column, Row
from softmatch.formatting import plain
from tests.experiments.finished import COLUMNS, ROWS, layout_of


def test_cells_marks_and_legend(tmp_path: Path) -> None:
    layout = layout_of(tmp_path)
    shown = [[(cell.value, cell.best, cell.close, cell.partial) for cell in line.cells] for line in layout.lines]
    assert shown == [
        [("31.33 ± 1.53", False, False, ""), ("21.33 ± 1.53", False, False, "")],
        [("12.00 ± 2.65", False, True, ""), ("1.50 ± 0.71", False, True, "n = 2 of 3")],
        [("11.00 ± 1.00", True, False, ""), ("6.00 ± 1.00", True, False, "")],
    ]
    assert layout.caption == (
        "Error in per cent, mean ± standard deviation over n = 3 seeds; lower is better. 17 of 18 runs are finished."
    )
    bold, close, partial = layout.legend
    assert bold.startswith("Bold: the best mean")
    assert close.startswith("†: not distinguishable")
    assert "With 3 seeds this is weak evidence" in close
    assert "they are never bold" in partial
    assert layout.headline == (
        "Lowest mean error: SoftMatch in 2 of 2 columns. In none of 2 columns the best is distinguishable from every other row."
    )


def test_legend_explains_only_marks_that_occur(tmp_path: Path) -> None:
    alone = layout_of(tmp_path / "one", {("SoftMatch", "Digits, 40"): {0: 0.1}}, rows=ROWS[2:], columns=COLUMNS[:1], seeds=(0,))
    assert alone.lines[0].cells[0].value == "10.00"
    assert alone.legend == ["Bold: the best mean of a column, among rows that have all seeds."]
    assert alone.caption == "Error in per cent, of n = 1 seed; lower is better. The run is finished."
    assert alone.headline == ""
    empty = layout_of(tmp_path / "none", {})
    assert empty.legend == ["–: no finished run has this figure."]
    assert empty.headline == "No run is finished yet."
    assert empty.caption.endswith("0 of 18 runs are finished.")


@pytest.mark.parametrize(
    ("fix", "soft", "headline"),
    [
        ([0.5, 0.6, 0.5], [0.1, 0.1, 0.2], "Lowest mean error: SoftMatch. Every other row is distinguishable from it."),
        ([0.1, 0.2, 0.1], [0.1, 0.1, 0.2], "Lowest mean error: FixMatch; SoftMatch."),
        ([0.1, 0.2, 0.2], [0.1, 0.1, 0.2], "Lowest mean error: SoftMatch. 1 of 1 other rows cannot be distinguished from it."),
        ([0.1, 0.2], [0.1, 0.1], "No column has a row with all seeds yet: no mean is called the best."),
    ],
)
def test_headline_of_one_column(tmp_path: Path, fix: Sequence[float], soft: Sequence[float], headline: str) -> None:
    values = {("FixMatch", "Digits, 40"): dict(enumerate(fix)), ("SoftMatch", "Digits, 40"): dict(enumerate(soft))}
    assert layout_of(tmp_path, values, rows=ROWS[1:], columns=COLUMNS[:1]).headline == headline


def test_one_seed_says_that_nothing_can_be_tested(tmp_path: Path) -> None:
    values = {("FixMatch", "Digits, 40"): {0: 0.2}, ("SoftMatch", "Digits, 40"): {0: 0.1}}
    layout = layout_of(tmp_path, values, rows=ROWS[1:], columns=COLUMNS[:1], seeds=(0,))
    assert [line.cells[0].close for line in layout.lines] == [True, False]
    assert "One seed allows no test at all" in layout.legend[1]


@pytest.mark.parametrize(
    ("groups", "blocks"),
    [
        ([3, 3, 2, 2], [(0, 10)]),
        ([5, 3, 4], [(0, 8), (8, 12)]),
        ([25], [(0, 10), (10, 20), (20, 25)]),
        ([1] * 12, [(0, 10), (10, 12)]),
        ([9, 2], [(0, 9), (9, 11)]),
    ],
)
def test_blocks_keep_groups_together(tmp_path: Path, groups: list[int], blocks: list[tuple[int, int]]) -> None:
    columns = [Column(str(n), "digits", {"labels": 40}, f"group {g}") for g, size in enumerate(groups) for n in range(size)]
    found = layout_of(tmp_path, {}, rows=(Row("a", {}),), columns=columns).blocks()
    assert [(block.start, block.stop) for block in found] == blocks


def test_plain_is_one_printable_line() -> None:
    assert plain(" a\n b\t\u202ec\x00\udc80 d ") == "a b c d"
