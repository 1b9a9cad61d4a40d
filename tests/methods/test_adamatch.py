"""AdaMatch: golden numbers of the authors' and of USB's form, the ramp, and the interpolation of labelled logits."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from softmatch.alignments import Alignment
from softmatch.methods.forward import Forward
from softmatch.methods.match import Match
from softmatch.methods.match_variants import AdaMatch, adamatch
from softmatch.thresholds import RelativeThreshold
from softmatch.weightings import RampUp
from tests.golden import CLASSES, MOMENTUM, STEP_1, STEP_2, close
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
