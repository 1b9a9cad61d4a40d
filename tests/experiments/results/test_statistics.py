"""Paired tests against numbers worked out by hand, Holm's correction, rankings, verdicts on claims, and what cannot be tested."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from softmatch.experiments.paper.experiment import close, higher, lower
from softmatch.experiments.results.collect import collect
from softmatch.experiments.results.statistics import Difference, Verdict, holm, judge, paired_difference, rank
from softmatch.experiments.sheet import Row
from softmatch.experiments.store import Store
from tests.experiments.finished import VALUES, finish, finish_all, make_sheet


@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_paired_difference_is_scipys(n: int) -> None:
    generator = np.random.default_rng(n)
    first, second = generator.normal(0.1, 0.02, n), generator.normal(0.11, 0.02, n)
    found = paired_difference(dict(enumerate(first)), dict(enumerate(second)))
    expected = stats.ttest_rel(first, second)
    interval = expected.confidence_interval(0.95)
    assert found.n == n
    assert found.mean == pytest.approx(float(np.mean(first - second)))
    assert found.p == pytest.approx(float(expected.pvalue))
    assert found.interval == pytest.approx((float(interval.low), float(interval.high)))


def test_paired_difference_by_hand() -> None:
    """Differences 1, 2, 3: mean 2, standard error 1/√3, t = 2√3 with two degrees of freedom, p = 1 − t/√(2 + t²)."""
    found = paired_difference({7: 1.0, 8: 2.0, 9: 3.0}, {7: 0.0, 8: 0.0, 9: 0.0})
    t = 2 * 3**0.5
    assert found.p == pytest.approx(1 - t / (2 + t * t) ** 0.5)
    assert found.interval == pytest.approx((2 - 4.302652730 / 3**0.5, 2 + 4.302652730 / 3**0.5))


def test_only_common_seeds_are_compared() -> None:
    found = paired_difference({0: 0.3, 1: 0.2, 2: 9.0}, {1: 0.1, 0: 0.1, 3: -9.0})
    assert found == paired_difference({0: 0.3, 1: 0.2}, {0: 0.1, 1: 0.1})
    assert found.n == 2


def test_what_cannot_be_tested() -> None:
    assert paired_difference({0: 0.1}, {1: 0.1}) == Difference()
    assert paired_difference({0: 0.5}, {0: 0.25}) == Difference(0.25, None, None, 1)
    same = {0: 0.1, 1: 0.3}
    assert paired_difference(same, dict(same)) == Difference(0.0, (0.0, 0.0), 1.0, 2)
    # 0.3 − 0.2 and 0.2 − 0.1 differ in the last digit of a double: by rounding, not by chance
    constant = paired_difference({0: 0.3, 1: 0.2, 2: 0.4}, {0: 0.2, 1: 0.1, 2: 0.3})
    assert (constant.p, constant.interval, constant.n) == (None, None, 3)
    assert constant.mean == pytest.approx(0.1)


def test_holm() -> None:
    """0.01 · 4, 0.02 · 3, then 0.03 · 2 which must not fall below 0.06, and 0.5."""
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.4, 0.9]) == pytest.approx([0.8, 0.9])
    assert holm([0.7, 0.6]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_ranking(tmp_path: Path) -> None:
    store, sheet = Store(tmp_path), make_sheet()
    finish_all(store, sheet, VALUES)
    found = rank(collect(sheet, store))
    first, second = found["Digits, 40"], found["Digits, 100"]
    assert first.best == ("SoftMatch",)
    errors = {name: list(VALUES[name, "Digits, 40"].values()) for name in first.tests}
    raw = {name: float(stats.ttest_rel(own, [0.10, 0.12, 0.11]).pvalue) for name, own in errors.items()}
    assert list(raw) == ["Labels alone", "FixMatch"]
    assert raw["Labels alone"] < 0.05 < raw["FixMatch"]
    assert {name: test.corrected for name, test in first.tests.items()} == pytest.approx(
        {"Labels alone": 2 * raw["Labels alone"], "FixMatch": raw["FixMatch"]}
    )
    assert [first.is_close(name) for name in raw] == [False, True]
    assert not first.is_close("SoftMatch")
    assert not first.is_clear
    # FixMatch has the lowest mean of Digits, 100, over two of three seeds: it is not the best, and compared over two
    assert second.best == ("SoftMatch",)
    assert second.tests["FixMatch"].n == 2
    assert second.tests["FixMatch"].mean == pytest.approx(-0.045)


def test_higher_is_better(tmp_path: Path) -> None:
    store, sheet = Store(tmp_path), make_sheet(seeds=(0, 1))
    for row, quantity in zip(sheet.rows[1:], (0.5, 0.9), strict=True):
        for seed in sheet.seeds:
            finish(store, sheet.run(row, sheet.columns[0], seed), 0.1, quantity=quantity + seed / 100)
    assert rank(collect(sheet, store, "quantity"))["Digits, 40"].best == ("SoftMatch",)


def test_a_clear_best_and_equal_figures(tmp_path: Path) -> None:
    values = {
        ("Labels alone", "Digits, 40"): {0: 0.30, 1: 0.33, 2: 0.31, 3: 0.32},
        ("FixMatch", "Digits, 40"): {0: 0.12, 1: 0.15, 2: 0.14, 3: 0.16},
        ("SoftMatch", "Digits, 40"): {0: 0.10, 1: 0.12, 2: 0.11, 3: 0.13},
    }
    store, sheet = Store(tmp_path), make_sheet(seeds=(0, 1, 2, 3))
    finish_all(store, sheet, values)
    found = rank(collect(sheet, store))["Digits, 40"]
    assert found.is_clear
    quality = rank(collect(sheet, store, "quality"))["Digits, 40"]
    assert quality.best == ("FixMatch", "SoftMatch")  # the same quality; labels alone have none
    assert quality.tests == {}
    assert rank(collect(sheet, store, "worst class"))["Digits, 40"].best == ("Labels alone", "FixMatch", "SoftMatch")


def test_no_row_with_all_seeds_has_no_best(tmp_path: Path) -> None:
    store, sheet = Store(tmp_path), make_sheet()
    finish_all(store, sheet, {("SoftMatch", "Digits, 40"): {0: 0.1, 1: 0.1}, ("FixMatch", "Digits, 40"): {0: 0.5}})
    found = rank(collect(sheet, store))["Digits, 40"]
    assert (found.best, found.tests, found.is_clear) == ((), {}, False)


def test_equal_means_are_all_the_best(tmp_path: Path) -> None:
    store, sheet = Store(tmp_path), make_sheet(rows=(Row("a", {}), Row("b", {}), Row("c", {"lr": 1.0})), seeds=(0, 1))
    finish_all(store, sheet, {("a", "Digits, 40"): {0: 0.1, 1: 0.2}, ("c", "Digits, 40"): {0: 0.4, 1: 0.2}})
    found = rank(collect(sheet, store))["Digits, 40"]
    assert found.best == ("a", "b")
    assert list(found.tests) == ["c"]


def write(store: Store, row: int, errors: Sequence[float]) -> None:
    for seed, error in enumerate(errors):
        finish(store, CLAIMED.run(CLAIMED.rows[row], CLAIMED.columns[0], seed), error, quantity=1 - error)


CLAIMED = make_sheet(rows=(Row("ours", {"method": "softmatch"}), Row("theirs", {"method": "fixmatch"})), seeds=range(5))


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
    write(store, 0, ours)
    write(store, 1, theirs)
    claims = [lower("ours", "theirs", text="less"), close("ours", "theirs", text="the same")]
    found = judge(claims, CLAIMED, store)
    assert [(each.claim.text, each.column) for each in found] == [
        (text, column) for text in ("less", "the same") for column in ("Digits, 40", "Digits, 100")
    ]
    assert [each.verdict for each in found] == [lower_says, "not measured", close_says, "not measured"]


def test_figures_are_in_points_with_interval_and_n(tmp_path: Path) -> None:
    store = Store(tmp_path)
    write(store, 0, [0.10, 0.12, 0.14])
    write(store, 1, [0.13, 0.14, 0.15, 0.5])
    (first, second) = judge([lower("ours", "theirs", text="less")], CLAIMED, store)
    # differences −3, −2, −1: mean −2, standard error 1/√3, t of 0.975 with 2 degrees of freedom 4.3027
    assert first.figures == "−2.00 points (−4.48 to +0.48), p = 0.074, n = 3"
    assert second.figures == "no common seeds"


def test_other_measures_and_rows_that_a_sheet_does_not_have(tmp_path: Path) -> None:
    store = Store(tmp_path)
    write(store, 0, [0.10, 0.11, 0.12])
    write(store, 1, [0.20, 0.22, 0.21])
    more = higher("ours", "theirs", measure="quantity", text="ours uses more")
    assert judge([more], CLAIMED, store)[0].verdict == "holds"
    assert judge([more], CLAIMED, store)[0].figures.startswith("+10.00 points (")  # what the subject of the sentence has more
    assert judge([higher("theirs", "ours", measure="quantity", text="theirs does")], CLAIMED, store)[0].verdict == "the opposite"
    assert judge([lower("ours", "somebody", text="?")], CLAIMED, store) == []


def test_a_row_against_itself_in_another_measure(tmp_path: Path) -> None:
    store = Store(tmp_path)
    write(store, 0, [0.10, 0.12, 0.11])
    fewer = lower("ours", "ours", measure="error", against="quantity", text="fewer errors than labels")
    found = judge([fewer], CLAIMED, store)[0]
    assert (found.verdict, found.difference.n) == ("holds", 3)
    assert found.difference.mean == pytest.approx(-0.78)
