"""What every alignment p → p̃ promises, in addition to test_learner_contract.py."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from softmatch import alignments
from softmatch.alignments import Alignment, EstimatedAlignment, NoAlignment
from tests.contracts.examples import BATCHES, CLASSES, Logits, logits, taught

Case = Callable[[], Alignment | NoAlignment]


def _surveyed() -> EstimatedAlignment:
    alignment = EstimatedAlignment(CLASSES, [1, 1, 2, 1], 0.8)
    alignment.survey(torch.eye(CLASSES)[[0, 0, 1]])
    return alignment


CASES: dict[str, Case] = {
    "none": NoAlignment,
    "uniform": lambda: Alignment(CLASSES, momentum=0.8),
    "uniform-first": lambda: Alignment(CLASSES, momentum=0.8, start="first"),
    "uniform-debiased": lambda: Alignment(CLASSES, momentum=0.8, start="debiased"),
    "uniform-epsilon": lambda: Alignment(CLASSES, momentum=0.8, epsilon=1e-6),
    "prior": lambda: Alignment(CLASSES, [0.4, 0.3, 0.2, 0.1], 0.8),
    "predictions": lambda: Alignment(CLASSES, "predictions", 0.8),
    "labels": lambda: Alignment(CLASSES, "labels", 0.8),
    "estimated": lambda: EstimatedAlignment(CLASSES, [1, 1, 2, 1], 0.8),
    "estimated-surveyed": _surveyed,
    "queue": lambda: Alignment(CLASSES, queue=3),
    "queue-predictions": lambda: Alignment(CLASSES, "predictions", 0.8, queue=3),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def test_no_alignment_of_the_library_is_forgotten() -> None:
    modules = [value for value in vars(alignments).values() if isinstance(value, type) and issubclass(value, nn.Module)]
    library = {found for found in modules if found.__module__ == alignments.__name__}
    assert {type(make()) for make in CASES.values()} == library


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES.keys())
@pytest.mark.parametrize("updates", [0, 4])
def test_aligned_predictions_are_distributions(case: Case, batch: Logits, updates: int) -> None:
    alignment = taught(case, updates)
    alignment.update(batch.seen())
    aligned = alignment(batch.probs())
    assert aligned.shape == batch.probs().shape
    assert aligned.dtype == torch.float32
    assert float(aligned.min()) >= 0.0
    torch.testing.assert_close(aligned.sum(-1), torch.ones(len(aligned)))


def test_alignment_keeps_the_order_of_one_class_over_the_samples(case: Case) -> None:
    """Scaling classes cannot make the odds p_a / p_b of one sample overtake those of another."""
    alignment, probs = taught(case), logits(9).probs()
    odds, aligned_odds = probs[:, 0] / probs[:, 1], alignment(probs)[:, 0] / alignment(probs)[:, 1]
    assert odds.argsort().tolist() == aligned_odds.argsort().tolist()
