"""What every weighting λ(p) and every alignment p → p̃ promises: they learn by `update` alone, and `forward` is pure."""

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from softmatch.alignments import Alignment
from softmatch.errors import InputError
from softmatch.step import Seen
from tests.contracts.examples import assert_same_state, logits, refusal, state, taught, through_safetensors, with_gradient
from tests.contracts.test_alignment_contract import CASES as ALIGNMENTS
from tests.contracts.test_weighting_contract import CASES as WEIGHTINGS

Case = Callable[[], nn.Module]
CASES: dict[str, Case] = {**WEIGHTINGS, **{f"alignment-{name}": case for name, case in ALIGNMENTS.items()}}
NOT_FINITE = pytest.mark.parametrize("value", [float("nan"), float("inf")])


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def test_forward_is_pure_and_equivariant_to_the_order_of_the_batch(case: Case) -> None:
    learner, probs = taught(case), logits(9).probs()
    before, given, order = state(learner), probs.clone(), torch.randperm(len(probs))
    assert torch.equal(learner(probs), learner(probs))
    assert torch.equal(learner(probs)[order], learner(probs[order]))
    assert_same_state(before, state(learner))
    assert torch.equal(given, probs)


@pytest.mark.parametrize("saving", [dict, through_safetensors], ids=["state_dict", "safetensors"])
def test_state_round_trip_continues_identically(case: Case, saving: Callable[..., dict[str, Tensor]]) -> None:
    learner, restored, probs = taught(case), case(), logits(9).probs()
    restored.load_state_dict(saving(state(learner)))
    for seed in range(10, 14):
        assert torch.equal(learner(probs), restored(probs))
        learner.update(logits(seed).seen())
        restored.update(logits(seed).seen())
    assert_same_state(state(learner), state(restored))
    assert torch.equal(learner(probs), restored(probs))


@NOT_FINITE
def test_forward_refuses_what_is_not_finite(case: Case, value: float) -> None:
    learner, probs = taught(case), logits(9).probs()
    before = state(learner)
    probs[3, 1] = value
    with pytest.raises(InputError, match=r"probs contains NaN or infinity \(first in row 3\)"):
        learner(probs)
    assert_same_state(before, state(learner))


@pytest.mark.parametrize("field", ["weak_probs", "labeled_probs"])
@NOT_FINITE
def test_update_never_takes_in_what_is_not_finite(case: Case, field: str, value: float) -> None:
    """It refuses, names the tensor and changes nothing, or it does not look at that tensor."""
    learner, seen = taught(case, updates=1), logits(9).seen()
    before = state(learner)
    broken = getattr(seen, field).clone()
    broken[2, 1] = value
    message = refusal(learner.update, replace(seen, **{field: broken}))
    if message is not None:
        named = field if isinstance(learner, Alignment) else "probs"
        assert f"{named} contains NaN or infinity (first in row 2)" in message
        assert_same_state(before, state(learner))
    assert all(bool(torch.isfinite(value).all()) for value in learner.state_dict().values())


def test_seen_without_labels_is_enough_or_refused(case: Case) -> None:
    learner, batch = case(), logits(9)
    before = state(learner)
    if refusal(learner.update, Seen(batch.probs())) is not None:
        assert_same_state(before, state(learner))
    assert len(learner(batch.probs())) == 8


def test_update_takes_no_gradient_and_leaves_its_input_alone(case: Case) -> None:
    learner, seen = case(), with_gradient(logits(9).seen())
    given = {name: value.detach().clone() for name, value in vars(seen).items()}
    learner.update(seen)
    assert all(not buffer.requires_grad and buffer.grad_fn is None for buffer in learner.buffers())
    assert not list(learner.parameters())
    assert all(torch.equal(value, getattr(seen, name)) for name, value in given.items())


def test_a_copy_evolves_on_its_own_and_in_the_same_way(case: Case) -> None:
    learner = taught(case)
    before, copied = state(learner), copy.deepcopy(learner)
    copied.update(logits(10).seen())
    assert_same_state(before, state(learner))
    learner.update(logits(10).seen())
    assert_same_state(state(copied), state(learner))


def test_moving_keeps_the_state(case: Case) -> None:
    learner = taught(case)
    before = state(learner)
    assert_same_state(before, state(learner.to("cpu")))


def test_autocast_changes_nothing(case: Case) -> None:
    plain, cast, probs = taught(case), taught(case), logits(9).probs()
    plain.update(logits(10).seen())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast.update(logits(10).seen())
        found = cast(probs)
    assert found.dtype == torch.float32
    assert torch.equal(found, plain(probs))
    assert_same_state(state(plain), state(cast))
