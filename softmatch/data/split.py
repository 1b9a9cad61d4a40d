"""Which samples are labelled, unlabelled and held out: drawn from a seed of its own, saved in the run folder."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from softmatch.data.examples import UNLABELED, Examples
from softmatch.data.seeds import stream
from softmatch.errors import InputError


@dataclass(frozen=True)
class Split:
    """Positions in `Examples.items`. The labelled samples also stand in the unlabelled set, as in the paper's code base.

    `test` is empty when the source brings a test set of its own.
    """

    labeled: Tensor
    unlabeled: Tensor
    test: Tensor
    seed: int

    def as_dict(self) -> dict[str, object]:
        return {
            "seed": self.seed,
            "labeled": self.labeled.tolist(),
            "unlabeled": self.unlabeled.tolist(),
            "test": self.test.tolist(),
        }


def make_split(examples: Examples, labels: int, seed: int, test_fraction: float = 0.3) -> Split:
    """Hold out a share for testing (unless the source has a test set), then draw labels/C labelled samples of each class.

    Raises:
        InputError: where a class has too few samples, or `labels` is not a multiple of the number of classes.
    """
    number = len(examples.classes)
    if labels < number or labels % number:
        lower = max(labels // number, 1) * number
        raise InputError(
            f"--labels {labels} cannot be shared evenly by {number} classes: give a multiple of {number}, "
            f"for example {lower} or {lower + number}."
        )
    order = torch.randperm(len(examples), generator=stream(seed, "test"))
    held_out = 0 if examples.test is not None else round(test_fraction * len(examples))
    if examples.test is None and not 0 < held_out < len(examples):
        raise InputError(f"test_fraction {test_fraction} leaves no samples for testing or for training.")
    test, pool = order[:held_out].sort().values, order[held_out:].sort().values
    return Split(_balanced(examples, pool, labels // number, seed), pool, test, seed)


def _balanced(examples: Examples, pool: Tensor, per_class: int, seed: int) -> Tensor:
    generator = stream(seed, "labels")
    chosen = []
    for position, name in enumerate(examples.classes):
        members = pool[examples.labels[pool] == position]
        if len(members) < per_class:
            raise InputError(
                f"class {name!r} has {len(members)} samples to draw labels from, {per_class} are asked for: "
                f"give --labels {max(len(members), 1) * len(examples.classes)} or fewer."
            )
        chosen.append(members[torch.randperm(len(members), generator=generator)[:per_class]])
    labeled = torch.cat(chosen).sort().values
    assert not bool((examples.labels[labeled] == UNLABELED).any())
    return labeled
