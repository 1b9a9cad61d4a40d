"""Training signal annealing: the three schedules, which samples are kept, and what the loss is divided by."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from softmatch.methods.match import Match, uda
from softmatch.thresholds import SignalAnnealing
from softmatch.weightings import Threshold
from tests.golden import CLASSES, STEP_1, close

LABELED = torch.tensor([[0.2, 0.7, 0.1], [0.6, 0.3, 0.1]])
LABELS = torch.tensor([0, 0])


def at(calls: int, schedule: str = "linear", total_steps: int = 4) -> SignalAnnealing:
    annealing = SignalAnnealing(CLASSES, total_steps, schedule)  # type: ignore[arg-type]  # parametrised literal
    annealing.calls.fill_(calls)
    return annealing


@pytest.mark.parametrize(("schedule", "expected"), [("linear", 0.5), ("log", 0.808997), ("exp", 0.349012)])
def test_schedules_golden(schedule: str, expected: float) -> None:
    close(at(1, schedule).threshold(), expected)


@pytest.mark.parametrize("schedule", ["linear", "log", "exp"])
def test_schedules_rise_from_about_one_over_c_to_about_one(schedule: str) -> None:
    values = torch.stack([at(t, schedule, 100).threshold() for t in range(130)])
    assert bool((values.diff() >= 0).all())
    close(values[0], 1 / 3, tolerance=5e-3)
    close(values[100], 1.0, tolerance=5e-3)
    assert float(values[129]) == float(values[100])


def test_authors_form_golden() -> None:
    annealing = at(2)
    close(annealing.threshold(), 0.666667)
    close(annealing(LABELED.log(), LABELS), 1.060132)


def test_usb_form_is_a_supervised_loss_of_ones_own_golden() -> None:
    """USB drops by max p and divides by the whole batch; Match takes any such function."""

    def usb(logits: Tensor, labels: Tensor) -> Tensor:
        kept = logits.softmax(-1).max(-1).values <= at(2).threshold()
        return (F.cross_entropy(logits, labels, reduction="none") * kept).mean()

    method = Match(Threshold(0.8), supervised_loss=usb)
    close(method.compute(LABELED.log(), LABELS, STEP_1.weak.log(), STEP_1.strong.log()).supervised_loss, 0.255413)


def test_learned_samples_are_hidden_and_the_rest_averaged() -> None:
    annealing = at(1)  # η = .5
    close(annealing(LABELED.log(), LABELS), 1.609438)
    assert float(at(1)(LABELED[1:].log(), LABELS[1:])) == 0.0


def test_a_sample_at_the_threshold_is_kept() -> None:
    close(at(1)(torch.tensor([[0.5, 0.25, 0.25]]).log(), torch.tensor([0])), 0.693147)


def test_only_training_calls_are_counted() -> None:
    annealing = at(0)
    annealing(LABELED.log(), LABELS)
    assert int(annealing.calls) == 1
    annealing.eval()
    annealing(LABELED.log(), LABELS)
    assert int(annealing.calls) == 1


def test_hidden_samples_have_no_gradient() -> None:
    logits = LABELED.log().requires_grad_()
    at(1)(logits, LABELS).backward()
    assert float(logits.grad[0].abs().sum()) > 0
    assert float(logits.grad[1].abs().sum()) == 0.0


def test_uda_takes_a_schedule_and_refuses_an_unknown_one() -> None:
    method = uda(CLASSES, annealing="exp", total_steps=4)
    assert method.supervised_loss.schedule == "exp"
    STEP_1.output(method)
    assert int(method.state_dict()["supervised_loss.calls"]) == 1
    with pytest.raises(ValueError, match="schedule"):
        uda(CLASSES, annealing="sqrt")  # type: ignore[arg-type]  # wrong on purpose
