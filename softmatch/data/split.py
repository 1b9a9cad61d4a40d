"""Split into labelled, unlabelled and held-out samples: drawn from a seed of its own, saved in the run folder."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from softmatch.data.examples import UNLABELED, Examples
from softmatch.errors import InputError
from softmatch.seeds import stream

LONGEST_LIST = 100_000
FARTHEST = 2**40
"""A position beyond any dataset."""


@dataclass(frozen=True)
class Split:
    """Positions in `Examples.items`. The labelled samples are also in the unlabelled set, as in the paper's code base.

    `test` is empty when the source brings a test set of its own.
    """

    labeled: Tensor
    unlabeled: Tensor
    test: Tensor
    seed: int

    def as_dict(self) -> dict[str, Any]:
        """For split.json: lists of positions; a run of 100,000 successive ones or more is {"start": …, "stop": …}."""
        parts = {"labeled": self.labeled, "unlabeled": self.unlabeled, "test": self.test}
        return {"seed": self.seed, **{name: _encode(positions) for name, positions in parts.items()}}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], most: int | None = None) -> "Split":
        """Inverse of `as_dict`.

        Args:
            most: samples that there are, if that is known: more positions are refused before memory is taken for them.
        """
        parts = {name: _decode(name, found.get(name), most) for name in ("labeled", "unlabeled", "test")}
        if not isinstance(found.get("seed"), int):
            raise InputError(f"a split needs its seed, a whole number; it has {str(found.get('seed'))[:40]!r}.")
        return cls(**parts, seed=found["seed"])


def _encode(positions: Tensor) -> list[int] | dict[str, int]:
    """600,000 positions would be 4 MB of JSON, and most large sets are a whole dataset."""
    if len(positions) >= LONGEST_LIST and bool((positions.diff() == 1).all()):
        return {"start": int(positions[0]), "stop": int(positions[-1]) + 1}
    numbers: list[int] = positions.tolist()
    return numbers


def count_positions(name: str, found: Any) -> int:
    """Count the positions that `as_dict` has written under this name."""
    ends = [found.get(key) for key in ("start", "stop")] if isinstance(found, Mapping) else found
    if not isinstance(ends, list) or not all(type(position) is int and abs(position) < FARTHEST for position in ends):
        raise InputError(f"{name!r} of a split must be a list of positions, or start and stop; it is {str(found)[:40]!r}.")
    if isinstance(found, Mapping):
        start, stop = map(int, ends)
        return max(0, stop - start)
    return len(ends)


def _decode(name: str, found: Any, most: int | None) -> Tensor:
    """The positions that `as_dict` has written under this name."""
    number = count_positions(name, found)
    if not isinstance(found, Mapping):
        return torch.tensor(found, dtype=torch.int64)
    if number > (FARTHEST if most is None else most):
        there = "" if most is None else f"there are {most:,} samples, "
        raise InputError(f"{there}{name!r} of the split reaches from {found['start']:,} to {found['stop']:,}.")
    return torch.arange(found["start"], found["start"] + number)


def make_split(
    examples: Examples, labels: int, seed: int, test_fraction: float = 0.3, parts: tuple[Tensor, Tensor] | None = None
) -> Split:
    """Hold out a share for testing (unless the source has a test set), then draw labels/C labelled samples of each class.

    Args:
        parts: positions to test on and all others to use, where they have been chosen already.
    """
    number = len(examples.classes)
    if labels < number or labels % number:
        lower = max(labels // number, 1) * number
        raise InputError(
            f"--labels {labels} cannot be shared evenly by {number} classes: give a multiple of {number}, "
            f"for example {lower} or {lower + number}."
        )
    test, pool = _hold_out(examples, seed, test_fraction) if parts is None else parts
    per_class, generator, chosen = labels // number, stream(seed, "labels"), []
    for name, members in zip(examples.classes, _members(examples, pool), strict=True):
        if len(members) < per_class:
            raise InputError(
                f"class {name!r} has {len(members)} samples to draw labels from, {per_class} are asked for: "
                f"give --labels {max(len(members), 1) * number} or fewer."
            )
        chosen.append(members[torch.randperm(len(members), generator=generator)[:per_class]])
    return Split(torch.cat(chosen).sort().values, pool, test, seed)


def long_tail_counts(head: int, gamma: float, num_classes: int) -> list[int]:
    """Samples of each class, n_c = ⌊n_0 · γ^(−c/(C−1))⌋ for c = 0 … C−1: n_0 = `head` in the first class, ⌊n_0/γ⌋ in the last.

    γ = 1 gives every class the same number; −γ gives the counts of γ in the opposite order. The floor is exact: 1,500 samples
    with γ = 100 end with 15, where powers in floating point may say 14.
    """
    if num_classes < 2 or head < 1:
        raise InputError(f"a long tail needs two classes and a sample, not {num_classes} and {head}.")
    if not math.isfinite(gamma) or abs(gamma) < 1:
        raise InputError(f"γ = {gamma}: the first class has γ times the samples of the last; give 1 or more, or −γ to reverse.")
    ratio, steps = Fraction(str(abs(gamma))), num_classes - 1

    def fits(count: int, position: int) -> bool:
        """Tell whether count ≤ head · γ^(−position/steps), in whole numbers."""
        return bool(count**steps * ratio.numerator**position <= head**steps * ratio.denominator**position)

    counts = []
    for position in range(num_classes):
        count = round(head * abs(gamma) ** (-position / steps)) + 1
        while not fits(count, position):
            count -= 1
        counts.append(count)
    return counts if gamma > 0 else counts[::-1]


def make_long_tailed_split(
    examples: Examples,
    *,
    head_labeled: int,
    head_unlabeled: int,
    gamma: float,
    gamma_unlabeled: float | None = None,
    seed: int,
    test_fraction: float = 0.3,
    disjoint: bool = False,
) -> Split:
    """Draw n_c labelled and m_c more unlabelled samples of each class, both by `long_tail_counts`.

    The unlabelled set of a class is the first n_c + m_c samples drawn, so that the labelled ones are part of it, as in CoSSL
    and DARP. The test set stays as it is.

    Args:
        head_labeled, head_unlabeled: n_0 and m_0, for the first class.
        gamma, gamma_unlabeled: γ of the labelled and of the unlabelled samples (default: the same); 1 is uniform, a
            negative number reversed.
        disjoint: leave the labelled samples out of the unlabelled set, as USB does.
    """
    number = len(examples.classes)
    labeled_counts = long_tail_counts(head_labeled, gamma, number)
    more_counts = long_tail_counts(head_unlabeled, gamma if gamma_unlabeled is None else gamma_unlabeled, number)
    test, pool = _hold_out(examples, seed, test_fraction)
    generator, labeled, unlabeled = stream(seed, "long tail"), [], []
    members = _members(examples, pool)
    for name, those, few, more in zip(examples.classes, members, labeled_counts, more_counts, strict=True):
        if not few:
            raise InputError(
                f"class {name!r} would get no labelled sample: {head_labeled} / {abs(gamma):g} is less than one. "
                "Raise --largest-class-labels or lower --imbalance."
            )
        if len(those) < few + more:
            raise InputError(
                f"class {name!r} has {len(those)} samples, {few} labelled and {more} more unlabelled are asked for: "
                f"lower --largest-class-labels ({head_labeled}) or --largest-class-unlabeled ({head_unlabeled})."
            )
        order = those[torch.randperm(len(those), generator=generator)]
        labeled.append(order[:few])
        unlabeled.append(order[few if disjoint else 0 : few + more])
    return Split(torch.cat(labeled).sort().values, torch.cat(unlabeled).sort().values, test, seed)


def hold_out_labels(positions: Tensor, labels: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Cut labelled samples in two, the second with this share of each class.

    A class of two or more gives at least one and keeps at least one; a class of one keeps it.
    """
    generator, kept, given = stream(seed, "validation"), [], []
    for label in sorted(set(labels.tolist())):
        members = positions[labels == label]
        number = min(max(round(share * len(members)), 1), len(members) - 1)
        order = members[torch.randperm(len(members), generator=generator)]
        given.append(order[:number])
        kept.append(order[number:])
    return torch.cat(kept).sort().values, torch.cat(given).sort().values


def _hold_out(examples: Examples, seed: int, test_fraction: float) -> tuple[Tensor, Tensor]:
    """Positions to test on (none where the source has a test set) and all others, both in order."""
    if examples.test is not None:
        return torch.zeros(0, dtype=torch.int64), torch.arange(len(examples))
    known = (examples.labels != UNLABELED).nonzero().flatten()
    held_out = round(test_fraction * len(known))
    if not 0 < held_out < len(known):
        raise InputError(f"test_fraction {test_fraction} leaves no samples for testing or for training.")
    test = known[torch.randperm(len(known), generator=stream(seed, "test"))[:held_out]].sort().values
    pool = torch.ones(len(examples), dtype=torch.bool)
    pool[test] = False
    return test, pool.nonzero().flatten()


def _members(examples: Examples, pool: Tensor) -> Sequence[Tensor]:
    """Group the positions by class, in order; samples without a label are left out."""
    labels = examples.labels[pool]
    pool, labels = pool[labels != UNLABELED], labels[labels != UNLABELED]
    counts = torch.bincount(labels, minlength=len(examples.classes))
    return torch.split(pool[torch.argsort(labels, stable=True)], counts.tolist())
