"""SAW: class weights from the formula, the registry they are counted from, and both weighted losses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from softmatch.errors import InputError
from softmatch.methods import Problem, build, fixmatch, flexmatch, softmatch, uda
from softmatch.methods.longtail_weights import ClassWeighted, ClassWeightedCrossEntropy, class_weights, saw
from softmatch.methods.match import Match
from softmatch.methods.match_variants import adamatch
from softmatch.step import Seen
from softmatch.weightings import Constant, Weighting
from tests.golden import CLASSES, STEP_1, close, probs_of

COUNTS = (20, 10, 2)


def make(base: Match, **options: int) -> Match:
    return saw(CLASSES, num_unlabeled=4, base=base, class_counts=COUNTS, **options)


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
    method = make(fixmatch(CLASSES, threshold=0.8))
    weighting = method.weighting
    weighting.weights.copy_(torch.tensor([0.25, 2.0, 0.75]))
    output = STEP_1.output(method, torch.arange(4))
    assert output.pseudo.weights.tolist() == [0.25, 0.0, 2.0, 0.0]
    assert output.pseudo.labels.tolist() == [0, 0, 1, 0]
    close(output.unsupervised_loss, -(0.25 * np.log(0.70) + 2.0 * np.log(0.65)) / 4)
    w = expected_weights(list(COUNTS))
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


def test_around_methods_with_state_of_their_own() -> None:
    for base in (softmatch(CLASSES), flexmatch(CLASSES, num_unlabeled=4)):
        method = make(base)
        assert method is base
        output = STEP_1.output(method, torch.arange(4))
        assert torch.isfinite(output.loss)
    curve = method.weight_curve(CLASSES)
    assert curve is not None


def test_built_for_a_problem() -> None:
    """Every epoch of the unlabelled set, at most a tenth of the run."""
    for total_steps, every in ((1000, 3), (20, 2), (5, 1)):
        problem = Problem(3, num_unlabeled=1000, class_counts=COUNTS, total_steps=total_steps)
        method = build("softmatch.methods.longtail_weights:saw", problem)
        assert method.weighting.every == every
        assert len(method.weighting.predicted) == 1000
        close(method.supervised_loss.weights, expected_weights(list(COUNTS)))


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(InputError, match="class_counts"):
        saw(CLASSES, num_unlabeled=4, base=fixmatch(CLASSES))
    with pytest.raises(InputError, match="every"):
        make(fixmatch(CLASSES), every=0)
    for base in (adamatch(CLASSES), uda(CLASSES, annealing="linear")):
        with pytest.raises(InputError, match="labelled loss of its own"):
            make(base)
    method = make(fixmatch(CLASSES))
    with pytest.raises(InputError, match="index"):
        STEP_1.output(method)
    with pytest.raises(InputError, match="0 … 3"):
        STEP_1.output(method, torch.arange(1, 5))
