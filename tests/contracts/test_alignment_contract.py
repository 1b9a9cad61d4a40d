"""What every alignment p → p̃ promises."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from softmatch import alignments
from softmatch.alignments import Alignment, NoAlignment
from softmatch.errors import InputError
from softmatch.step import Seen
from tests.contracts.examples import (
    BATCHES,
    CLASSES,
    Logits,
    assert_same_state,
    logits,
    refusal,
    state,
    through_safetensors,
    with_gradient,
)

Case = Callable[[], Alignment | NoAlignment]

CASES: dict[str, Case] = {
    "none": NoAlignment,
    "uniform": lambda: Alignment(CLASSES, momentum=0.8),
    "uniform-first": lambda: Alignment(CLASSES, momentum=0.8, start="first"),
    "uniform-debiased": lambda: Alignment(CLASSES, momentum=0.8, start="debiased"),
    "uniform-epsilon": lambda: Alignment(CLASSES, momentum=0.8, epsilon=1e-6),
    "prior": lambda: Alignment(CLASSES, [0.4, 0.3, 0.2, 0.1], 0.8),
    "predictions": lambda: Alignment(CLASSES, "predictions", 0.8),
    "labels": lambda: Alignment(CLASSES, "labels", 0.8),
    "queue": lambda: Alignment(CLASSES, queue=3),
    "queue-predictions": lambda: Alignment(CLASSES, "predictions", 0.8, queue=3),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


def taught(case: Case, updates: int = 4) -> Alignment | NoAlignment:
    alignment = case()
    for seed in range(updates):
        alignment.update(logits(seed).seen())
    return alignment


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


def test_forward_is_pure_and_equivariant(case: Case) -> None:
    alignment, probs = taught(case), logits(9).probs()
    before, given = state(alignment), probs.clone()
    order = torch.randperm(len(probs))
    assert torch.equal(alignment(probs)[order], alignment(probs[order]))
    assert_same_state(before, state(alignment))
    assert torch.equal(given, probs)


def test_alignment_keeps_the_order_of_one_class_over_the_samples(case: Case) -> None:
    """Scaling classes cannot make the odds p_a / p_b of one sample overtake those of another."""
    alignment, probs = taught(case), logits(9).probs()
    odds, aligned_odds = probs[:, 0] / probs[:, 1], alignment(probs)[:, 0] / alignment(probs)[:, 1]
    assert odds.argsort().tolist() == aligned_odds.argsort().tolist()


@pytest.mark.parametrize("saving", [dict, through_safetensors], ids=["state_dict", "safetensors"])
def test_state_round_trip_continues_identically(case: Case, saving: Callable[..., dict[str, torch.Tensor]]) -> None:
    alignment, restored, probs = taught(case), case(), logits(9).probs()
    restored.load_state_dict(saving(state(alignment)))
    for seed in range(10, 14):
        assert torch.equal(alignment(probs), restored(probs))
        alignment.update(logits(seed).seen())
        restored.update(logits(seed).seen())
    assert_same_state(state(alignment), state(restored))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_is_refused(case: Case, value: float) -> None:
    alignment, probs = taught(case), logits(9).probs()
    probs[3, 1] = value
    with pytest.raises(InputError, match=r"probs contains NaN or infinity \(first in row 3\)"):
        alignment(probs)


@pytest.mark.parametrize("field", ["weak_probs", "labeled_probs"])
def test_update_never_takes_in_what_is_not_finite(case: Case, field: str) -> None:
    """It refuses, names the tensor and changes nothing, or it does not look at that tensor."""
    alignment, seen = taught(case), logits(9).seen()
    before = state(alignment)
    broken = getattr(seen, field).clone()
    broken[2, 1] = float("nan")
    message = refusal(alignment.update, replace(seen, **{field: broken}))
    if message is not None:
        assert f"{field} contains NaN" in message
        assert_same_state(before, state(alignment))
    assert all(bool(torch.isfinite(value).all()) for value in alignment.state_dict().values())


def test_seen_without_labels_is_enough_or_refused(case: Case) -> None:
    alignment, batch = taught(case), logits(9)
    before = state(alignment)
    if refusal(alignment.update, Seen(batch.probs())) is not None:
        assert_same_state(before, state(alignment))


def test_update_takes_no_gradient(case: Case) -> None:
    alignment = case()
    alignment.update(with_gradient(logits(9).seen()))
    assert all(not buffer.requires_grad for buffer in alignment.buffers())
    assert not list(alignment.parameters())


def test_a_copy_evolves_on_its_own_and_in_the_same_way(case: Case) -> None:
    alignment = taught(case)
    before, copied = state(alignment), copy.deepcopy(alignment)
    copied.update(logits(10).seen())
    assert_same_state(before, state(alignment))
    alignment.update(logits(10).seen())
    assert_same_state(state(copied), state(alignment))


def test_autocast_changes_nothing(case: Case) -> None:
    plain, cast, probs = taught(case), taught(case), logits(9).probs()
    plain.update(logits(10).seen())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast.update(logits(10).seen())
        aligned = cast(probs)
    assert torch.equal(aligned, plain(probs))
    assert_same_state(state(plain), state(cast))
