"""Splits and folds of any labels, copies and seeds: disjoint, exact, repeatable, and no copy on both sides."""

import json

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from softmatch.data.evaluation import hold_out, plan_evaluation
from softmatch.data.examples import UNLABELED, Examples
from softmatch.data.split import Split, hold_out_labels, long_tail_counts, make_long_tailed_split, make_split
from softmatch.errors import InputError

PROPERTY = settings(max_examples=60, deadline=None, derandomize=True)
SEEDS = st.integers(0, 2**40)


@st.composite
def labelled(draw: st.DrawFn, most: int = 60, own_test: bool | None = None) -> Examples:
    """Some samples of 2 to 5 classes, of which some have no label and a class may have none at all."""
    classes = draw(st.integers(2, 5))
    labels = torch.tensor(draw(st.lists(st.integers(UNLABELED, classes - 1), min_size=2, max_size=most)))
    names = tuple(f"class {number}" for number in range(classes))
    tested = draw(st.booleans()) if own_test is None else own_test
    test = Examples(torch.zeros(2, 1), torch.tensor([0, 1]), names, "vector") if tested else None
    return Examples(torch.arange(len(labels), dtype=torch.float32)[:, None], labels, names, "vector", test)


@st.composite
def copied(draw: st.DrawFn) -> tuple[Examples, Tensor]:
    """Samples without a test set, and groups of copies, which may be labelled in different ways."""
    examples = draw(labelled(own_test=False))
    first = draw(st.lists(st.integers(0, 10**6), min_size=len(examples), max_size=len(examples)))
    spread = draw(st.sampled_from([1, 2, 5, 1000]))
    groups, seen = [], dict[int, int]()
    for position, content in enumerate(number % (spread * len(first)) for number in first):
        groups.append(seen.setdefault(content, position))
    return examples, torch.tensor(groups)


def per_class(examples: Examples, positions: Tensor) -> list[int]:
    assert len(set(positions.tolist())) == len(positions)
    return torch.bincount(examples.labels[positions], minlength=len(examples.classes)).tolist()


def same(first: Split, second: Split) -> bool:
    return first.as_dict() == second.as_dict()


@PROPERTY
@given(labelled(), st.integers(1, 4), SEEDS, st.sampled_from([0.1, 0.3, 0.5, 0.9]))
def test_a_split_takes_as_many_labels_of_each_class_as_asked_for(
    examples: Examples, each: int, seed: int, test_fraction: float
) -> None:
    number, everything = len(examples.classes), set(range(len(examples)))
    try:
        split = make_split(examples, each * number, seed, test_fraction)
    except InputError:
        scarce = min(per_class(examples, (examples.labels >= 0).nonzero().flatten()))
        # It is refused where a class has too few; what is drawn for testing may leave it with too few by chance.
        assert scarce < each or examples.test is None
        return
    labeled, unlabeled, test = (set(part.tolist()) for part in (split.labeled, split.unlabeled, split.test))
    assert per_class(examples, split.labeled) == [each] * number
    assert labeled <= unlabeled
    assert not unlabeled & test
    assert unlabeled | test == everything
    known = int((examples.labels != UNLABELED).sum())
    assert len(test) == (0 if examples.test is not None else round(test_fraction * known))
    assert bool((examples.labels[split.test] != UNLABELED).all())
    assert same(split, make_split(examples, each * number, seed, test_fraction))
    assert same(split, Split.from_dict(json.loads(json.dumps(split.as_dict()))))


@PROPERTY
@given(
    st.integers(2, 6),
    st.integers(1, 60),
    st.integers(1, 60),
    st.floats(1.0, 80.0) | st.floats(-80.0, -1.0),
    st.none() | st.floats(1.0, 80.0) | st.floats(-80.0, -1.0),
    st.booleans(),
    SEEDS,
)
def test_a_long_tail_has_the_counts_of_its_formula(
    classes: int, head: int, more: int, gamma: float, other: float | None, disjoint: bool, seed: int
) -> None:
    names = tuple(f"class {number}" for number in range(classes))
    labels = torch.arange(classes).repeat(head + more)
    test = Examples(torch.zeros(2, 1), torch.tensor([0, 1]), names, "vector")
    examples = Examples(torch.zeros(len(labels), 1), labels, names, "vector", test)
    few, rest = (long_tail_counts(number, power, classes) for number, power in ((head, gamma), (more, other or gamma)))
    for start, power, counts in ((head, gamma, few), (more, other or gamma, rest)):
        falling = counts if power > 0 else counts[::-1]
        assert falling[0] == start
        for position, count in enumerate(falling):
            exact = start * abs(power) ** (-position / (classes - 1))
            assert count <= exact + 1e-6
            assert count > exact - 1 - 1e-6
    assume(min(few) > 0)

    def make() -> Split:
        return make_long_tailed_split(
            examples, head_labeled=head, head_unlabeled=more, gamma=gamma, gamma_unlabeled=other, seed=seed, disjoint=disjoint
        )

    split = make()
    assert per_class(examples, split.labeled) == few
    assert per_class(examples, split.unlabeled) == [b if disjoint else a + b for a, b in zip(few, rest, strict=True)]
    shared = set(split.labeled.tolist()) & set(split.unlabeled.tolist())
    assert shared == (set() if disjoint else set(split.labeled.tolist()))
    assert same(split, make())


@PROPERTY
@given(labelled(), st.floats(0.05, 0.9), SEEDS)
def test_validation_samples_are_taken_from_every_class_that_can_spare_one(examples: Examples, share: float, seed: int) -> None:
    known = (examples.labels != UNLABELED).nonzero().flatten()
    assume(len(known))
    kept, given_away = hold_out_labels(known, examples.labels[known], share, seed)
    assert sorted([*kept.tolist(), *given_away.tolist()]) == known.tolist()
    counts, left = per_class(examples, known), per_class(examples, kept)
    for count, stays, gone in zip(counts, left, per_class(examples, given_away), strict=True):
        assert stays + gone == count
        assert stays >= min(count, 1)
        assert gone >= 1 if count > 1 else gone == 0
        assert abs(gone - share * count) <= 1 or gone in (1, count - 1)


@PROPERTY
@given(copied(), st.integers(2, 7), SEEDS)
def test_folds_share_the_labelled_samples_out_and_keep_copies_together(
    source: tuple[Examples, Tensor], folds: int, seed: int
) -> None:
    examples, groups = source
    plan = plan_evaluation(examples, groups, seed, "crossfit", folds)
    known = (examples.labels != UNLABELED).nonzero().flatten()
    assert torch.equal(plan.final.labeled, known)
    assert torch.equal(plan.final.unlabeled, torch.arange(len(examples)))
    if plan.kind == "none":
        assert plan.folds == ()
        return
    assert 1 <= len(plan.folds) <= folds
    tested = torch.cat([fold.test for fold in plan.folds]).tolist()
    assert len(set(tested)) == len(tested)
    assert set(tested) <= set(known.tolist())
    for fold in plan.folds:
        outside = set(groups[fold.test].tolist())
        assert not outside & set(groups[fold.labeled].tolist())
        assert not outside & set(groups[fold.unlabeled].tolist())
        kept = {position for position in range(len(examples)) if int(groups[position]) not in outside}
        assert set(fold.unlabeled.tolist()) == kept
        assert set(fold.labeled.tolist()) == kept & set(known.tolist())
        assert set(examples.labels[fold.labeled].tolist()) == set(examples.labels[known].tolist())
    again = plan_evaluation(examples, groups, seed, "crossfit", folds)
    assert all(same(a, b) for a, b in zip(plan.folds, again.folds, strict=True))


@PROPERTY
@given(copied(), st.floats(0.05, 0.9), SEEDS)
def test_what_is_held_out_leaves_every_class_and_takes_its_copies_along(
    source: tuple[Examples, Tensor], share: float, seed: int
) -> None:
    examples, groups = source
    held_out = hold_out(examples.labels, groups, share, seed)
    known = (examples.labels != UNLABELED).nonzero().flatten()
    assert set(held_out.tolist()) <= set(known.tolist())
    outside = set(groups[held_out].tolist())
    assert not outside & {int(groups[position]) for position in known.tolist() if position not in set(held_out.tolist())}
    left = {int(examples.labels[position]) for position in known.tolist() if int(groups[position]) not in outside}
    assert left == set(examples.labels[known].tolist())
    assert torch.equal(held_out, hold_out(examples.labels, groups, share, seed))
