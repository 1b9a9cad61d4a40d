"""Everything that held-out predictions say, and what they cannot."""

from dataclasses import replace
from typing import Literal

import pytest
import torch

from softmatch.data.evaluation import Evaluation
from softmatch.data.split import Split
from softmatch.training.measure import HURT, HeldOut, measure_error, pool

EMPTY = torch.zeros(0, dtype=torch.int64)
EVALUATION = Evaluation("crossfit", Split(EMPTY, EMPTY, EMPTY, 0))
CLASSES = ("a", "b", "c")


def _probs(predicted: list[int]) -> torch.Tensor:
    return 0.7 * torch.nn.functional.one_hot(torch.tensor(predicted), 3) + 0.1


def test_figures_by_hand() -> None:
    labels = torch.tensor([0, 0, 1, 1, 1, 2])
    found = HeldOut(labels, _probs([0, 1, 1, 1, 0, 2]), _probs([1, 1, 1, 0, 0, 2]))
    measured = measure_error(found, CLASSES, [5, 6, 7], EVALUATION)
    assert measured.test_error == 2 / 6
    assert measured.supervised_test_error == 4 / 6
    assert measured.difference == pytest.approx(-2 / 6, abs=1e-12)
    row = measured.classes[0]
    assert (row["labels"], row["test_samples"], row["error"], row["supervised_error"]) == (5, 2, 0.5, 1.0)
    assert (row["precision"], row["recall"]) == (0.5, 0.5)
    assert measured.warnings == []


def test_data_that_hurt_are_warned_of() -> None:
    labels = torch.tensor([0, 1, 2] * 30)
    worse = _probs([1, 1, 2] * 30)
    measured = measure_error(HeldOut(labels, worse, _probs(labels.tolist())), CLASSES, [1, 1, 1], EVALUATION)
    assert HURT in measured.warnings
    assert any("'a' was recognised" in warning for warning in measured.warnings)


def test_a_class_that_was_not_tested_is_named() -> None:
    labels = torch.tensor([0, 1] * 30)
    measured = measure_error(HeldOut(labels, _probs([0, 1] * 30), None), CLASSES, [1, 1, 1], EVALUATION)
    assert any("no test sample of 'c'" in warning for warning in measured.warnings)
    assert measured.classes[2]["error"] is None


def test_nothing_held_out_is_nothing_measured() -> None:
    evaluation = Evaluation("none", Split(EMPTY, EMPTY, EMPTY, 0), reason="Too few.")
    measured = measure_error(HeldOut(EMPTY, torch.zeros(0, 3), None), CLASSES, [1, 2, 3], evaluation)
    assert measured.test_error is None
    assert measured.calibration is None
    assert measured.warnings == ["Too few."]
    assert [row["labels"] for row in measured.classes] == [1, 2, 3]


def test_folds_are_pooled() -> None:
    one = HeldOut(torch.tensor([0]), _probs([0]), _probs([1]), ["x"])
    two = HeldOut(torch.tensor([1, 2]), _probs([1, 0]), _probs([1, 2]), ["y", "z"])
    both = pool([one, two])
    assert both.names == ["x", "y", "z"]
    assert both.baseline is not None
    assert (both.labels.tolist(), both.probs.argmax(-1).tolist(), both.baseline.argmax(-1).tolist()) == (
        [0, 1, 2],
        [0, 1, 0],
        [1, 1, 2],
    )
    assert pool([one, HeldOut(torch.tensor([0]), _probs([0]), None)]).baseline is None


@pytest.mark.parametrize(("measured_on", "warned"), [("all", 0), ("random", 0), ("chosen", 1)])
def test_an_error_on_chosen_samples_is_warned_of(measured_on: Literal["all", "random", "chosen"], warned: int) -> None:
    labels = torch.tensor([0, 1, 2] * 8)
    evaluation = replace(EVALUATION, measured_on=measured_on)
    measured = measure_error(HeldOut(labels, _probs(labels.tolist()), None), CLASSES, [8, 8, 8], evaluation)
    assert measured.measured_on == measured_on
    assert len(measured.warnings) == warned
    assert all(text.startswith("Measured on 24 samples, most of them chosen to be labelled") for text in measured.warnings)
