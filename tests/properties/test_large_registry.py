"""Ten million unlabelled samples: a step touches the rows of its batch and no others, whatever is remembered of the rest."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from softmatch.methods.longtail_weights import ClassWeighted
from softmatch.step import Seen
from softmatch.thresholds import CurriculumThreshold
from softmatch.weightings import Constant, Weighting

CLASSES, BATCH, UNLABELED = 10, 64, 10_000_000
BY_ROW = {"aten.index.Tensor", "aten.index_copy_.default"}
"""Operations whose work is that of the rows they are given, not of the tensor."""
VIEWS = {"aten.select.int", "aten.slice.Tensor", "aten.alias.default", "aten.detach.default"}


class Touched(TorchDispatchMode):
    """Notes each operation that takes in or gives out a tensor of more than `most` elements."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.operations = most, set[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves((args, kwargs, found)) if isinstance(leaf, Tensor)]
        if any(tensor.numel() > self.most for tensor in tensors):
            self.operations.add(str(func))
        return found


def batch(seed: int) -> Seen:
    random = torch.Generator().manual_seed(seed)
    probs = torch.softmax(8.0 * torch.randn(BATCH, CLASSES, generator=random), -1)
    index = torch.randint(UNLABELED, (BATCH,), generator=random)
    index[0], index[-1] = UNLABELED - 1, 0
    return Seen(probs, index=index)


@pytest.mark.parametrize(
    "make",
    [lambda: CurriculumThreshold(CLASSES, UNLABELED), lambda: ClassWeighted(Constant(), CLASSES, UNLABELED, every=10**9)],
    ids=["flexmatch", "saw"],
)
def test_a_step_touches_the_rows_of_its_batch_alone(make: Callable[[], Weighting]) -> None:
    weighting = make()
    weighting.update(batch(0))
    with Touched(50 * BATCH * CLASSES) as touched:
        for seed in (1, 2):
            seen = batch(seed)
            weighting.update(seen)
            weighting(seen.weak_probs)
    assert touched.operations <= BY_ROW | VIEWS
    assert "aten.index_copy_.default" in touched.operations  # it would see one, if there were more


def test_what_goes_through_all_rows_is_noticed() -> None:
    weighting = ClassWeighted(Constant(), CLASSES, UNLABELED, every=1)  # counts all rows at each step
    weighting.update(batch(0))
    with Touched(50 * BATCH * CLASSES) as touched:
        weighting.update(batch(1))
    assert touched.operations - BY_ROW - VIEWS


def test_the_registry_is_right_at_both_ends_of_ten_million() -> None:
    weighting, seen = CurriculumThreshold(CLASSES, UNLABELED, threshold=0.5), batch(3)
    weighting.update(seen)
    confident = seen.weak_probs.max(-1).values >= 0.5
    labels = torch.where(confident, seen.weak_probs.argmax(-1), -1)
    assert torch.equal(weighting.registry[seen.index].long(), labels)  # no position is drawn twice with this seed
    assert int(weighting.counts[0]) == UNLABELED - int(confident.sum())
    assert int(weighting.counts.sum()) == UNLABELED
