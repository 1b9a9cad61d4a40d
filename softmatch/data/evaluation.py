"""Evaluation on a user's own labels: a test set, a hold-out, each sample left out in turn, or not at all."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from softmatch.data.examples import UNLABELED, Examples
from softmatch.data.split import Split
from softmatch.errors import InputError
from softmatch.seeds import stream

HOLD_OUT_FROM = 1000
"""Labelled samples from which on a share of them is held out; with fewer, each is left out in turn."""
FEWEST = 20
"""Samples that an error is measured on by itself; on fewer it would be uncertain by more than ± 20 points."""

Kind = Literal["test", "holdout", "crossfit", "none"]


@dataclass(frozen=True)
class Evaluation:
    """Plan of how the error of a run is measured.

    Attributes:
        kind: "test": the source has a test set. "holdout": samples that are held out of training. "crossfit": each labelled
            sample by a model that was trained on neither its label nor the sample. "none": not at all.
        final: what the saved model is trained on.
        folds: of a cross-fit, the split of each; their `test` parts are disjoint.
        reason: why there is none, or what it leaves out.
        measured_on: "random": only on labels whose samples no model chose, although there are others. "chosen": also on
            chosen ones, since there are too few others. "all": no model chose what was labelled, or there is a test set.
    """

    kind: Kind
    final: Split
    folds: tuple[Split, ...] = ()
    reason: str | None = None
    measured_on: Literal["all", "random", "chosen"] = "all"


def plan_evaluation(
    examples: Examples,
    groups: Tensor,
    seed: int,
    how: Literal["auto", "holdout", "crossfit", "none"] = "auto",
    folds: int = 5,
    test_fraction: float = 0.2,
) -> Evaluation:
    """Choose how to measure, and draw the samples. All labels are used for training, except those held out.

    Samples that a model chose to be labelled are harder than others, or more typical. The error is measured on the other
    labels, if there are 20 or more of them.

    Args:
        groups: (N,) of equal numbers for items with the same content. They are held out together, and a held-out item and its
            copies also leave the unlabelled set: a number for data that the model has never seen.
    """
    known = (examples.labels != UNLABELED).nonzero().flatten()
    everything, empty = torch.arange(len(examples)), torch.zeros(0, dtype=torch.int64)
    whole = Split(known, everything, empty, seed)
    if examples.test is not None:
        return Evaluation("test", whole)
    if how == "none":
        return Evaluation("none", whole, reason="You asked for no measurement (--evaluation none).")
    fair, measured_on = measurable(examples)
    if how == "holdout" or (how == "auto" and int(fair.sum()) >= HOLD_OUT_FROM):
        held_out = hold_out(examples.labels, groups, test_fraction, seed, fair)
        if len(held_out) < FEWEST:
            raise InputError(f"--evaluation holdout: {int(fair.sum())} labels are too few to give some away; use crossfit.")
        reason = _untested(examples.labels, known, held_out)
        return Evaluation("holdout", without(whole, groups, held_out), reason=reason, measured_on=measured_on)
    fold_of = _deal(examples.labels, groups, known, folds, seed, fair)
    if measured_on == "random" and int((fold_of >= 0).sum()) < FEWEST:
        measured_on, fold_of = "chosen", _deal(examples.labels, groups, known, folds, seed, examples.labels != UNLABELED)
    testable = int((fold_of >= 0).sum())
    if not testable or (testable < FEWEST and how == "auto"):
        return Evaluation("none", whole, reason=_too_few(len(known), testable))
    used = sorted(set(fold_of[fold_of >= 0].tolist()))
    splits = tuple(without(whole, groups, known[fold_of == fold]) for fold in used)
    return Evaluation("crossfit", whole, splits, _untested(examples.labels, known, known[fold_of >= 0]), measured_on)


def measurable(examples: Examples) -> tuple[Tensor, Literal["all", "random", "chosen"]]:
    """Mask (N,) of the labelled samples to measure an error on, and what they are; see `Evaluation`."""
    known = examples.labels != UNLABELED
    if examples.chosen is None or not bool((known & examples.chosen).any()):
        return known, "all"
    fair = known & ~examples.chosen
    return (fair, "random") if int(fair.sum()) >= FEWEST else (known, "chosen")


def hold_out(labels: Tensor, groups: Tensor, share: float, seed: int, fair: Tensor | None = None) -> Tensor:
    """Positions of this share of the labelled samples of each class, and at least one where two differ; copies together.

    Every class keeps a sample to train on, also where copies have different labels.

    Args:
        fair: mask (N,) of the samples that may be held out; None: all labelled ones.
    """
    generator, chosen = stream(seed, "hold out"), set[int]()
    known = (labels != UNLABELED).nonzero().flatten()
    fair = labels != UNLABELED if fair is None else fair
    for label in sorted(set(labels[known].tolist())):
        every = set(groups[known[labels[known] == label]].tolist())
        content = sorted(set(groups[(labels == label) & fair].tolist()))
        order = [content[position] for position in torch.randperm(len(content), generator=generator).tolist()]
        if len(every) > 1 and order:
            chosen |= set(order[: min(max(round(share * len(order)), 1), len(every) - 1)])
    for label in sorted(set(labels[known].tolist())):  # copies with another label may have taken a whole class along: one stays
        there = set(groups[known[labels[known] == label]].tolist())
        if there <= chosen:
            chosen.remove(min(there))
    return known[torch.isin(groups[known], torch.tensor(sorted(chosen), dtype=torch.int64)) & fair[known]]


def _deal(labels: Tensor, groups: Tensor, known: Tensor, folds: int, seed: int, fair: Tensor) -> Tensor:
    """The fold of each labelled sample, −1 for one that is not measured: the only one of its class, or not `fair`.

    Samples of a class go round the folds, so that each fold has its share of them and leaves at least one to train on; a sample
    goes where its copies are.
    """
    fold_of = torch.full((len(known),), -1, dtype=torch.int64)
    generator, dealt, next_fold = stream(seed, "folds"), dict[int, int](), 0
    classes, measured = sorted(set(labels[known].tolist())), set(groups[fair].tolist())
    for label in classes:
        members = (labels[known] == label).nonzero().flatten()
        members = members[torch.randperm(len(members), generator=generator)]
        content = groups[known[members]].tolist()
        if len(set(content)) < 2:
            continue
        for position, one in zip(members.tolist(), content, strict=True):
            if one not in measured:
                continue
            if one not in dealt:
                dealt[one] = next_fold % folds
                next_fold += 1
            fold_of[position] = dealt[one]
    for label in classes:  # copies with another label may have brought all of a class into one fold: then one stays
        members = (labels[known] == label).nonzero().flatten()
        if bool((fold_of[members] == fold_of[members[0]]).all()):
            fold_of[groups[known] == groups[known[members[0]]]] = -1
    return torch.where(fair[known], fold_of, -1)  # a copy of a sample that is left out is left out too, but not measured


def without(whole: Split, groups: Tensor, held_out: Tensor) -> Split:
    """The split in which these samples are the test set, and neither they nor their copies are trained on."""
    kept = ~torch.isin(groups, groups[held_out])
    return Split(whole.labeled[kept[whole.labeled]], whole.unlabeled[kept[whole.unlabeled]], held_out, whole.seed)


def _untested(labels: Tensor, known: Tensor, tested: Tensor) -> str | None:
    """Say in a sentence which classes are not measured."""
    missing = sorted(set(labels[known].tolist()) - set(labels[tested].tolist()))
    if not missing:
        return None
    return f"{len(missing)} of {len(set(labels[known].tolist()))} classes have no sample to spare for testing: not measured."


def _too_few(known: int, testable: int) -> str:
    if not testable:
        return (
            f"Each class has a single labelled sample ({known} in all): none can be spared for testing. Label at least one more "
            "of each class, or give test data with --test."
        )
    return (
        f"{testable} labelled samples are too few to measure an error on: it would be uncertain by "
        f"± {100 / testable**0.5:.0f} points. Label {FEWEST} or more, give test data with --test, or insist with "
        "--evaluation crossfit."
    )
