"""Adsh: thresholds of a survey against loops, its edge cases, and the labels and weights that follow from them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from softmatch.errors import InputError
from softmatch.methods import Problem, build, fixmatch, freematch, softmatch
from softmatch.methods.longtail_weights import EqualShareThreshold, adsh
from softmatch.methods.match import Match
from tests.golden import CLASSES, STEP_1, close, probs_of

COUNTS = (2, 20, 10)


def make(base: Match, **options: Any) -> Match:
    return adsh(CLASSES, num_unlabeled=4, base=base, class_counts=COUNTS, **options)


def by_loops(probs: Tensor, head: int, threshold: float, old: list[float]) -> list[float]:
    """The thresholds after a survey, class by class."""
    classes = probs.shape[1]
    lists: list[list[float]] = [[] for _ in range(classes)]
    for row in probs.tolist():
        lists[row.index(max(row))].append(max(row))
    if not lists[head]:
        return old
    share = sum(c >= threshold for c in lists[head]), len(lists[head])
    found = list(old)
    for label in range(classes):
        if label != head and lists[label]:
            ranked = sorted(lists[label], reverse=True)
            rank = max(share[0] * len(ranked) // share[1], 1)
            found[label] = min(threshold, ranked[rank - 1])
    return found


def test_first_thresholds_are_all_the_given_one() -> None:
    weighting = EqualShareThreshold(3, head=0)
    close(weighting.thresholds, [0.95] * 3)
    close(weighting(probs_of([0.96, 0.94, 0.951], [0, 1, 2])), [1.0, 0.0, 1.0])


@pytest.mark.parametrize("head", [0, 2])
@pytest.mark.parametrize("seed", range(4))
def test_a_survey_is_the_loops(head: int, seed: int) -> None:
    torch.manual_seed(seed)
    weighting = EqualShareThreshold(4, head, threshold=0.7)
    for _ in range(2):
        logits = 3 * torch.randn(200, 4) + torch.tensor([1.0, 0.0, 0.5, -1.0])
        logits[logits.argmax(-1) == head] *= 2  # surer than the others, so more of it passes
        probs = torch.softmax(logits, -1)
        expected = by_loops(probs, head, 0.7, weighting.thresholds.tolist())
        weighting.survey(probs)
        close(weighting.thresholds, expected)
        assert float(weighting.thresholds.min()) < 0.65


def test_a_survey_by_hand() -> None:
    """Half of the head class passes, so half of the others: ranks ⌊4/2⌋ = 2 and ⌊3/2⌋ = 1."""
    weighting = EqualShareThreshold(3, head=0, threshold=0.9)
    weighting.survey(probs_of([0.95, 0.8, 0.5, 0.85, 0.7, 0.6, 0.8, 0.75, 0.99], [0, 0, 1, 1, 1, 1, 2, 2, 2]))
    close(weighting.thresholds, [0.9, 0.7, 0.9])  # class 2: 0.99, not above τ
    close(weighting.statistics()["class_thresholds"], [0.9, 0.7, 0.9])


def test_the_sample_at_the_rank_passes() -> None:
    weighting = EqualShareThreshold(3, head=0, threshold=0.9)
    probs = torch.softmax(2 * torch.randn(60, 3), -1)
    weighting.survey(probs)
    labels = probs.argmax(-1)
    chosen = weighting(probs, labels)
    share = float(chosen[labels == 0].mean())
    for label in (1, 2):
        members = labels == label
        assert int(chosen[members].sum()) == max(math.floor(share * int(members.sum()) + 1e-6), 1)


def test_when_no_head_sample_passes_the_top_sample_of_each_class_does() -> None:
    weighting = EqualShareThreshold(3, head=0, threshold=0.9)
    weighting.survey(probs_of([0.5, 0.6, 0.7, 0.55, 0.45], [0, 0, 1, 1, 2]))
    close(weighting.thresholds, [0.9, 0.7, 0.45])


def test_classes_that_are_not_predicted_keep_their_thresholds() -> None:
    weighting = EqualShareThreshold(3, head=0, threshold=0.9)
    weighting.survey(probs_of([0.95, 0.6, 0.5], [0, 1, 2]))
    close(weighting.thresholds, [0.9, 0.6, 0.5])
    weighting.survey(probs_of([0.95, 0.8], [0, 1]))
    close(weighting.thresholds, [0.9, 0.8, 0.5])
    weighting.survey(probs_of([0.6, 0.7], [1, 2]))  # the head class is not predicted: nothing to compare with
    close(weighting.thresholds, [0.9, 0.8, 0.5])


def test_rectified_labels() -> None:
    """argmax p/T: (.5, .4, .1) with T = (.9, .5, .9) is of class 1, but passes only above .5."""
    weighting = EqualShareThreshold(3, head=0, threshold=0.9)
    weighting.thresholds[1] = 0.5
    probs = torch.tensor([[0.5, 0.4, 0.1], [0.45, 0.52, 0.03], [0.95, 0.05, 0.0], [0.48, 0.5, 0.02]])
    assert weighting.target(probs).argmax(-1).tolist() == [1, 1, 0, 1]
    close(weighting(probs), [0.0, 1.0, 1.0, 1.0])
    close(weighting(probs, torch.tensor([0, 0, 1, 1])), [0.0, 0.0, 0.0, 1.0])
    plain = EqualShareThreshold(3, head=0, threshold=0.9, labels="argmax")
    plain.thresholds[1] = 0.5
    assert plain.target(probs).argmax(-1).tolist() == [0, 1, 0, 1]
    assert plain.target(probs).sum(-1).tolist() == [1.0] * 4


def test_golden_step() -> None:
    """T = (.95, .8, .35): the last row (.42, .18, .40) is of class 2 now, and passes."""
    method = adsh(CLASSES, num_unlabeled=4, base=fixmatch(CLASSES), class_counts=(20, 10, 2))
    method.weighting.thresholds.copy_(torch.tensor([0.95, 0.8, 0.35]))
    output = STEP_1.output(method)
    assert output.pseudo.labels.tolist() == [0, 0, 1, 2]
    assert output.pseudo.weights.tolist() == [0.0, 0.0, 1.0, 1.0]
    close(output.unsupervised_loss, -(math.log(0.65) + math.log(0.40)) / 4)


def test_before_the_first_survey_it_is_fixmatch() -> None:
    method = make(fixmatch(CLASSES), threshold=0.8)
    torch.testing.assert_close(STEP_1.output(method).loss, STEP_1.output(fixmatch(CLASSES, threshold=0.8)).loss)


def test_the_head_is_the_class_with_most_labels() -> None:
    method = make(fixmatch(CLASSES))
    method.survey(probs_of([0.5, 0.99, 0.5], [0, 1, 2]))
    close(method.weighting.thresholds, [0.5, 0.95, 0.5])


def test_around_softmatch_keeps_its_alignment() -> None:
    method = make(softmatch(CLASSES), threshold=0.5)
    output = STEP_1.output(method)
    assert "marginal" in method.statistics()
    assert set(output.pseudo.weights.tolist()) <= {0.0, 1.0}


def test_state_round_trips() -> None:
    method, other = (make(fixmatch(CLASSES)) for _ in range(2))
    method.survey(probs_of([0.5, 0.99, 0.5], [0, 1, 2]))
    other.load_state_dict(method.state_dict())
    torch.testing.assert_close(STEP_1.output(other).loss, STEP_1.output(method).loss)
    close(other.weighting.thresholds, [0.5, 0.95, 0.5])


def test_surveyed_every_epoch_at_most_a_tenth_of_the_run() -> None:
    for total_steps, every in ((1000, 3), (20, 2), (5, 1)):
        problem = Problem(3, num_unlabeled=1000, class_counts=COUNTS, total_steps=total_steps)
        method = build("softmatch.methods.longtail_weights:adsh", problem)
        assert method.survey_every == every
    assert build("softmatch.methods.longtail_weights:adsh", problem, {"every": 7}).survey_every == 7


def test_works_inside_other_wrappers() -> None:
    from softmatch.methods.longtail_heads import abc
    from softmatch.methods.longtail_weights import saw

    def inner() -> Match:
        return make(fixmatch(CLASSES), every=5)

    around = abc(CLASSES, base=inner(), class_counts=COUNTS)
    weighted = saw(CLASSES, num_unlabeled=4, base=inner(), class_counts=COUNTS)
    for method in (around, weighted):
        assert method.survey_every == 5
        method.survey(probs_of([0.5, 0.99, 0.5], [0, 1, 2]))
        close(method.statistics()["class_thresholds"], [0.5, 0.95, 0.5])


def test_options_that_make_no_sense_are_refused() -> None:
    base = fixmatch(CLASSES)
    with pytest.raises(InputError, match="class_counts"):
        adsh(CLASSES, num_unlabeled=4, base=base)
    for threshold in (0.0, 1.0, 1.5):
        with pytest.raises(InputError, match="threshold"):
            make(base, threshold=threshold)
    with pytest.raises(InputError, match="labels"):
        make(base, labels="soft")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(InputError, match="every"):
        make(base, every=0)
    with pytest.raises(InputError, match="penalty"):
        make(freematch(CLASSES))
    with pytest.raises(InputError, match="NaN"):
        EqualShareThreshold(3, head=0)(torch.full((1, 3), float("nan")))
