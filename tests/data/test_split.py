"""Splits: balanced, disjoint where they must be, repeatable, and refused with advice where impossible."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softmatch.data import Examples, make_split
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
    items[2, 1] = float("nan")
    with pytest.raises(InputError, match="item 2"):
        Examples(items, labels, ("a", "b"), "vector")
