"""The pair loader: the same batches with any number of workers, after a resume, and from several processes together."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

import softmatch
from softmatch import InputError, PairBatch, PairLoader
from softmatch.views import ImageViews, VectorViews

X, Y, U = torch.arange(24.0).view(12, 2), torch.arange(12) % 3, torch.arange(100.0).view(50, 2)
VIEWS = VectorViews([0.0, 0.0], [1.0, 1.0], swap=0.3, drop=0.2)
SIZES: dict[str, Any] = {"labeled_batch": 4, "unlabeled_batch": 8}


class Rows(Dataset[Any]):
    """Rows with labels; `drawn` adds numbers of the three generators that libraries of transforms use."""

    def __init__(self, rows: Tensor, drawn: bool = False) -> None:
        self.rows, self.drawn = rows, drawn

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> tuple[Any, int]:
        row = self.rows[place]
        return ((noisy(row), noisy(row)) if self.drawn else row), place % 3


def noisy(row: Tensor) -> Tensor:
    return row + torch.rand(2) + random.random() + float(np.random.rand())


class OwnViews:
    """Without `part`."""

    def weak(self, items: Tensor, generator: torch.Generator) -> Tensor:
        return items + torch.rand(items.shape, generator=generator)

    strong = weak


def first(loader: PairLoader, number: int) -> list[PairBatch]:
    return [batch for batch, _ in zip(loader, range(number), strict=False)]


def equal(one: list[PairBatch], two: list[PairBatch]) -> bool:
    assert len(one) == len(two)
    return all(torch.equal(a, b) for first, second in zip(one, two, strict=True) for a, b in zip(first, second, strict=True))


KINDS: dict[str, tuple[Any, Any, Any]] = {
    "tensors": ((X, Y), U, VIEWS),
    "arrays": ((X.numpy(), Y.numpy()), U.numpy(), VIEWS),
    "datasets": (Rows(X), Rows(U), VIEWS),
    "own views": ((X, Y), U, OwnViews()),
    "functions": (Rows(X), Rows(U), (noisy, noisy)),
    "datasets with views": (Rows(X), Rows(U, drawn=True), None),
}


@pytest.mark.parametrize("kind", KINDS)
def test_batches_hold_what_the_loop_needs_and_share_out(kind: str) -> None:
    whole = first(PairLoader(*KINDS[kind], **SIZES, seed=3), 8)
    x, y, weak, strong, index = whole[0]
    assert (x.shape, y.shape, weak.shape, strong.shape, index.shape) == ((4, 2), (4,), (8, 2), (8, 2), (8,))
    assert not torch.equal(weak, strong)
    assert sorted(torch.cat([batch.index for batch in whole])[:50].tolist()) == list(range(50))  # each once in an epoch
    pairs = [first(PairLoader(*KINDS[kind], **SIZES, seed=3, rank=rank, size=2), 8) for rank in (0, 1)]
    together = [PairBatch(*map(torch.cat, zip(*each, strict=True))) for each in zip(*pairs, strict=True)]
    assert equal(whole, together)
    assert not equal(whole, first(PairLoader(*KINDS[kind], **SIZES, seed=4), 8))


def test_items_labels_and_positions_belong_together() -> None:
    plain = [lambda row: row, lambda row: row + 1000]
    for x, y, weak, strong, index in first(PairLoader((X, Y), U, plain, **SIZES), 5):
        assert torch.equal(Y[(x[:, 0] / 2).long()], y)
        assert torch.equal(U[index], weak)
        assert torch.equal(weak + 1000, strong)


@pytest.mark.parametrize("kind", ["datasets", "datasets with views"])
def test_workers_change_nothing(kind: str) -> None:
    before = torch.get_rng_state(), random.getstate()
    one = first(PairLoader(*KINDS[kind], **SIZES), 5)
    two = first(PairLoader(*KINDS[kind], **SIZES, workers=2, length=5), 9)
    assert equal(one, two)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()


def test_a_resumed_loader_gives_the_batches_that_were_to_come() -> None:
    whole = first(PairLoader(*KINDS["functions"], **SIZES), 7)
    one = PairLoader(*KINDS["functions"], **SIZES)
    for _, number in zip(one, range(3), strict=False):
        state = one.state_dict()
        assert state["step"] == number + 1
    other = PairLoader(*KINDS["functions"], **SIZES)
    other.load_state_dict(state)
    assert equal(whole[3:], first(other, 4))


def test_length_makes_epochs_that_go_on() -> None:
    loader = PairLoader((X, Y), U, VIEWS, **SIZES, length=3)
    epochs = [*loader], [*loader]
    assert [len(epoch) for epoch in epochs] == [len(loader)] * 2 == [3, 3]
    assert equal([*epochs[0], *epochs[1]], first(PairLoader((X, Y), U, VIEWS, **SIZES), 6))
    loader.load_state_dict({**loader.state_dict(), "step": 4})
    assert equal([*loader], epochs[1][1:])  # the rest of the epoch
    with pytest.raises(TypeError, match="Give length"):
        len(PairLoader((X, Y), U, VIEWS, **SIZES))


def test_image_views_are_those_of_the_package_on_the_device() -> None:
    images = torch.randint(0, 256, (30, 1, 8, 8), dtype=torch.uint8)
    views = ImageViews([0.5], [0.25], pad=1, flip=False, reflect=False)
    ((x, _, _, strong, _),) = first(PairLoader((images[:12], Y), images, views, **SIZES, device="cpu"), 1)
    assert x.dtype == strong.dtype == torch.float32
    assert strong.shape == (8, 1, 8, 8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labeled": (X, Y[:5])}, r"as many labels as items, or a dataset; not \(12, 2\), \(5,\)"),
        ({"labeled": (X, Y - 1)}, "labels below 0. Give only"),
        ({"labeled": X}, r"labeled must be \(items, labels\)"),
        ({"labeled": Rows(X[:0])}, "labeled is empty"),
        ({"unlabeled": iter([1])}, "list_iterator is not such a dataset"),
        ({"views": [noisy]}, "two functions of single items"),
        ({"views": object()}, "two functions of single items"),
        ({"unlabeled_batch": 0}, "unlabeled_batch must be 1 or more, not 0"),
        ({"rank": 1}, "rank and size together"),
        ({"rank": 0, "size": 3}, "labeled_batch 4 cannot be shared equally by 3 processes"),
        ({"views": None}, r"unlabeled must give \(weak, strong\), not 1 values"),
        ({"views": None, "unlabeled": Rows(U)}, r"unlabeled must give \(weak, strong\), not 2 values"),
        ({"labeled": [1, 2], "views": (noisy, noisy)}, r"labeled must give \(item, label\), not int"),
    ],
)
def test_mistakes_are_named(change: dict[str, Any], message: str) -> None:
    given = {"labeled": (X, Y), "unlabeled": U, "views": VIEWS, **SIZES, **change}
    with pytest.raises(InputError, match=message):
        next(iter(PairLoader(**given)))


def test_a_state_of_other_batches_is_refused() -> None:
    state = PairLoader((X, Y), U, VIEWS, **SIZES, seed=1).state_dict()
    with pytest.raises(InputError, match=r"the saved PairLoader had seed 1, not 0\. Make this one"):
        softmatch.PairLoader((X, Y), U, VIEWS, **SIZES).load_state_dict(state)
