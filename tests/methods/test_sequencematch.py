"""SequenceMatch: its three divergences from their equation, their masks and gradients, and FlexMatch's part."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from softmatch.errors import InputError
from softmatch.methods import Forward, Problem, build
from softmatch.methods.match import flexmatch
from softmatch.methods.match_variants import sequencematch
from softmatch.step import Batch
from tests.golden import CLASSES, STEP_1, STEP_2, Step, close

UNLABELED = 12
MEDIUM = torch.tensor([[0.85, 0.10, 0.05], [0.82, 0.10, 0.08], [0.20, 0.60, 0.20], [0.10, 0.05, 0.85]])
"""Confident (τ = .8) where the weak view of step 1, [.90, .55, .80, .42], is and where it is not."""


def batch(step: Step, medium: Tensor = MEDIUM, index: Tensor | None = None) -> Batch:
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
    output = method.step(FORWARD, batch(STEP_1))
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


def test_masks_that_follow_flexmatch() -> None:
    """Step 2, after samples 0 and 2 of step 1 are registered: λ of the weak view is the mask of all three terms."""
    method = sequencematch(CLASSES, num_unlabeled=UNLABELED, threshold=0.8, mask="selected", threshold_warmup=False)
    flex = flexmatch(CLASSES, num_unlabeled=UNLABELED, threshold=0.8, threshold_warmup=False)
    method.step(FORWARD, batch(STEP_1))
    STEP_1.output(flex, torch.arange(4))
    output, plain = method.step(FORWARD, batch(STEP_2)), STEP_2.output(flex, torch.arange(4))
    mask = output.pseudo.weights.tolist()
    assert mask == [1.0, 0.0, 1.0, 0.0]
    terms = (
        expected(STEP_2.weak, MEDIUM, mask) + expected(MEDIUM, STEP_2.strong, mask) + expected(STEP_2.weak, STEP_2.strong, mask)
    )
    close(output.loss.detach(), float(plain.loss) + terms)


def test_gradient_of_each_view() -> None:
    """The weak view has none; the medium one has that of K(ω → M) alone, as it is a target without gradient elsewhere."""
    method, data = sequencematch(CLASSES, num_unlabeled=UNLABELED, threshold=0.8, temperature=0.4), batch(STEP_1)
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


def test_a_sample_twice_in_a_batch_counts_once() -> None:
    method = sequencematch(CLASSES, num_unlabeled=UNLABELED, threshold=0.5)
    index = torch.tensor([3, 3, 7, 7])  # labels 0, 0, 1 above τ, and a last one below it
    method.step(FORWARD, batch(STEP_1, index=index))
    found = method.weighting.registry.rows.tolist()
    assert [found[3], found[7], found.count(-1)] == [0, 1, UNLABELED - 2]


def test_diverged_medium_logits_are_refused_before_anything_is_learned() -> None:
    method = sequencematch(CLASSES, num_unlabeled=UNLABELED, threshold=0.5)
    broken = MEDIUM.clone()
    broken[1, 2] = float("nan")
    with pytest.raises(InputError, match=r"medium_logits contains NaN or infinity \(first in row 1\)"):
        method.step(FORWARD, batch(STEP_1, broken))
    assert set(method.weighting.registry.rows.tolist()) == {-1}


@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"mask": "all"}, {"mapping": "round"}])
def test_options_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        build("softmatch.methods.match_variants:sequencematch", Problem(num_classes=CLASSES, num_unlabeled=4), options)


def test_the_builder_is_given_the_size_of_the_unlabelled_set() -> None:
    method = build("softmatch.methods.match_variants:sequencematch", Problem(num_classes=CLASSES, num_unlabeled=9))
    assert len(method.weighting.registry.rows.tolist()) == 9
