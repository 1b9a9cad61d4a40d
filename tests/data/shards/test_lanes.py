"""The order of streamed samples: a permutation by arithmetic, lanes that cover everything, and no list of any of it."""

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from softmatch.data.shards.lanes import LANES, Lanes, permute
from softmatch.data.shards.streamed import Kept
from softmatch.distributed.processes import World, share

SHARDS = st.lists(st.integers(0, 30), min_size=1, max_size=20).filter(lambda counts: sum(counts) > 0)


@given(size=st.integers(1, 3000), seed=st.integers(0, 2**63 - 1))
@settings(max_examples=20, deadline=None)
def test_it_is_a_permutation(size: int, seed: int) -> None:
    assert sorted(permute(np.arange(size), size, seed).tolist()) == list(range(size))


def test_a_permutation_of_any_size_is_computed_place_by_place() -> None:
    places = np.array([0, 1, 10**12 - 1])
    found = permute(places, 10**12, 7)
    assert len(set(found.tolist())) == 3
    assert ((found >= 0) & (found < 10**12)).all()
    assert permute(places[1:], 10**12, 7).tolist() == found[1:].tolist()


def test_neighbours_do_not_stay_neighbours() -> None:
    """Correlations of a random order of 20,000 are within ± 0.03 with probability 0.99998."""
    order = permute(np.arange(20_000), 20_000, 1)
    assert abs(np.corrcoef(order, np.arange(20_000))[0, 1]) < 0.03
    assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 0.03


def epochs(counts: list[int], batch: int, seed: int, number: int) -> Tensor:
    """All samples of the first steps, a row for each step."""
    lanes = Lanes(counts, batch, seed)
    return torch.stack([lanes(step) for step in range(-(-lanes.size * number // batch))])


@given(counts=SHARDS, batch=st.integers(1, 32), seed=st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_every_sample_is_drawn_equally_often(counts: list[int], batch: int, seed: int) -> None:
    """After three epochs each was drawn three times, up to the sample and the rows that lanes are rounded by."""
    drawn = epochs(counts, batch, seed, 3)
    times = torch.bincount(drawn.flatten(), minlength=sum(counts))
    assert len(times) == sum(counts)
    enough = sum(counts) >= 4 * batch
    assert int(times.min()) >= (2 if enough else 1)
    assert int(times.max()) <= (5 if enough else 6 + batch)


def test_a_lane_draws_each_of_its_samples_once_in_its_epoch() -> None:
    lanes, counts = Lanes([30, 50, 1, 79], 16, 0), [30, 50, 1, 79]
    drawn = torch.stack([lanes(step) for step in range(sum(counts) // 16)])
    assert sorted(drawn.flatten().tolist()) == list(range(160))
    again = torch.stack([lanes(step) for step in range(10, 20)])
    assert sorted(again.flatten().tolist()) == list(range(160))
    assert not torch.equal(drawn, again)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_processes_read_their_own_shards(size: int) -> None:
    """A process's rows come from shards that hardly any other reads, and the batch does not depend on their number."""
    counts, batch = [10] * 64, 32
    lanes, stops = Lanes(counts, batch, 3), np.cumsum(counts)
    rows = [share(batch, World(rank, size)) for rank in range(size)]
    read = []
    for own in rows:
        drawn = torch.cat([lanes(step)[own] for step in range(40)])
        shards = set(np.searchsorted(stops, drawn.numpy(), "right").tolist())
        read.append(shards)
        assert set(lanes.ahead(0, range(batch)[own])) >= set(np.searchsorted(stops, lanes(0)[own].numpy(), "right").tolist())
    assert set.union(*read) == set(range(64))
    assert sum(map(len, read)) <= 64 + 4 * (size - 1) * (LANES % size > 0)


def test_a_step_does_not_depend_on_those_before_it() -> None:
    counts = [7, 0, 31, 12]
    lanes = Lanes(counts, 8, 5)
    forward = [lanes(step) for step in range(30)]
    assert all(torch.equal(Lanes(counts, 8, 5)(step), forward[step]) for step in (29, 3, 17))
    assert all(torch.equal(lanes(step), forward[step]) for step in (29, 3, 17))
    assert not torch.equal(Lanes(counts, 8, 6)(0), forward[0])


def test_a_billion_samples_take_no_memory() -> None:
    tracemalloc.start()
    try:
        lanes = Lanes(np.full(10**4, 10**5), 64, 0)
        drawn = torch.cat([lanes(step) for step in (0, 10**6, 10**9)])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lanes.size == 10**9
    assert ((drawn >= 0) & (drawn < 10**9)).all()
    assert peak < 5e6


@given(size=st.integers(1, 60), out=st.sets(st.integers(0, 59), max_size=30))
@settings(max_examples=15, deadline=None)
def test_a_pool_without_some_samples(size: int, out: set[int]) -> None:
    out = {place for place in out if place < size}
    kept = Kept(size, torch.tensor(sorted(out), dtype=torch.int64))
    assert len(kept) == size - len(out)
    assert kept[torch.arange(len(kept))].tolist() == [place for place in range(size) if place not in out]
