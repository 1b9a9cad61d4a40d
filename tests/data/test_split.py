"""Splits: balanced or long-tailed, disjoint where they must be, repeatable, and refused with advice where impossible."""

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softmatch.data import Examples, Split, make_split
from softmatch.data.split import long_tail_counts, make_long_tailed_split
from softmatch.errors import InputError


def examples(per_class: int = 20, classes: int = 3, test: Examples | None = None) -> Examples:
    labels = torch.arange(classes).repeat(per_class)
    return Examples(torch.randn(len(labels), 2), labels, tuple(f"c{i}" for i in range(classes)), "vector", test)


@settings(max_examples=60, deadline=None)
@given(classes=st.integers(2, 6), per_class=st.integers(8, 40), each=st.integers(1, 3), seed=st.integers(0, 2**31))
def test_split_is_balanced_and_partitions_the_data(classes: int, per_class: int, each: int, seed: int) -> None:
    data = examples(per_class, classes)
    try:
        split = make_split(data, each * classes, seed, 0.3)
    except InputError:
        pool = round(0.7 * len(data))
        assert pool < len(data)  # a class may be left with too few by chance; the message is tested below
        return
    assert torch.bincount(data.labels[split.labeled], minlength=classes).tolist() == [each] * classes
    assert sorted([*split.unlabeled.tolist(), *split.test.tolist()]) == list(range(len(data)))
    assert set(split.labeled.tolist()) <= set(split.unlabeled.tolist())


def test_the_same_seed_gives_the_same_split_and_another_seed_another() -> None:
    data = examples()
    first, again, other = (make_split(data, 6, seed) for seed in (1, 1, 2))
    assert first.as_dict() == again.as_dict()
    assert not torch.equal(first.labeled, other.labeled)
    assert not torch.equal(first.test, other.test)


def test_more_labels_keep_the_test_samples() -> None:
    data = examples()
    assert torch.equal(make_split(data, 3, 5).test, make_split(data, 9, 5).test)


def test_a_source_with_its_own_test_set_holds_nothing_out() -> None:
    split = make_split(examples(test=examples()), 6, 0)
    assert len(split.test) == 0
    assert len(split.unlabeled) == 60


@pytest.mark.parametrize(
    ("labels", "message"), [(4, "multiple of 3, for example 3 or 6"), (2, "for example 3 or 6"), (60, "has .* samples")]
)
def test_impossible_numbers_of_labels_are_refused_with_advice(labels: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_split(examples(), labels, 0)


def test_unlabelled_samples_are_never_drawn_as_labelled() -> None:
    labels = torch.arange(3).repeat(20)
    labels[::2] = -1
    data = Examples(torch.randn(60, 2), labels, ("a", "b", "c"), "vector")
    for seed in range(20):
        assert (data.labels[make_split(data, 6, seed).labeled] >= 0).all()


def test_examples_refuse_what_cannot_be() -> None:
    items, labels = torch.randn(4, 2), torch.tensor([0, 1, 0, 1])
    with pytest.raises(InputError, match="4 items but 3 labels"):
        Examples(items, labels[:3], ("a", "b"), "vector")
    with pytest.raises(InputError, match="two classes"):
        Examples(items, labels * 0, ("a",), "vector")
    with pytest.raises(InputError, match="−1 … 1"):
        Examples(items, labels + 1, ("a", "b"), "vector")
    items = torch.zeros(70_000, 1)
    for position in (69_999, 2):
        items[position] = float("inf" if position > 2 else "nan")
        with pytest.raises(InputError, match=f"item {position} holds"):
            Examples(items, torch.zeros(70_000, dtype=torch.int64), ("a", "b"), "vector")


def test_splits_of_released_versions_stay_the_same() -> None:
    split = make_split(examples(), 6, 7)
    assert split.labeled.tolist() == [13, 21, 32, 40, 48, 56]
    assert split.test.tolist() == [1, 5, 6, 7, 12, 14, 17, 19, 22, 23, 28, 35, 36, 37, 45, 47, 49, 59]


def back(split: Split) -> Split:
    return Split.from_dict(json.loads(json.dumps(split.as_dict())))


def equal(first: Split, second: Split) -> bool:
    parts = ("labeled", "unlabeled", "test")
    return first.seed == second.seed and all(torch.equal(getattr(first, part), getattr(second, part)) for part in parts)


def test_a_split_survives_json() -> None:
    for split in (make_split(examples(), 6, 3), make_split(examples(test=examples()), 6, 3)):
        assert split.as_dict()["unlabeled"] == split.unlabeled.tolist()
        assert equal(back(split), split)


def test_a_large_whole_set_is_written_as_a_range() -> None:
    labels = torch.arange(10).repeat(60_000)
    data = Examples(torch.zeros(600_000, 1), labels, tuple("abcdefghij"), "vector", test=examples())
    split = make_split(data, 40, 0)
    assert split.as_dict()["unlabeled"] == {"start": 0, "stop": 600_000}
    assert len(json.dumps(split.as_dict())) < 1000
    assert equal(back(split), split)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labeled": None}, "'labeled' of a split must be a list"),
        ({"unlabeled": {"start": 0}}, "'unlabeled' of a split"),
        ({"test": [1, 2.5]}, "'test' of a split"),
        ({"seed": "x"}, "needs its seed"),
    ],
)
def test_a_wrong_split_file_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Split.from_dict({**make_split(examples(), 6, 3).as_dict(), **changes})


@pytest.mark.parametrize(
    ("gamma", "counts"),
    [
        (50, [1500, 971, 628, 407, 263, 170, 110, 71, 46, 30]),
        (100, [1500, 899, 539, 323, 193, 116, 69, 41, 25, 15]),
        (150, [1500, 859, 492, 282, 161, 92, 53, 30, 17, 10]),
        (1, [1500] * 10),
        (-100, [15, 25, 41, 69, 116, 193, 323, 539, 899, 1500]),
    ],
)
def test_long_tailed_counts_are_those_in_use(gamma: float, counts: list[int]) -> None:
    assert long_tail_counts(1500, gamma, 10) == counts


def test_sums_of_long_tailed_counts_are_those_in_use() -> None:
    assert long_tail_counts(11, 1.1, 2) == [11, 10]  # 1.1 is the decimal number that was given
    assert sum(long_tail_counts(1500, 100, 10)) == 3720
    assert sum(long_tail_counts(3000, 100, 10)) == 7443
    assert [sum(long_tail_counts(150, gamma, 100)) for gamma in (20, 50, 100)] == [4741, 3751, 3218]


@settings(max_examples=150, deadline=None)
@given(head=st.integers(1, 6000), gamma=st.integers(1, 300), classes=st.integers(2, 120))
def test_long_tailed_counts_fall_from_head_to_tail(head: int, gamma: int, classes: int) -> None:
    counts = long_tail_counts(head, gamma, classes)
    assert counts[0] == head
    assert counts[-1] == head // gamma
    assert counts == sorted(counts, reverse=True)
    assert long_tail_counts(head, -gamma, classes) == counts[::-1]
    for position, count in enumerate(counts):
        exact = head * gamma ** (-position / (classes - 1))
        assert math.floor(exact - 1e-6) <= count <= math.floor(exact + 1e-6)


@settings(max_examples=60, deadline=None)
@given(base=st.integers(2, 9), power=st.integers(1, 6), times=st.integers(1, 5))
def test_counts_that_are_whole_are_not_rounded_down(base: int, power: int, times: int) -> None:
    counts = long_tail_counts(times * base**power, base**power, power + 1)
    assert counts == [times * base ** (power - position) for position in range(power + 1)]


@pytest.mark.parametrize(
    ("head", "gamma", "classes"), [(5, 0.5, 3), (5, -0.5, 3), (5, math.nan, 3), (5, math.inf, 3), (0, 2, 3), (5, 2, 1)]
)
def test_impossible_tails_are_refused(head: int, gamma: float, classes: int) -> None:
    with pytest.raises(InputError, match=r"γ = |long tail"):
        long_tail_counts(head, gamma, classes)


def counts_of(data: Examples, positions: torch.Tensor) -> list[int]:
    assert len(set(positions.tolist())) == len(positions)
    return torch.bincount(data.labels[positions], minlength=len(data.classes)).tolist()


@pytest.mark.parametrize(
    ("gamma_unlabeled", "more"), [(None, [20, 10, 5]), (4, [20, 10, 5]), (1, [20, 20, 20]), (-4, [5, 10, 20]), (2, [20, 14, 10])]
)
@pytest.mark.parametrize("disjoint", [False, True])
def test_long_tailed_split(gamma_unlabeled: float | None, more: list[int], disjoint: bool) -> None:
    data = examples(40, 3, test=examples())
    split = make_long_tailed_split(
        data, head_labeled=12, head_unlabeled=20, gamma=4, gamma_unlabeled=gamma_unlabeled, seed=1, disjoint=disjoint
    )
    labeled = [12, 6, 3]
    assert counts_of(data, split.labeled) == labeled
    assert counts_of(data, split.unlabeled) == [n + (0 if disjoint else few) for few, n in zip(labeled, more, strict=True)]
    shared = set(split.labeled.tolist()) & set(split.unlabeled.tolist())
    assert shared == (set() if disjoint else set(split.labeled.tolist()))
    assert len(split.test) == 0


def test_long_tailed_splits_follow_their_seed_and_keep_the_test_set() -> None:
    data = examples(60)
    data_test = make_split(data, 3, 1).test

    def split(seed: int) -> Split:
        return make_long_tailed_split(data, head_labeled=8, head_unlabeled=10, gamma=2, seed=seed)

    assert equal(split(1), split(1))
    assert not torch.equal(split(1).labeled, split(2).labeled)
    assert torch.equal(split(1).test, data_test)
    assert not set(split(1).test.tolist()) & set(split(1).unlabeled.tolist())


def test_samples_without_a_label_stay_out_of_long_tailed_splits() -> None:
    labels = torch.arange(3).repeat(40)
    labels[::2] = -1
    data = Examples(torch.randn(120, 2), labels, ("a", "b", "c"), "vector", test=examples())
    split = make_long_tailed_split(data, head_labeled=5, head_unlabeled=10, gamma=2, seed=0)
    assert (data.labels[split.unlabeled] >= 0).all()


@pytest.mark.parametrize(
    ("head_labeled", "head_unlabeled", "message"),
    [
        (12, 40, r"class 'c0' has 40 samples, 12 labelled and 40 more unlabelled are asked for: lower --largest-class-labels"),
        (3, 10, r"class 'c2' would get no labelled sample: 3 / 4 is less than one"),
    ],
)
def test_impossible_long_tailed_splits_are_refused_with_advice(head_labeled: int, head_unlabeled: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_long_tailed_split(
            examples(40, 3, test=examples()), head_labeled=head_labeled, head_unlabeled=head_unlabeled, gamma=4, seed=0
        )
