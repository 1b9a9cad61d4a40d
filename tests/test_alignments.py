"""Alignment: Norm(p·r/s) with running, queued and estimated marginals."""

import pytest
import torch

from softmatch.alignments import Alignment, EstimatedAlignment, NoAlignment
from softmatch.errors import InputError
from softmatch.step import Seen
from tests.golden import CLASSES, MOMENTUM, STEP_1, STEP_2, WARM_MARGINAL, close

ALIGNED_1 = [
    [0.818389, 0.089291, 0.092320],
    [0.399529, 0.416095, 0.184376],
    [0.047230, 0.772955, 0.179815],
    [0.242795, 0.170295, 0.586910],
]
ALIGNED_2 = [
    [0.929127, 0.047151, 0.023722],
    [0.209552, 0.320855, 0.469592],
    [0.100231, 0.162769, 0.737001],
    [0.201832, 0.699229, 0.098939],
]


def warm() -> Alignment:
    alignment = Alignment(CLASSES, momentum=MOMENTUM)
    alignment.marginal.value.copy_(torch.tensor(WARM_MARGINAL))
    return alignment


def test_uniform_alignment_golden() -> None:
    alignment = warm()
    alignment.update(STEP_1.seen())
    close(alignment.marginal.value, [0.498750, 0.304750, 0.196500])
    close(alignment(STEP_1.weak), ALIGNED_1)
    alignment.update(STEP_2.seen())
    close(alignment.marginal.value, [0.494125, 0.304275, 0.201600])
    close(alignment(STEP_2.weak), ALIGNED_2)


def test_uniform_marginal_leaves_predictions_alone() -> None:
    torch.testing.assert_close(Alignment(CLASSES)(STEP_1.weak), STEP_1.weak)
    assert torch.equal(NoAlignment()(STEP_1.weak), STEP_1.weak)


def test_rows_sum_to_one_also_for_a_class_never_predicted() -> None:
    alignment = Alignment(CLASSES, momentum=0.0)
    alignment.update(Seen(torch.tensor([[0.6, 0.4, 0.0], [0.9, 0.1, 0.0]])))
    aligned = alignment(torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.3, 0.3, 0.4]]))
    close(aligned.sum(-1), [1.0, 1.0, 1.0])
    assert bool(torch.isfinite(aligned).all())


def test_prior_is_normalised_and_does_not_learn() -> None:
    alignment = Alignment(CLASSES, [6, 3, 1], MOMENTUM)
    alignment.update(STEP_1.seen())
    close(alignment.goal, [0.6, 0.3, 0.1])
    expected = STEP_1.weak * torch.tensor([0.6, 0.3, 0.1]) / alignment.marginal.value
    torch.testing.assert_close(alignment(STEP_1.weak), expected / expected.sum(-1, keepdim=True))


def test_predictions_target_is_the_running_mean_of_labelled_predictions() -> None:
    alignment = Alignment(CLASSES, "predictions", MOMENTUM)
    close(alignment.goal, [1 / 3] * 3)
    alignment.update(STEP_1.seen())
    close(alignment.goal, [0.34, 0.325, 0.335])
    close(alignment.marginal.value, [0.34875, 0.33475, 0.3165])


def test_labels_target_is_the_running_frequency_of_labels() -> None:
    alignment = Alignment(CLASSES, "labels", MOMENTUM)
    alignment.update(STEP_1.seen())
    close(alignment.goal, [0.35, 0.3, 0.35])


@pytest.mark.parametrize("target", ["predictions", "labels"])
def test_estimated_target_without_labels_is_refused_and_changes_nothing(target: str) -> None:
    alignment = Alignment(CLASSES, target, MOMENTUM)  # type: ignore[arg-type]  # parametrised literal
    with pytest.raises(InputError, match="labelled"):
        alignment.update(Seen(STEP_1.weak))
    close(alignment.marginal.value, [1 / 3] * 3)


def test_queue_is_the_mean_of_the_last_batches() -> None:
    alignment = Alignment(CLASSES, queue=2)
    first, second = STEP_1.weak.mean(0), STEP_2.weak.mean(0)
    alignment.update(STEP_1.seen())
    torch.testing.assert_close(alignment.marginal.value, (first + 1 / 3) / 2)
    alignment.update(STEP_2.seen())
    torch.testing.assert_close(alignment.marginal.value, (first + second) / 2)
    alignment.update(STEP_2.seen())
    torch.testing.assert_close(alignment.marginal.value, second)


def test_first_start_takes_the_first_batch() -> None:
    alignment = Alignment(CLASSES, momentum=MOMENTUM, start="first")
    alignment.update(STEP_1.seen())
    torch.testing.assert_close(alignment.marginal.value, STEP_1.weak.mean(0))


def test_epsilon_is_added_to_both_marginals() -> None:
    alignment = Alignment(CLASSES, epsilon=0.1)
    alignment.marginal.value.copy_(torch.tensor(WARM_MARGINAL))
    scaled = STEP_1.weak * (1 / 3 + 0.1) / torch.tensor([0.6, 0.4, 0.3])
    torch.testing.assert_close(alignment(STEP_1.weak), scaled / scaled.sum(-1, keepdim=True))


def test_estimated_shares_are_counted_once_with_the_labels() -> None:
    alignment = EstimatedAlignment(CLASSES, [2, 1, 1], MOMENTUM)
    alignment.update(STEP_1.seen())
    assert torch.equal(alignment(STEP_1.weak), STEP_1.weak), "nothing is known of the shares yet"
    alignment.survey(torch.tensor([[0.9, 0.1, 0.0]] * 3 + [[0.2, 0.5, 0.3]]))
    goal = torch.tensor([3 + 2, 1 + 1, 0 + 1]) / 8
    torch.testing.assert_close(alignment.goal, goal)
    expected = STEP_1.weak * goal / alignment.marginal.value
    torch.testing.assert_close(alignment(STEP_1.weak), expected / expected.sum(-1, keepdim=True))
    resumed = EstimatedAlignment(CLASSES, [2, 1, 1], MOMENTUM)
    resumed.load_state_dict(alignment.state_dict())
    resumed.survey(torch.eye(CLASSES))
    torch.testing.assert_close(resumed.goal, goal)
    assert torch.equal(resumed(STEP_1.weak), alignment(STEP_1.weak))


@pytest.mark.parametrize("prior", [[0.5, 0.5], [0.5, 0.6, -0.1], [0.0, 0.0, 0.0]])
def test_impossible_priors_are_refused(prior: list[float]) -> None:
    with pytest.raises(ValueError, match="class frequencies"):
        Alignment(CLASSES, prior)


def test_unknown_target_is_refused() -> None:
    with pytest.raises(ValueError, match="target"):
        Alignment(CLASSES, "prior")  # type: ignore[arg-type]  # wrong on purpose
