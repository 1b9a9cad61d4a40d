"""Samplers and shares: every sample once an epoch, the same batch for the same step whatever came before, no row twice."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softmatch.data.batches import BalancedSampler, Sampler
from softmatch.distributed.processes import World, share

PROPERTY = settings(max_examples=60, deadline=None, derandomize=True)
SIZES, BATCHES, SEEDS = st.integers(1, 40), st.integers(1, 90), st.integers(0, 2**62)
STEPS = st.lists(st.integers(0, 60), min_size=1, max_size=12)


def row(size: int, batch: int, seed: int, length: int) -> list[int]:
    """The first positions that a sampler gives."""
    sampler, found = Sampler(size, batch, seed), list[int]()
    for step in range(-(-length // batch)):
        drawn = sampler(step)
        assert drawn.shape == (batch,)
        found += drawn.tolist()
    return found[:length]


@PROPERTY
@given(SIZES, BATCHES, SEEDS, st.integers(1, 4))
def test_every_epoch_is_a_permutation(size: int, batch: int, seed: int, epochs: int) -> None:
    found = row(size, batch, seed, epochs * size)
    for epoch in range(epochs):
        assert sorted(found[epoch * size : (epoch + 1) * size]) == list(range(size))


@PROPERTY
@given(SIZES, BATCHES, BATCHES, SEEDS)
def test_the_size_of_a_batch_cuts_the_row_and_does_not_change_it(size: int, first: int, second: int, seed: int) -> None:
    assert row(size, first, seed, 3 * size) == row(size, second, seed, 3 * size)


@PROPERTY
@given(SIZES, BATCHES, SEEDS, STEPS)
def test_a_step_is_the_same_after_any_history(size: int, batch: int, seed: int, steps: list[int]) -> None:
    sampler = Sampler(size, batch, seed)
    for step in steps:
        assert torch.equal(sampler(step), Sampler(size, batch, seed)(step))


@PROPERTY
@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), BATCHES, SEEDS, STEPS)
def test_a_balanced_sampler_draws_what_is_there_after_any_history(
    labels: list[int], batch: int, seed: int, steps: list[int]
) -> None:
    truth = torch.tensor(labels)
    sampler = BalancedSampler(truth, batch, seed)
    for step in steps:
        drawn = sampler(step)
        assert drawn.shape == (batch,)
        assert set(drawn.tolist()) <= set(range(len(labels)))
        assert torch.equal(drawn, BalancedSampler(truth, batch, seed)(step))


@PROPERTY
@given(st.integers(0, 500), st.integers(1, 17))
def test_shares_cut_a_batch_into_even_parts(number: int, processes: int) -> None:
    rows = torch.arange(number)
    shares = [rows[share(number, World(rank, processes))] for rank in range(processes)]
    assert torch.cat(shares).tolist() == rows.tolist()
    assert [part.tolist() for part in shares] == [part.tolist() for part in torch.tensor_split(rows, processes)]
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@PROPERTY
@given(SIZES, BATCHES, SEEDS, st.integers(1, 5), st.integers(0, 20))
def test_the_shares_of_all_processes_are_the_batch_of_one(size: int, batch: int, seed: int, processes: int, step: int) -> None:
    drawn = [Sampler(size, batch, seed)(step)[share(batch, World(rank, processes))] for rank in range(processes)]
    assert torch.equal(torch.cat(drawn), Sampler(size, batch, seed)(step))
