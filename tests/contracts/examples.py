"""Random batches, and comparisons of state, that the contract tests share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from softmatch.errors import InputError
from softmatch.methods import Method, Problem
from softmatch.step import Seen

CLASSES, UNLABELED = 4, 32
PROBLEM = Problem(
    num_classes=CLASSES,
    num_unlabeled=UNLABELED,
    num_labeled=10,
    class_counts=(4, 3, 2, 1),
    class_prior=(0.4, 0.3, 0.2, 0.1),
    total_steps=40,
    momentum=0.8,
)


@dataclass(frozen=True)
class Logits:
    """What a method is called with."""

    labeled: Tensor
    labels: Tensor
    weak: Tensor
    strong: Tensor
    index: Tensor

    def to(self, dtype: torch.dtype) -> "Logits":
        return Logits(self.labeled.to(dtype), self.labels, self.weak.to(dtype), self.strong.to(dtype), self.index)

    def seen(self) -> Seen:
        return Seen.from_logits(self.weak, self.labeled, self.labels, self.index)

    def probs(self) -> Tensor:
        return self.weak.float().softmax(-1)

    def loss(self, method: nn.Module) -> Tensor:
        """The loss of a method; `method` may be the compiled one."""
        views = getattr(method, "_orig_mod", method).unlabeled_views
        given: list[Tensor | None] = [self.labeled, self.labels]
        if views:
            given += [self.weak, self.strong if "strong" in views else None, self.index]
        return method(*given)


def logits(seed: int, size: int = 8, one_class: bool = False) -> "Logits":
    """A batch of `size` unlabelled samples of varied confidence; with `one_class` all are predicted as class 1."""
    generator = torch.Generator().manual_seed(seed)
    weak, strong = (3.0 * torch.randn(size, CLASSES, generator=generator) for _ in range(2))
    if one_class:
        weak[:, 1] = weak.max(-1).values + 1.0
    return Logits(
        labeled=2.0 * torch.randn(5, CLASSES, generator=generator),
        labels=torch.randint(0, CLASSES, (5,), generator=generator),
        weak=weak,
        strong=strong,
        index=torch.randperm(UNLABELED, generator=generator)[:size],
    )


BATCHES = {"several": logits(1), "two": logits(2, size=2), "one": logits(3, size=1), "one-class": logits(4, one_class=True)}


def state(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def assert_same_state(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> None:
    assert left.keys() == right.keys()
    for name, value in left.items():
        assert torch.equal(value, right[name]), f"{name}: {value} became {right[name]}"


def refusal(learn: Callable[[Seen], None], seen: Seen) -> str | None:
    """The message with which a batch is refused, or None."""
    try:
        learn(seen)
    except InputError as error:
        return str(error)
    return None


def with_gradient(seen: Seen) -> Seen:
    """The same batch, as somebody gives it who forgot to detach it."""
    weak, labeled = (value.clone().requires_grad_() for value in (seen.weak_probs, seen.labeled_probs))
    return replace(seen, weak_probs=weak, labeled_probs=labeled)


def through_safetensors(saved: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return safetensors.torch.load(safetensors.torch.save(dict(saved)))


def train(method: Method, first: int, steps: int) -> list[Tensor]:
    """The losses of a few training steps."""
    return [logits(100 + seed).loss(method).detach() for seed in range(first, first + steps)]


def taught(case: Callable[[], nn.Module], updates: int = 4) -> Any:
    """A weighting or alignment that has learned from a few batches."""
    learner: Any = case()
    for seed in range(updates):
        learner.update(logits(seed).seen())
    return learner
