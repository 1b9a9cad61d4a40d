"""Batches: every sample once an epoch, the same batch for the same step, no truth of unlabelled samples."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softmatch.data import Batches, Sampler
from softmatch.views import VectorViews


@settings(max_examples=80, deadline=None)
@given(size=st.integers(1, 50), batch=st.integers(1, 120), steps=st.integers(1, 20), seed=st.integers(0, 2**40))
def test_sampler_walks_through_whole_epochs(size: int, batch: int, steps: int, seed: int) -> None:
    sampler = Sampler(size, batch, seed)
    row = torch.cat([sampler(step) for step in range(steps)])
    assert len(row) == steps * batch
    for epoch in row.split(size):
        assert len(set(epoch.tolist())) == len(epoch)


def test_a_sampler_that_jumps_gives_what_one_that_walked_gives() -> None:
    walked, jumped = Sampler(37, 16, 3), Sampler(37, 16, 3)
    row = [walked(step) for step in range(40)]
    for step in (31, 2, 39, 0):
        assert torch.equal(jumped(step), row[step])


def make(unlabeled_views: tuple[str, ...] = ("weak", "strong")) -> Batches:
    items = torch.arange(60.0).reshape(30, 2)
    views = VectorViews([0.0, 0.0], [1.0, 1.0])
    return Batches(items[:6], torch.arange(6), items, views, 4, 8, 0, torch.device("cpu"), ("weak",), unlabeled_views)


def test_labels_and_index_belong_to_the_items() -> None:
    batch = make()(5)
    items = torch.arange(60.0).reshape(30, 2)
    assert torch.allclose(batch.labeled["weak"], items[batch.labels], atol=0.2)
    assert torch.allclose(batch.unlabeled["weak"], items[batch.index], atol=0.2)
    assert batch.unlabeled["strong"].shape == (8, 2)


def test_views_are_independent_of_which_others_are_asked_for() -> None:
    assert torch.equal(make(("weak", "strong"))(3).unlabeled["weak"], make(("weak",))(3).unlabeled["weak"])
    assert torch.equal(make(())(3).labeled["weak"], make()(3).labeled["weak"])


def test_no_unlabelled_views_means_no_unlabelled_work() -> None:
    batch = make(())(0)
    assert batch.unlabeled == {}
    assert len(batch.index) == 0


@pytest.mark.parametrize("step", [0, 17])
def test_batches_repeat(step: int) -> None:
    first, again = make()(step), make()(step)
    assert torch.equal(first.unlabeled["strong"], again.unlabeled["strong"])
    assert not torch.equal(first.unlabeled["strong"], make()(step + 1).unlabeled["strong"])


def test_a_pool_of_positions_gives_what_the_items_at_these_positions_give() -> None:
    items, views = torch.arange(60.0).reshape(30, 2), VectorViews([0.0, 0.0], [1.0, 1.0])
    pool = torch.tensor([3, 29, 4, 17, 8, 0, 11])
    rest = (views, 4, 5, 0, torch.device("cpu"))
    cut = Batches(items[:6], torch.arange(6), items[pool], *rest)
    whole = Batches(items[:6], torch.arange(6), items, *rest, pool=pool)
    for step in range(5):
        expected, found = cut(step), whole(step)
        assert torch.equal(found.index, expected.index)
        assert torch.equal(found.unlabeled["strong"], expected.unlabeled["strong"])


def test_items_that_are_on_the_device_are_not_copied() -> None:
    items, views = torch.zeros(30, 2), VectorViews([0.0, 0.0], [1.0, 1.0])
    batches = Batches(items, torch.zeros(30).long(), items, views, 4, 5, 0, torch.device("cpu"), pool=torch.arange(20))
    assert batches.unlabeled_items.data_ptr() == batches.labeled_items.data_ptr() == items.data_ptr()
    alone = Batches(items, torch.zeros(30).long(), items, views, 4, 5, 0, torch.device("meta"), unlabeled_views=())
    assert alone.labeled_items.device.type == "meta"
    assert alone.unlabeled_items is items, "a supervised run has no use for the others on its device"
