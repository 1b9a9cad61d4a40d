"""Weightings, thresholds, alignments and averages: what holds for every history of batches, whatever the network says."""

from dataclasses import replace
from random import Random

import pytest
import torch
from hypothesis import given, note, settings
from hypothesis import strategies as st
from torch import Tensor

from softmatch.alignments import Alignment, Target
from softmatch.averages import RunningAverage, Start
from softmatch.errors import InputError
from softmatch.step import Seen
from softmatch.weightings import Weighting
from tests.contracts.examples import CLASSES, UNLABELED, assert_same_state, state
from tests.contracts.test_alignment_contract import CASES as ALIGNMENTS
from tests.contracts.test_weighting_contract import CASES as WEIGHTINGS

PROPERTY = settings(max_examples=12, deadline=None, derandomize=True)
LOGIT = st.sampled_from([0.0, 1.0, -1.0, 7.0, -7.0, 120.0, -120.0]) | st.floats(-20.0, 20.0, width=32)
ROW = st.lists(LOGIT, min_size=CLASSES, max_size=CLASSES)
NOT_FINITE = st.sampled_from([float("nan"), float("inf"), -float("inf")])
CONFIDENCES = [1 / CLASSES, 0.3, 0.4, 0.55, 0.6, 0.69, 0.7, 0.71, 0.9, 0.949, 0.951, 0.999, 1.0]


@st.composite
def batches(draw: st.DrawFn, most: int = 6) -> Seen:
    """Predictions of any confidence, saturated and even ones too; no sample twice."""
    weak = torch.tensor(draw(st.lists(ROW, min_size=1, max_size=most)))
    labels = draw(st.lists(st.integers(0, CLASSES - 1), min_size=1, max_size=4))
    labeled = torch.tensor(draw(st.lists(ROW, min_size=len(labels), max_size=len(labels))))
    index = draw(st.lists(st.integers(0, UNLABELED - 1), min_size=len(weak), max_size=len(weak), unique=True))
    return Seen.from_logits(weak, labeled, torch.tensor(labels), torch.tensor(index))


HISTORIES = st.lists(batches(), min_size=1, max_size=4)


def taught(name: str, history: list[Seen]) -> Weighting:
    note(f"weighting {name}")
    weighting = WEIGHTINGS[name]()
    for seen in history:
        weighting.update(seen)
    return weighting


def ordered(seen: Seen, order: Tensor) -> Seen:
    """The same batch with its unlabelled samples in another order."""
    return replace(seen, weak_probs=seen.weak_probs[order], index=seen.index[order])


@PROPERTY
@given(HISTORIES)
def test_weights_lie_between_nought_and_the_largest(history: list[Seen]) -> None:
    for name in WEIGHTINGS:
        weighting = taught(name, history)
        weights = weighting(history[-1].weak_probs)
        assert bool(((weights >= 0.0) & (weights <= weighting.max_weight)).all())
        assert all(bool(torch.isfinite(value).all()) for value in weighting.state_dict().values())


@PROPERTY
@given(HISTORIES, st.randoms(use_true_random=False))
def test_the_order_of_a_batch_changes_neither_state_nor_weights(history: list[Seen], random: Random) -> None:
    orders = [torch.tensor(random.sample(range(len(seen.weak_probs)), len(seen.weak_probs))) for seen in history]
    shuffled = [ordered(seen, order) for seen, order in zip(history, orders, strict=True)]
    for name in WEIGHTINGS:
        first, second = taught(name, history), taught(name, shuffled)
        for key, value in first.state_dict().items():
            note(key)
            torch.testing.assert_close(second.state_dict()[key], value, rtol=1e-4, atol=1e-5)
        second.load_state_dict(first.state_dict())  # sums in another order differ in the last digit
        assert torch.equal(first(history[-1].weak_probs)[orders[-1]], second(shuffled[-1].weak_probs))


@PROPERTY
@given(HISTORIES)
def test_more_confidence_never_means_less_weight(history: list[Seen]) -> None:
    for name in WEIGHTINGS:
        if name == "allocation":  # a transport: what a sample gets depends on what the class has room for
            continue
        weighting = taught(name, history)
        for label in range(CLASSES):
            probs = torch.tensor([[(1.0 - top) / (CLASSES - 1)] * CLASSES for top in CONFIDENCES])
            probs[:, label] = torch.tensor(CONFIDENCES)
            weights = weighting(probs, torch.full((len(probs),), label))
            assert bool((weights.diff() >= -1e-6 * weighting.max_weight).all()), weights.tolist()


@PROPERTY
@given(HISTORIES, batches(), NOT_FINITE, st.data())
def test_what_is_not_finite_moves_no_state(history: list[Seen], then: Seen, value: float, data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(["weak_probs", "labeled_probs"]))
    broken = getattr(then, field).clone()
    broken[data.draw(st.integers(0, len(broken) - 1)), data.draw(st.integers(0, CLASSES - 1))] = value
    seen = replace(then, **{field: broken})
    for name in (*WEIGHTINGS, *ALIGNMENTS):
        note(name)
        learner = (WEIGHTINGS | ALIGNMENTS)[name]()
        for earlier in history:
            learner.update(earlier)
        before = state(learner)
        try:
            learner.update(seen)
        except InputError:
            assert_same_state(before, state(learner))
        assert all(bool(torch.isfinite(each).all()) for each in learner.state_dict().values())


@PROPERTY
@given(HISTORIES, batches())
def test_aligned_predictions_sum_to_one(history: list[Seen], then: Seen) -> None:
    for name, make in ALIGNMENTS.items():
        note(f"alignment {name}")
        alignment = make()
        for seen in history:
            alignment.update(seen)
        aligned = alignment(then.weak_probs)
        assert float(aligned.min()) >= 0.0
        torch.testing.assert_close(aligned.sum(-1), torch.ones(len(aligned)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("target", [[0.0, 0.5, 0.3, 0.2], "labels"])
@pytest.mark.parametrize("gap", [1.0, 40.0, 90.0, 120.0])
def test_a_certain_prediction_of_a_class_that_never_occurs_still_sums_to_one(target: Target, gap: float) -> None:
    alignment = Alignment(CLASSES, target, momentum=0.9, start="first")
    logits = torch.tensor([[gap, 0.0, 0.0, 0.0]])
    alignment.update(Seen.from_logits(torch.zeros(1, CLASSES), torch.zeros(3, CLASSES), torch.tensor([1, 2, 3]), None))
    aligned = alignment(torch.softmax(logits, -1))
    torch.testing.assert_close(aligned.sum(-1), torch.ones(1))
    assert float(aligned[0, 0]) == 0.0


@PROPERTY
@given(st.lists(ROW, min_size=1, max_size=6), st.sampled_from(["paper", "first", "debiased"]))
def test_a_uniform_marginal_stays_and_changes_nothing(rows: list[list[float]], start: Start) -> None:
    probs = torch.softmax(torch.tensor(rows), -1)
    even = torch.cat([probs.roll(shift, -1) for shift in range(CLASSES)])  # every class is predicted as often
    alignment = Alignment(CLASSES, momentum=0.8, start=start)
    for _ in range(3):
        torch.testing.assert_close(alignment(probs), probs, rtol=1e-4, atol=1e-6)
        alignment.update(Seen(even))
        torch.testing.assert_close(alignment.marginal.value, torch.full((CLASSES,), 1 / CLASSES))


@PROPERTY
@given(
    st.lists(st.tuples(st.floats(-1e3, 1e3, width=32), st.booleans()), min_size=1, max_size=12),
    st.floats(0.0, 0.999),
    st.sampled_from(["paper", "first", "debiased"]),
)
def test_an_average_lies_between_what_it_has_seen(values: list[tuple[float, bool]], momentum: float, start: Start) -> None:
    average, kept = RunningAverage(torch.tensor([0.5]), momentum, start), [0.5]
    for value, taken in values:
        average.update(torch.tensor([value]), where=torch.tensor([taken]))
        kept += [value] if taken else []
    counted = kept if start == "paper" or len(kept) == 1 else kept[1:]
    assert int(average.updates) == len(kept) - 1
    slack = 1e-3 + 1e-5 * max(map(abs, kept))
    assert min(counted) - slack <= float(average.value) <= max(counted) + slack
    if start == "debiased":
        weights = [momentum ** (len(counted) - 1 - position) for position in range(len(counted))]
        expected = sum(weight * value for weight, value in zip(weights, counted, strict=True)) / sum(weights)
        assert abs(float(average.value) - expected) <= slack
