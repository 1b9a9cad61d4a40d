"""Shared parts of the methods around a match method, and of those for long-tailed data."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from softmatch.alignments import class_frequencies
from softmatch.errors import InputError
from softmatch.methods.base import MakeOptimizer, Method, require
from softmatch.methods.forward import Forward
from softmatch.methods.match import Match
from softmatch.metrics import PseudoLabels
from softmatch.step import Batch, Output

Base = str | Match | Callable[..., Method]
"""A match method to go around: the object, its name, or a function that builds it for the problem, with changes to that."""
BALANCED = "balanced"
"""Name of the head that is trained on classes of equal weight."""


def match_method(base: Base, **changes: int) -> Match:
    """The match method to go around. `softmatch.methods.build` turns a name into a function that makes the method.

    Args:
        changes: fields of the problem that differ for the base, such as the steps of one generation.
    """
    if isinstance(base, str):
        raise InputError(f"without a problem to build {base!r} for, give the base as an object: base=fixmatch(num_classes).")
    made = base if isinstance(base, Match) else base(**changes)
    if not isinstance(made, Match):
        what = f"{type(made).__name__} is not one"
        raise InputError(f"this method goes around a match method (softmatch, fixmatch, flexmatch, …); {what}.")
    return made


def label_counts(class_counts: Sequence[int] | None, num_classes: int) -> Tensor:
    """Labels per class (C,), float32."""
    if class_counts is None:
        raise InputError("this method uses the number of labels per class: give class_counts, one number for each class.")
    class_frequencies(class_counts, num_classes, "class_counts")  # raises InputError for invalid counts
    return torch.tensor([float(count) for count in class_counts])


def epoch_steps(num_unlabeled: int, unlabeled_batch: int, total_steps: int, given: int | None = None) -> int:
    """Steps that see every unlabelled sample once, at most a tenth of the run; or the given number."""
    require("be 1 or more", every=given)
    return given or max(min(math.ceil(num_unlabeled / unlabeled_batch), math.ceil(total_steps / 10)), 1)


class Around(Method):
    """A match method with something around it. Everything that is not overridden is the match method's own.

    A base given as an object becomes a part of this method and must not be used elsewhere.
    """

    def __init__(self, base: Match) -> None:
        super().__init__()
        self.base = base
        self.labeled_views, self.unlabeled_views = base.labeled_views, base.unlabeled_views
        self.streams, self.validation_share = base.streams, base.validation_share
        self.kinds, self.needs_features, self.optimizers = base.kinds, base.needs_features, base.optimizers
        self.tracked_views = base.unlabeled_views if base.tracked_views is None else base.tracked_views
        self.final_head, self.survey_every, self.generations = base.final_head, base.survey_every, base.generations

    def step(self, forward: Forward, batch: Batch) -> Output:
        return self.base.step(forward, batch)

    def judge(self, probs: Tensor, index: Tensor | None = None) -> PseudoLabels | None:
        return self.base.judge(probs, index)

    def heads(self, num_features: int) -> dict[str, nn.Module]:
        return self.base.heads(num_features)

    def begin(self, network: nn.Module, make_optimizer: MakeOptimizer) -> None:
        self.base.begin(network, make_optimizer)

    def after_step(self, forward: Forward, batch: Batch) -> None:
        self.base.after_step(forward, batch)

    def survey(self, probs: Tensor) -> None:
        self.base.survey(probs)

    def next_generation(self, probs: Tensor) -> None:
        self.base.next_generation(probs)

    def added_labels(self) -> Tensor | None:
        return self.base.added_labels()

    def statistics(self) -> dict[str, Tensor]:
        return self.base.statistics()

    def weight_curve(self, num_classes: int) -> tuple[Tensor, Tensor] | None:
        return self.base.weight_curve(num_classes)


class WithBalancedHead(Around):
    """A match method with a second linear head on the same features, which makes the predictions of the trained network."""

    def __init__(self, base: Match, num_classes: int) -> None:
        super().__init__(base)
        self.num_classes, self.needs_features, self.final_head = num_classes, True, BALANCED

    def heads(self, num_features: int) -> dict[str, nn.Module]:
        return {**super().heads(num_features), BALANCED: nn.Linear(num_features, self.num_classes)}
