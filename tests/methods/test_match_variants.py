"""AdaMatch, DebiasPL and SequenceMatch: golden numbers, equivalences and gradients."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch.alignments import Alignment
from softmatch.errors import InputError
from softmatch.methods import Forward, Problem, build, fixmatch
from softmatch.methods.match import Match, flexmatch
from softmatch.methods.match_variants import AdaMatch, Debiasing, adamatch, debiaspl, sequencematch
from softmatch.step import Batch, Seen
from softmatch.thresholds import RelativeThreshold
from softmatch.weightings import RampUp
from tests.golden import CLASSES, MOMENTUM, STEP_1, STEP_2, Step, close
from tests.methods.networks import batch, normalised


def assert_steps(method: Match, *expected: tuple[float, list[float], float]) -> None:
    """Threshold, mask and unlabelled loss of the two golden steps."""
    for step, (threshold, mask, loss) in zip((STEP_1, STEP_2), expected, strict=True):
        output = step.output(method)
        close(method.statistics()["threshold"], threshold)
        assert output.pseudo.weights.tolist() == mask
        close(output.unsupervised_loss, loss)


def test_paper_form_golden() -> None:
    method = adamatch(CLASSES, momentum=MOMENTUM, queue=0, ramp=False)
    assert isinstance(method.alignment, Alignment)
    assert_steps(method, (0.54, [1.0, 1.0, 1.0, 0.0], 0.370151), (0.6075, [1.0, 0.0, 1.0, 1.0], 0.412565))
    method = adamatch(CLASSES, momentum=MOMENTUM, queue=0, ramp=False)
    STEP_1.output(method)
    close(method.alignment.goal, [0.34, 0.325, 0.335])
    close(method.statistics()["marginal"], [0.34875, 0.33475, 0.3165])


def test_usb_form_golden() -> None:
    """A composition: ratio .95, marginals that start at the first batch, no ramp and no strong labelled view."""
    alignment = Alignment(CLASSES, "predictions", MOMENTUM, start="first", epsilon=1e-6)
    method = Match(RelativeThreshold(0.95), alignment, align_targets=True)
    assert_steps(method, (0.57, [1.0, 0.0, 1.0, 1.0], 0.425937), (0.641250, [1.0, 0.0, 1.0, 0.0], 0.284859))


def test_ramp_over_the_run_golden() -> None:
    """μ(t) at 0, .1, .25 and .5 of the run."""
    method, found = adamatch(CLASSES, total_steps=20), []
    for _ in range(11):
        STEP_1.output(method)
        found.append(method.statistics()["ramp"])
    close(torch.stack(found)[[0, 2, 5, 10]], [0.0, 0.095492, 0.5, 1.0])


def test_ramp_scales_the_unlabelled_loss() -> None:
    method = adamatch(CLASSES, momentum=MOMENTUM, queue=0, total_steps=4)
    assert isinstance(method.weighting, RampUp)
    close(STEP_1.output(method).unsupervised_loss, 0.0)
    close(STEP_2.output(method).unsupervised_loss, 0.5 * 0.412565)


@pytest.mark.parametrize(("total_steps", "length"), [(2**20, 128), (2000, 50), (10, 1)])
def test_queue_is_at_most_a_fortieth_of_the_run(total_steps: int, length: int) -> None:
    assert adamatch(CLASSES, total_steps=total_steps).alignment.queue == length


def test_step_without_batch_normalisation_is_the_mean_of_both_labelled_losses() -> None:
    """Alone and joint passes agree then, so that the interpolation has no effect."""
    network, data, method = nn.Linear(5, CLASSES), batch(labeled=("weak", "strong"), size=4), adamatch(CLASSES, ramp=False)
    assert method.labeled_views == ("weak", "strong")
    output = method.step(Forward(network), data)
    with torch.no_grad():
        weak = F.cross_entropy(network(data.labeled["weak"]), data.labels)
        strong = F.cross_entropy(network(data.labeled["strong"]), data.labels)
    close(output.supervised_loss, float((weak + strong) / 2))
    assert output.unsupervised_loss is not None
    close(output.loss, float((weak + strong) / 2 + output.unsupervised_loss))


def test_gradient_of_a_step_is_that_of_the_loss_it_reports() -> None:
    network, data = nn.Linear(5, CLASSES), batch(labeled=("weak", "strong"), size=4)
    adamatch(CLASSES, total_steps=4).step(Forward(network), data).loss.backward()  # ramp 0: labelled terms alone
    found = network.weight.grad.clone()
    network.zero_grad()
    views = (network(data.labeled["weak"]), network(data.labeled["strong"]))
    torch.stack([F.cross_entropy(z, data.labels) for z in views]).mean().backward()
    torch.testing.assert_close(found, network.weight.grad)


def test_only_the_joint_pass_moves_the_running_statistics() -> None:
    network = normalised()
    norm = network[1]
    data = batch(labeled=("weak", "strong"), size=4)
    features = network[0](torch.cat([*data.labeled.values(), *data.unlabeled.values()]))
    adamatch(CLASSES).step(Forward(network), data)
    assert int(norm.num_batches_tracked) == 1
    torch.testing.assert_close(norm.running_mean, 0.1 * features.mean(0).detach())


def test_interpolation_lies_between_the_two_passes() -> None:
    """With batch normalisation the labelled logits, and hence the threshold, are drawn anew at each call."""
    network = normalised()
    data, thresholds = batch(labeled=("weak", "strong"), size=4), []
    for seed in range(3):
        torch.manual_seed(seed)
        method: AdaMatch = adamatch(CLASSES, ramp=False)
        method.step(Forward(network), data)
        thresholds.append(float(method.statistics()["threshold"]))
    assert len(set(thresholds)) == 3


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


def test_the_problem_gives_momentum_and_start() -> None:
    method = build(debiaspl, Problem(num_classes=CLASSES, momentum=0.75, start="debiased"), {"max_weight": 10.0})
    assert (method.refinement.marginal.momentum, method.refinement.marginal.start) == (0.75, "debiased")
    assert method.weighting.max_weight == 10.0
    assert method.refinement.strength == 1.0


UNLABELED = 12
MEDIUM = torch.tensor([[0.85, 0.10, 0.05], [0.82, 0.10, 0.08], [0.20, 0.60, 0.20], [0.10, 0.05, 0.85]])
"""Confident (τ = .8) where the weak view of step 1, [.90, .55, .80, .42], is and where it is not."""


def batch_sequencematch(step: Step, medium: Tensor = MEDIUM, index: Tensor | None = None) -> Batch:
    """Views that are the logits: the network gives back what it is given."""
    views = {"weak": step.weak, "medium": medium, "strong": step.strong}
    return Batch(
        labeled={"weak": step.labeled.log()},
        labels=step.labels,
        unlabeled={name: probs.log().requires_grad_() for name, probs in views.items()},
        index=torch.arange(4) if index is None else index,
    )


def sharpened(probs: list[float], temperature: float) -> list[float]:
    power = [p ** (1.0 / temperature) for p in probs]
    return [p / sum(power) for p in power]


def divergence(target: list[float], probs: list[float]) -> float:
    return sum(t * (math.log(t) - math.log(q)) for t, q in zip(target, probs, strict=True))


def expected(source: Tensor, trained: Tensor, mask: list[float], temperature: float = 0.5) -> float:
    rows = zip(mask, source.tolist(), trained.tolist(), strict=True)
    return sum(m * divergence(sharpened(p, temperature), q) for m, p, q in rows) / len(mask)


FORWARD = Forward(nn.Identity())


def test_loss_is_flexmatchs_and_the_three_divergences() -> None:
    """The mask of a divergence is that of the view which gives its target, with the fixed τ."""
    method, flex = sequencematch(CLASSES, num_unlabeled=UNLABELED, threshold=0.8), flexmatch(CLASSES, num_unlabeled=UNLABELED)
    output = method.step(FORWARD, batch_sequencematch(STEP_1))
    plain = STEP_1.output(flex, torch.arange(4))
    terms = (
        expected(STEP_1.weak, MEDIUM, [1, 0, 1, 0])
        + expected(MEDIUM, STEP_1.strong, [1, 1, 0, 1])
        + expected(STEP_1.weak, STEP_1.strong, [1, 0, 1, 0])
    )
    close(output.supervised_loss, float(plain.supervised_loss))
    close(output.unsupervised_loss, float(plain.unsupervised_loss) + terms)
    close(output.loss.detach(), float(plain.loss) + terms)
    assert output.pseudo.labels.tolist() == [0, 0, 1, 0]
    assert output.pseudo.weights.tolist() == [1.0, 1.0, 1.0, 1.0]  # FlexMatch selects everything at first
    close(output.pseudo.confidence, STEP_1.weak.max(-1).values.tolist())


def test_gradient_of_each_view() -> None:
    """The weak view has none; the medium one has that of K(ω → M) alone, as it is a target without gradient elsewhere."""
    method, data = sequencematch(CLASSES, num_unlabeled=UNLABELED, threshold=0.8, temperature=0.4), batch_sequencematch(STEP_1)
    method.step(Forward(nn.Identity(), "separate"), data).loss.backward()
    assert data.unlabeled["weak"].grad is None
    medium, strong = data.unlabeled["medium"].grad, data.unlabeled["strong"].grad
    for row, mask in enumerate([1, 0, 1, 0]):
        target = sharpened(STEP_1.weak[row].tolist(), 0.4)
        close(medium[row], [mask * (q - t) / 4 for q, t in zip(MEDIUM[row].tolist(), target, strict=True)])
    q, label = STEP_1.strong[1].tolist(), [1.0, 0.0, 0.0]  # a sample of which the medium view alone is confident
    target = sharpened(MEDIUM[1].tolist(), 0.4)
    close(strong[1], [((q[c] - label[c]) + (q[c] - target[c])) / 4 for c in range(CLASSES)])


def test_a_target_is_the_softmax_of_divided_logits_once() -> None:
    """Views that agree once the target is sharpened diverge by nothing."""
    method, probs = sequencematch(CLASSES, num_unlabeled=UNLABELED, threshold=0.0), STEP_1.weak
    close(method.divergence_between(probs.log(), 2.0 * probs.log()), 0.0)
    assert float(method.divergence_between(probs.log(), probs.log()).detach()) > 0.01


def test_flexmatchs_part_is_flexmatch() -> None:
    method, flex = sequencematch(CLASSES, num_unlabeled=UNLABELED), flexmatch(CLASSES, num_unlabeled=UNLABELED)
    for step in (STEP_1, STEP_2):
        assert torch.equal(step.output(method, torch.arange(4)).loss, step.output(flex, torch.arange(4)).loss)
    assert method.unlabeled_views == ("weak", "medium", "strong")


def test_diverged_medium_logits_are_refused_before_anything_is_learned() -> None:
    method = sequencematch(CLASSES, num_unlabeled=UNLABELED, threshold=0.5)
    broken = MEDIUM.clone()
    broken[1, 2] = float("nan")
    with pytest.raises(InputError, match=r"medium_logits contains NaN or infinity \(first in row 1\)"):
        method.step(FORWARD, batch_sequencematch(STEP_1, broken))
    assert set(method.weighting.registry.rows.tolist()) == {-1}


def test_the_builder_is_given_the_size_of_the_unlabelled_set() -> None:
    method = build("softmatch.methods.match_variants:sequencematch", Problem(num_classes=CLASSES, num_unlabeled=9))
    assert len(method.weighting.registry.rows.tolist()) == 9
