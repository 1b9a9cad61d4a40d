"""DebiasPL: p̂ per class, labels from the p̂ before the step, margins from the p̂ after it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from softmatch.errors import InputError
from softmatch.methods import Problem, build, fixmatch
from softmatch.methods.match_variants import Debiasing, debiaspl
from softmatch.step import Seen
from tests.golden import CLASSES, MOMENTUM, STEP_1, STEP_2, Step, close

Numbers = NDArray[np.float64]


def by_hand(step: Step, marginal: Numbers, strength: float, threshold: float) -> tuple[Numbers, list[int], list[float], float]:
    """The new p̂, labels, weights and unlabelled loss of a step, sample by sample."""
    labels, weights, losses = [], [], []
    updated = MOMENTUM * marginal + (1 - MOMENTUM) * step.weak.double().numpy().mean(0)
    for weak, strong in zip(step.weak.double().numpy(), step.strong.double().numpy(), strict=True):
        scores = np.exp(np.log(weak) - strength * np.log(marginal))
        debiased = scores / scores.sum()
        raised = np.exp(np.log(strong) + strength * np.log(updated))
        labels.append(int(debiased.argmax()))
        weights.append(float(debiased.max() >= threshold))
        losses.append(-weights[-1] * float(np.log(raised[labels[-1]] / raised.sum())))
    return updated, labels, weights, sum(losses) / len(losses)


@pytest.mark.parametrize("strength", [1.0, 0.4])
def test_two_steps_by_hand(strength: float) -> None:
    method, marginal = debiaspl(CLASSES, momentum=MOMENTUM, threshold=0.5, strength=strength), np.full(CLASSES, 1 / CLASSES)
    for step in (STEP_1, STEP_2):
        marginal, labels, weights, loss = by_hand(step, marginal, strength, 0.5)
        output = step.output(method)
        assert output.pseudo.labels.tolist() == labels
        assert output.pseudo.weights.tolist() == weights
        close(output.unsupervised_loss, loss)
        close(method.statistics()["marginal"], marginal.tolist())


def test_labels_use_the_marginal_before_the_step_and_margins_the_one_after() -> None:
    method = debiaspl(CLASSES, momentum=0.0, threshold=0.0)
    method.refinement.marginal.value.copy_(torch.tensor([0.8, 0.1, 0.1]))
    output = STEP_1.output(method)
    raised = STEP_1.weak / torch.tensor([0.8, 0.1, 0.1])
    assert output.pseudo.labels.tolist() == raised.argmax(-1).tolist() == [0, 1, 1, 2]
    logits = STEP_1.strong.log() + STEP_1.weak.mean(0).log()
    close(output.unsupervised_loss, float(F.cross_entropy(logits, raised.argmax(-1))))


def test_the_first_step_labels_as_fixmatch_does() -> None:
    ours, theirs = STEP_1.output(debiaspl(CLASSES)).pseudo, STEP_1.output(fixmatch(CLASSES)).pseudo
    assert torch.equal(ours.labels, theirs.labels)
    assert torch.equal(ours.weights, theirs.weights)
    torch.testing.assert_close(ours.confidence, theirs.confidence)


def test_without_strength_it_is_fixmatch() -> None:
    ours, theirs = debiaspl(CLASSES, strength=0.0, threshold=0.6), fixmatch(CLASSES, threshold=0.6)
    for step in (STEP_1, STEP_2, STEP_1):
        close(step.output(ours).loss, float(step.output(theirs).loss))


def test_the_marginal_is_of_each_class_and_of_raw_predictions() -> None:
    method = debiaspl(CLASSES, momentum=MOMENTUM, start="first")
    STEP_1.output(method)
    close(method.statistics()["marginal"], STEP_1.weak.mean(0).tolist())
    STEP_2.output(method)
    close(method.statistics()["marginal"], (0.9 * STEP_1.weak.mean(0) + 0.1 * STEP_2.weak.mean(0)).tolist())


def test_in_terms_of_probabilities_it_is_a_power_of_the_marginal() -> None:
    part = Debiasing(CLASSES, strength=0.7)
    part.previous.copy_(torch.tensor([0.6, 0.3, 0.1]))
    scaled = STEP_1.weak * part.previous ** (-0.7)
    torch.testing.assert_close(part(STEP_1.weak), scaled / scaled.sum(-1, keepdim=True))


def test_gradient_goes_through_the_raised_strong_logits_alone() -> None:
    method = debiaspl(CLASSES, momentum=MOMENTUM, threshold=0.5)
    STEP_2.output(method)
    weak, strong = (p.log().requires_grad_() for p in (STEP_1.weak, STEP_1.strong))
    output = method.compute(STEP_1.labeled.log(), STEP_1.labels, weak, strong)
    output.loss.backward()
    assert weak.grad is None
    raised = torch.softmax(strong.detach() + method.refinement.marginal.value.log(), -1)
    expected = output.pseudo.weights[:, None] * (raised - F.one_hot(output.pseudo.labels, CLASSES)) / 4
    torch.testing.assert_close(strong.grad, expected)
    assert not any(buffer.requires_grad for buffer in method.buffers())


def test_a_class_never_predicted_leaves_everything_finite() -> None:
    part = Debiasing(CLASSES, momentum=0.0, strength=2.0)
    never = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    part.update(Seen(never))
    part.update(Seen(never))
    assert bool(torch.isfinite(part(never)).all())
    close(part(never)[:, 2], [0.0, 0.0])
    loss = part.divergence(part(never), torch.zeros(2, CLASSES))
    assert bool(torch.isfinite(loss).all())


def test_half_precision_logits_are_raised_in_float32() -> None:
    part = Debiasing(CLASSES)
    loss: Tensor = part.divergence(STEP_1.weak, STEP_1.strong.log().half())
    assert loss.dtype == torch.float32


def test_the_problem_gives_momentum_and_start() -> None:
    method = build(debiaspl, Problem(num_classes=CLASSES, momentum=0.75, start="debiased"), {"max_weight": 10.0})
    assert (method.refinement.marginal.momentum, method.refinement.marginal.start) == (0.75, "debiased")
    assert method.weighting.max_weight == 10.0
    assert method.refinement.strength == 1.0


def test_a_negative_strength_is_refused() -> None:
    with pytest.raises(InputError, match="strength"):
        debiaspl(CLASSES, strength=-0.1)
