"""Methods around a match method: what they share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor, nn

from softmatch.errors import InputError
from softmatch.methods.base import Forward, MakeOptimizer, Method
from softmatch.methods.match import Match
from softmatch.step import Batch, Output


class Make(Protocol):
    """`softmatch.methods.build` for the problem at hand, of which `changes` are fields that differ for this method."""

    def __call__(self, name: str, options: Mapping[str, Any] | None = None, **changes: Any) -> Method: ...


def match_method(base: str | Match, make: Make | None = None, options: Mapping[str, Any] | None = None, **changes: Any) -> Match:
    """The match method to build around: one that is given, or the one of that name.

    Args:
        changes: fields of the problem that differ for the base, such as the steps of one generation.

    Raises:
        InputError: where the method of that name is not of the form alignment × weighting × target.
    """
    if isinstance(base, Match):
        return base
    if make is None:
        raise InputError(f"without a problem to build {base!r} for, give the base as an object: base=fixmatch(num_classes).")
    made = make(base, options, **changes)
    if not isinstance(made, Match):
        raise InputError(f"this method goes around a match method (softmatch, fixmatch, flexmatch, …); {base!r} is none.")
    return made


class Around(Method):
    """A match method with something around it. Everything that is not overridden is the match method's own.

    A base that is given as an object becomes a part of this method: it is not to be used besides.

    Attributes:
        base: the match method.
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
