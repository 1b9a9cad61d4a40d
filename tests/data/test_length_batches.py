"""Batches of similar lengths: every text once in an epoch, and what a step gets follows from the step alone."""

from __future__ import annotations

import pytest
import torch

from softmatch.data.batches import Sampler
from softmatch.data.length_batches import LengthSampler, text_lengths

LENGTHS = (5 + 0.8 * torch.randn(1000, generator=torch.Generator().manual_seed(0))).exp().long()


def _spread(draws: Sampler, steps: int) -> float:
    """Mean difference between the longest and the shortest text of a batch."""
    found = [LENGTHS[draws(step)] for step in range(steps)]
    return sum(float(each.max() - each.min()) for each in found) / steps


@pytest.mark.parametrize(
    ("size", "batch", "buckets"), [(1000, 16, 10), (96, 8, 3), (100, 16, 50), (7, 3, 2), (5, 16, 4), (1, 1, 1)]
)
def test_every_sample_is_drawn_once_in_each_epoch(size: int, batch: int, buckets: int) -> None:
    draws = LengthSampler(LENGTHS[:size], batch, 3, buckets)
    row = torch.cat([draws(step) for step in range(-(-3 * size // batch))])
    assert all(len(draws(step)) == batch for step in range(3))
    for epoch in range(3):
        assert sorted(row[epoch * size : (epoch + 1) * size].tolist()) == list(range(size))


def test_lengths_in_a_batch_are_similar_and_their_order_is_random() -> None:
    random, sorted_ = Sampler(1000, 16, 3), LengthSampler(LENGTHS, 16, 3, 20)
    assert _spread(sorted_, 60) < _spread(random, 60) / 3
    means = torch.tensor([float(LENGTHS[sorted_(step)].double().mean()) for step in range(20)])
    assert not torch.equal(means, means.sort().values)


def test_a_window_holds_the_samples_that_would_be_drawn_anyway() -> None:
    random, sorted_ = Sampler(1000, 16, 3), LengthSampler(LENGTHS, 16, 3, 20)
    for start in (0, 20, 40):
        drawn = [torch.cat([draws(start + step) for step in range(20)]).sort().values for draws in (random, sorted_)]
        assert torch.equal(*drawn)


def test_batches_after_an_uneven_epoch_are_as_similar() -> None:
    draws = LengthSampler(LENGTHS[:999], 16, 0, 10)
    later = [LENGTHS[draws(step)] for step in range(70, 120)]  # of the second epoch alone
    assert sum(float(each.max() - each.min()) for each in later) / len(later) < _spread(Sampler(1000, 16, 0), 60) / 2


def test_a_step_gets_the_same_whatever_was_drawn_before() -> None:
    whole = LengthSampler(LENGTHS, 16, 1, 10)
    batches = [whole(step) for step in range(150)]
    for step in (149, 3, 62, 63, 125):
        assert torch.equal(LengthSampler(LENGTHS, 16, 1, 10)(step), batches[step])
        assert torch.equal(whole(step), batches[step])
    assert not torch.equal(LengthSampler(LENGTHS, 16, 2, 10)(0), batches[0])


def test_lengths_of_texts() -> None:
    items = torch.tensor([[2, 5, 3, 0], [2, 3, 0, 0], [0, 0, 0, 0], [7, 7, 7, 7]], dtype=torch.int32)
    assert text_lengths(items, 0).tolist() == [3, 2, 0, 4]
