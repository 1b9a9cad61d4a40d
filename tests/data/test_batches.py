"""Batches: every sample once an epoch, the same batch for the same step, no truth of unlabelled samples."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softmatch.data import Batches
from softmatch.data.batches import BalancedSampler, LengthSampler, Sampler, draw_version, make_roles, text_lengths
from softmatch.distributed import processes
from softmatch.distributed.processes import World
from softmatch.step import Batch
from softmatch.views import ImageViews, TextViews, VectorViews, Views

CPU = torch.device("cpu")


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
    return Batches(make_roles(items[:6], torch.arange(6), items, 4, 8, 0, ("weak",), unlabeled_views), views, 0, CPU)


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
    cut = Batches(make_roles(items[:6], torch.arange(6), items[pool], 4, 5, 0), views, 0, CPU)
    whole = Batches(make_roles(items[:6], torch.arange(6), items, 4, 5, 0, pool=pool), views, 0, CPU)
    for step in range(5):
        expected, found = cut(step), whole(step)
        assert torch.equal(found.index, expected.index)
        assert torch.equal(found.unlabeled["strong"], expected.unlabeled["strong"])


def test_items_that_are_on_the_device_are_not_copied() -> None:
    items, views = torch.zeros(30, 2), VectorViews([0.0, 0.0], [1.0, 1.0])
    labels = torch.zeros(30).long()
    batches = Batches(make_roles(items, labels, items, 4, 5, 0, pool=torch.arange(20)), views, 0, CPU)
    assert {role.items.data_ptr() for role in batches.roles.values() if isinstance(role.items, torch.Tensor)} == {
        items.data_ptr()
    }
    alone = Batches(make_roles(items, labels, items, 4, 5, 0, unlabeled_views=()), views, 0, torch.device("meta"))
    assert list(alone.roles) == ["labeled"], "a supervised run has no use for the others on its device"


def test_a_second_view_of_a_kind_is_another_draw_and_leaves_the_first_alone() -> None:
    batch = make(("weak", "weak_2", "strong_2", "medium"))(3)
    assert torch.equal(batch.unlabeled["weak"], make(("weak",))(3).unlabeled["weak"])
    assert not torch.equal(batch.unlabeled["weak"], batch.unlabeled["weak_2"])
    spread = [float((batch.unlabeled[name] - batch.unlabeled["weak"]).std()) for name in ("weak_2", "medium", "strong_2")]
    assert spread == sorted(spread)


@settings(max_examples=40, deadline=None)
@given(labels=st.lists(st.integers(0, 5), min_size=1, max_size=30), seed=st.integers(0, 2**40))
def test_a_balanced_sampler_draws_every_class_equally_often(labels: list[int], seed: int) -> None:
    truth = torch.tensor(labels)
    sampler = BalancedSampler(truth, 600, seed)
    drawn = sampler(4)
    assert torch.equal(drawn, BalancedSampler(truth, 600, seed)(4))
    assert set(drawn.tolist()) <= set(range(len(labels)))
    counts = torch.bincount(truth[drawn], minlength=6)[truth.unique()]
    assert float(counts.float().sub(600 / len(counts)).abs().max()) < 6 * (600 / len(counts)) ** 0.5 + 1


def test_streams_of_labelled_samples_come_beside_the_batch() -> None:
    items, views = torch.arange(60.0).reshape(30, 2), VectorViews([0.0, 0.0], [1.0, 1.0])
    held_out = items[20:24], torch.tensor([9, 8, 7, 6])
    roles = make_roles(items[:6], torch.arange(6), items, 4, 8, 0, streams=("balanced", "validation"), validation=held_out)
    batch = Batches(roles, views, 0, CPU)(2)
    assert set(batch.streams) == {"balanced", "validation"}
    balanced, validation = batch.streams["balanced"], batch.streams["validation"]
    assert torch.allclose(balanced.views["weak"], items[balanced.labels], atol=0.2)
    assert sorted(validation.labels.tolist()) == [6, 7, 8, 9]
    assert torch.allclose(validation.views["weak"], items[29 - validation.labels], atol=0.2)
    assert torch.equal(batch.labels, torch.arange(6)[batch.labeled_index])


SHARED: dict[str, tuple[Views, torch.Tensor]] = {
    "vectors": (
        VectorViews([0.0] * 3, [1.0] * 3, swap=0.4, drop=0.2),
        torch.randn(40, 3, generator=torch.Generator().manual_seed(1)),
    ),
    "images": (
        ImageViews([0.5] * 3, [0.25] * 3),
        torch.randint(0, 256, (40, 3, 9, 9), generator=torch.Generator().manual_seed(1), dtype=torch.uint8),
    ),
    "tokens": (TextViews(0, 3, (1, 2), weak=0.1), torch.randint(4, 50, (40, 8), generator=torch.Generator().manual_seed(1))),
}


def _views(batch: Batch) -> dict[str, torch.Tensor]:
    found = {f"labeled {name}": view for name, view in batch.labeled.items()}
    found |= {f"unlabeled {name}": view for name, view in batch.unlabeled.items()}
    return found | {f"{role} {name}": view for role, each in batch.streams.items() for name, view in each.views.items()}


@pytest.mark.parametrize("kind", SHARED)
def test_several_processes_make_the_views_of_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    views, items = SHARED[kind]
    names = ("weak", "weak_2", "medium", "strong")
    held_out = items[10:15], torch.arange(5)
    streams = {"streams": ("balanced", "validation"), "validation": held_out, "pool": torch.arange(5, 40)}
    roles = make_roles(items[:10], torch.arange(10), items, 7, 17, 3, ("weak", "strong"), names, **streams)  # type: ignore[arg-type]  # options by name
    batches, step = Batches(roles, views, 3, CPU), 11
    whole = batches(step)
    for size in (2, 3):
        found = []
        for rank in range(size):
            monkeypatch.setattr(processes, "world", lambda rank=rank, size=size: World(rank, size))
            found.append(batches(step))
        for each in found:
            assert torch.equal(each.labels, whole.labels)
            assert torch.equal(each.index, whole.index)
            assert torch.equal(each.labeled_index, whole.labeled_index)
            assert all(torch.equal(each.streams[role].labels, whole.streams[role].labels) for role in whole.streams)
        shares = [_views(each) for each in found]
        for name, expected in _views(whole).items():
            assert torch.equal(torch.cat([share[name] for share in shares]), expected)
            numbers = [len(share[name]) for share in shares]
            assert max(numbers) - min(numbers) <= 1


def test_strong_views_are_made_of_augmented_versions_and_weak_ones_of_the_item_itself() -> None:
    items = torch.arange(30.0)[:, None].expand(30, 2)
    versions = torch.stack([items + 100, items + 200], 1)
    both, three = ("weak", "strong"), ("weak", "strong", "strong_2")
    roles = make_roles(items[:6], torch.arange(6), items, 4, 16, 0, both, three, augmented=(versions[:6], versions))
    batches = Batches(roles, VectorViews([0.0, 0.0], [1.0, 1.0], weak_noise=0.0, strong_noise=0.0), 0, CPU)
    drawn = set()
    for step in range(4):
        batch = batches(step)
        assert torch.equal(batch.unlabeled["weak"], items[batch.index])
        first, second = (batch.unlabeled[name] - items[batch.index] for name in ("strong", "strong_2"))
        assert torch.equal(first + second, torch.full((16, 2), 300.0))  # the other one
        drawn |= set(first[:, 0].tolist())
        assert set((batch.labeled["strong"] - items[batch.labels])[:, 0].tolist()) <= {100.0, 200.0}
    assert drawn == {100.0, 200.0}
    assert torch.equal(batches(2).unlabeled["strong"], batches(2).unlabeled["strong"])


def test_a_single_augmented_version_serves_every_strong_view() -> None:
    items = torch.zeros(5, 3)
    versions = torch.ones(5, 1, 3)
    for name in ("strong", "strong_2", "medium"):
        assert torch.equal(draw_version(name, items, versions, torch.Generator().manual_seed(0)), versions[:, 0])


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
