"""Adsh and SAW: thresholds and weights of classes, by hand and by loops."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from softmatch.errors import InputError
from softmatch.methods import Problem, abc, build, fixmatch, freematch, softmatch, uda
from softmatch.methods.longtail_weights import (
    ClassWeighted,
    ClassWeightedCrossEntropy,
    EqualShareThreshold,
    adsh,
    class_weights,
    saw,
)
from softmatch.methods.match import Match
from softmatch.methods.match_variants import adamatch
from softmatch.step import Seen
from softmatch.weightings import Constant, Weighting
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
    assert weighting.target(probs).sum(-1).tolist() == [1.0] * 4


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


def test_surveyed_every_epoch_at_most_a_tenth_of_the_run() -> None:
    for total_steps, every in ((1000, 3), (20, 2), (5, 1)):
        problem = Problem(3, num_unlabeled=1000, class_counts=COUNTS, total_steps=total_steps)
        method = build("softmatch.methods.longtail_weights:adsh", problem)
        assert method.survey_every == every
    assert build("softmatch.methods.longtail_weights:adsh", problem, {"every": 7}).survey_every == 7


def test_works_inside_other_wrappers() -> None:
    from softmatch.methods.longtail_weights import saw

    def inner() -> Match:
        return make(fixmatch(CLASSES), every=5)

    around = abc(CLASSES, base=inner(), class_counts=COUNTS)
    weighted = saw(CLASSES, num_unlabeled=4, base=inner(), class_counts=COUNTS)
    for method in (around, weighted):
        assert method.survey_every == 5
        method.survey(probs_of([0.5, 0.99, 0.5], [0, 1, 2]))
        close(method.statistics()["class_thresholds"], [0.5, 0.95, 0.5])


SAW_COUNTS = (20, 10, 2)


def make_saw(base: Match, **options: int) -> Match:
    return saw(CLASSES, num_unlabeled=4, base=base, class_counts=SAW_COUNTS, **options)


def expected_weights(counts: list[float]) -> list[float]:
    """The formula, in float64."""
    n = np.asarray(counts, dtype=np.float64)
    beta = (n.mean() - 1) / n.mean()
    weights = (1 - beta) / (1 - beta ** np.maximum(n, 1))
    return [float(w) for w in len(n) * weights / weights.sum()]


def seen(labels: list[int], index: list[int]) -> Seen:
    return Seen(probs_of([0.9] * len(labels), labels), index=torch.tensor(index))


@pytest.mark.parametrize("counts", [[20, 10, 2], [1500, 899, 15], [50000, 10, 1], [30, 0, 3], [1.5, 9, 4.5]])
def test_class_weights_are_the_formula(counts: list[float]) -> None:
    found = class_weights(torch.tensor(counts))
    np.testing.assert_allclose(found.numpy(), expected_weights(counts), rtol=2e-5)
    assert float(found.sum()) == pytest.approx(3)


def test_class_weights_by_hand() -> None:
    """n = 3, 1: n̄ = 2, β = 1/2, effective numbers 7/8 and 1/2 (times 2): weights 8/7 : 2, made to sum to 2."""
    close(class_weights(torch.tensor([3, 1])), [8 / 11, 14 / 11])


def test_equal_classes_and_single_samples_have_weight_one() -> None:
    for counts in ([7, 7, 7], [1, 1, 1], [0, 0, 0]):
        close(class_weights(torch.tensor(counts)), [1.0, 1.0, 1.0])


def test_labelled_loss_is_weighted_and_divided_by_the_batch() -> None:
    weights = torch.tensor([0.5, 1.0, 1.5])
    logits, labels = torch.randn(4, 3), torch.tensor([0, 2, 1, 2])
    found = ClassWeightedCrossEntropy(weights)(logits, labels)
    losses = F.cross_entropy(logits, labels, reduction="none").tolist()
    close(found, sum(w * loss for w, loss in zip([0.5, 1.5, 1.0, 1.5], losses, strict=True)) / 4)
    assert ClassWeightedCrossEntropy(weights)(logits.bfloat16(), labels).dtype == torch.float32


def test_golden_step_weighted() -> None:
    method = make_saw(fixmatch(CLASSES, threshold=0.8))
    weighting = method.weighting
    weighting.weights.copy_(torch.tensor([0.25, 2.0, 0.75]))
    output = STEP_1.output(method, torch.arange(4))
    assert output.pseudo.weights.tolist() == [0.25, 0.0, 2.0, 0.0]
    assert output.pseudo.labels.tolist() == [0, 0, 1, 0]
    close(output.unsupervised_loss, -(0.25 * np.log(0.70) + 2.0 * np.log(0.65)) / 4)
    w = expected_weights(list(SAW_COUNTS))
    close(output.supervised_loss, -(w[0] * np.log(0.6) + w[2] * np.log(0.6)) / 2)
    assert weighting.predicted.rows.tolist() == [0, 0, 1, 0]


def test_weights_follow_the_registry_every_so_often() -> None:
    """1 at first; at step 2, 4, … from what was predicted before; unseen samples count evenly, the later of two counts."""
    weighting = ClassWeighted(Constant(), 3, num_unlabeled=6, every=2)
    close(weighting.counts(), [2.0, 2.0, 2.0])
    weighting.update(seen([0, 1], [0, 1]))
    close(weighting.weights, [1.0, 1.0, 1.0])
    weighting.update(seen([0, 2, 0], [2, 2, 3]))
    close(weighting.weights, [1.0, 1.0, 1.0])
    assert weighting.predicted.rows.tolist() == [0, 1, 2, 0, -1, -1]
    close(weighting.counts(), [2 + 2 / 3, 1 + 2 / 3, 1 + 2 / 3])
    weighting.update(seen([0, 0, 0], [1, 4, 5]))
    close(weighting.weights, expected_weights([2 + 2 / 3, 1 + 2 / 3, 1 + 2 / 3]))
    weighting.update(seen([0], [0]))
    close(weighting.weights, expected_weights([2 + 2 / 3, 1 + 2 / 3, 1 + 2 / 3]))
    weighting.update(seen([0], [0]))
    close(weighting.weights, expected_weights([5, 0, 1]))


def test_weights_multiply_the_inner_ones_by_pseudo_label() -> None:
    weighting = ClassWeighted(Constant(0.5), 3, num_unlabeled=6, every=1)
    weighting.weights.copy_(torch.tensor([0.2, 0.8, 2.0]))
    probs = probs_of([0.9, 0.9, 0.9], [0, 1, 2])
    close(weighting(probs), [0.1, 0.4, 1.0])
    close(weighting(probs, torch.tensor([2, 2, 0])), [1.0, 1.0, 0.1])
    close(weighting.statistics()["class_weights"], [0.2, 0.8, 2.0])


def test_weights_stay_below_the_bound() -> None:
    weighting = ClassWeighted(Constant(0.5), 3, num_unlabeled=1000, every=1)
    weighting.predicted.values.zero_()
    weighting.update(seen([0], [0]))
    weighting.update(seen([0], [0]))
    assert weighting.max_weight == 1.5
    found = weighting(probs_of([0.9] * 3, [0, 1, 2]))
    assert 0.7 < float(found.max()) <= weighting.max_weight


def test_surveys_and_updates_reach_the_inner_weighting() -> None:
    class Surveyed(Weighting):
        calls: list[str]

        def update(self, seen: Seen) -> None:
            self.calls.append("update")

        def survey(self, probs: torch.Tensor) -> None:
            self.calls.append("survey")

    inner = Surveyed()
    inner.calls = []
    weighting = ClassWeighted(inner, 3, num_unlabeled=6, every=1)
    weighting.update(seen([0], [0]))
    weighting.survey(torch.zeros(6, 3))
    assert inner.calls == ["update", "survey"]


def test_built_for_a_problem() -> None:
    """Every epoch of the unlabelled set, at most a tenth of the run."""
    for total_steps, every in ((1000, 3), (20, 2), (5, 1)):
        problem = Problem(3, num_unlabeled=1000, class_counts=SAW_COUNTS, total_steps=total_steps)
        method = build("softmatch.methods.longtail_weights:saw", problem)
        assert method.weighting.every == every
        assert len(method.weighting.predicted) == 1000
        close(method.supervised_loss.weights, expected_weights(list(SAW_COUNTS)))


def test_what_cannot_be_done_is_refused() -> None:
    for base in (adamatch(CLASSES), uda(CLASSES, annealing="linear")):
        with pytest.raises(InputError, match="labelled loss of its own"):
            make_saw(base)
    method = make_saw(fixmatch(CLASSES))
    with pytest.raises(InputError, match="index"):
        STEP_1.output(method)
    with pytest.raises(InputError, match="0 … 3"):
        STEP_1.output(method, torch.arange(1, 5))


def test_adsh_replaces_thresholds_that_no_penalty_needs() -> None:
    with pytest.raises(InputError, match="penalty"):
        make(freematch(CLASSES))
    with pytest.raises(InputError, match="NaN"):
        EqualShareThreshold(3, head=0)(torch.full((1, 3), float("nan")))
