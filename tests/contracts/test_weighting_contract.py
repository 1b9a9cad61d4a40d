"""What every weighting λ(p) promises; to hold your own to it: SOFTMATCH_WEIGHTING=file.py:Name pytest tests/contracts."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

from softmatch.errors import InputError
from softmatch.methods import Match, build
from softmatch.methods.longtail.adsh import EqualShareThreshold
from softmatch.methods.longtail.saw import ClassWeighted
from softmatch.methods.sinkhorn import LabelAllocation
from softmatch.step import Seen
from softmatch.thresholds import CurriculumThreshold, LossThreshold, RelativeThreshold, SelfAdaptiveThreshold
from softmatch.weightings import (
    Constant,
    Gaussian,
    Laplacian,
    Linear,
    Quadratic,
    RampUp,
    Threshold,
    TruncatedGaussian,
    TruncatedLaplacian,
    Weighting,
    weight_curve,
)
from tests.contracts.examples import (
    BATCHES,
    CLASSES,
    PROBLEM,
    UNLABELED,
    Logits,
    assert_same_state,
    logits,
    refusal,
    state,
    through_safetensors,
    with_gradient,
)

Case = Callable[[], Weighting]

CASES: dict[str, Case] = {
    "constant": lambda: Constant(max_weight=2.0),
    "linear": Linear,
    "quadratic": Quadratic,
    "laplacian": Laplacian,
    "gaussian": Gaussian,
    "threshold": lambda: Threshold(0.6),
    "threshold-strict": lambda: Threshold(0.6, strict=True),
    "ramp": lambda: RampUp(5),
    "ramp-sigmoid": lambda: RampUp(5, TruncatedGaussian(CLASSES, 0.8, max_weight=2.0), shape="sigmoid"),
    "truncated-gaussian": lambda: TruncatedGaussian(CLASSES, 0.8),
    "truncated-gaussian-first": lambda: TruncatedGaussian(CLASSES, 0.8, start="first", max_weight=3.0),
    "truncated-gaussian-debiased": lambda: TruncatedGaussian(CLASSES, 0.8, start="debiased"),
    "truncated-gaussian-fixed": lambda: TruncatedGaussian(CLASSES, estimation="fixed"),
    "truncated-gaussian-classes": lambda: TruncatedGaussian(CLASSES, 0.8, estimation="per_class"),
    "truncated-gaussian-reset": lambda: TruncatedGaussian(CLASSES, 0.8, estimation="per_class", empty_class="reset"),
    "truncated-laplacian": lambda: TruncatedLaplacian(CLASSES, 0.8),
    "truncated-laplacian-moment": lambda: TruncatedLaplacian(CLASSES, 0.8, fit="moment", start="first"),
    "truncated-laplacian-mle": lambda: TruncatedLaplacian(CLASSES, 0.8, fit="mle", start="debiased"),
    "curriculum": lambda: CurriculumThreshold(CLASSES, UNLABELED, 0.7),
    "curriculum-concave": lambda: CurriculumThreshold(CLASSES, UNLABELED, 0.7, "concave", warmup=False, max_weight=2.0),
    "loss": lambda: LossThreshold(warmup=2, every=2),
    "loss-hard": lambda: LossThreshold(warmup=0, every=1, initial_loss=0.5, soft_selection=False),
    "relative": lambda: RelativeThreshold(),
    "equal-share": lambda: EqualShareThreshold(CLASSES, 0, 0.7),
    "class-weighted": lambda: ClassWeighted(TruncatedGaussian(CLASSES, 0.8), CLASSES, UNLABELED, every=2),
    "allocation": lambda: LabelAllocation(UNLABELED, [0.4, 0.3, 0.2, 0.1], total_steps=40),
    "self-adaptive": lambda: SelfAdaptiveThreshold(CLASSES, 0.8),
    "self-adaptive-clipped": lambda: SelfAdaptiveThreshold(CLASSES, 0.8, start="first", clip=(0.5, 0.9)),
}


def users_own() -> Weighting:
    method = build(os.environ["SOFTMATCH_WEIGHTING"], PROBLEM)
    assert isinstance(method, Match)
    return method.weighting


if "SOFTMATCH_WEIGHTING" in os.environ:
    CASES[os.environ["SOFTMATCH_WEIGHTING"]] = users_own


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


def taught(case: Case, updates: int = 4) -> Weighting:
    """A weighting that has learned from a few batches."""
    weighting = case()
    for seed in range(updates):
        weighting.update(logits(seed).seen())
    return weighting


def subclasses(parent: type[Weighting]) -> Iterator[type[Weighting]]:
    for child in parent.__subclasses__():
        yield child
        yield from subclasses(child)


def test_no_weighting_of_the_library_is_forgotten() -> None:
    library = {found for found in subclasses(Weighting) if found.__module__.startswith("softmatch.")}
    assert {type(make()) for make in CASES.values()} >= library


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES.keys())
@pytest.mark.parametrize("updates", [0, 4])
def test_weights_are_finite_float32_in_range(case: Case, batch: Logits, updates: int) -> None:
    weighting = taught(case, updates)
    weighting.update(batch.seen())
    probs = batch.probs()
    for weights in (weighting(probs), weighting(probs, probs.argmax(-1))):
        assert weights.shape == (len(probs),)
        assert weights.dtype == torch.float32
        assert bool(torch.isfinite(weights).all())
        assert 0.0 <= float(weights.min()) <= float(weights.max()) <= weighting.max_weight
    assert all(bool(torch.isfinite(value).all()) for value in weighting.state_dict().values())


def test_pseudo_labels_default_to_the_argmax(case: Case) -> None:
    weighting, probs = taught(case), logits(9).probs()
    assert torch.equal(weighting(probs), weighting(probs, probs.argmax(-1)))


def test_forward_is_pure(case: Case) -> None:
    weighting, probs = taught(case), logits(9).probs()
    before, given = state(weighting), probs.clone()
    assert torch.equal(weighting(probs), weighting(probs))
    assert_same_state(before, state(weighting))
    assert torch.equal(given, probs)


def test_forward_is_equivariant_to_the_order_of_the_batch(case: Case) -> None:
    weighting, probs = taught(case), logits(9).probs()
    order = torch.randperm(len(probs))
    assert torch.equal(weighting(probs)[order], weighting(probs[order]))


def test_forward_treats_each_sample_alone(case: Case) -> None:
    weighting, probs = taught(case), logits(9).probs()
    torch.testing.assert_close(weighting(probs), torch.cat([weighting(row[None]) for row in probs]))


@pytest.mark.parametrize("saving", [dict, through_safetensors], ids=["state_dict", "safetensors"])
def test_state_round_trip_continues_identically(case: Case, saving: Callable[..., dict[str, torch.Tensor]]) -> None:
    weighting, restored, probs = taught(case), case(), logits(9).probs()
    restored.load_state_dict(saving(state(weighting)))
    assert torch.equal(weighting(probs), restored(probs))
    for seed in range(10, 14):
        weighting.update(logits(seed).seen())
        restored.update(logits(seed).seen())
    assert_same_state(state(weighting), state(restored))
    assert torch.equal(weighting(probs), restored(probs))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_forward_refuses_what_is_not_finite(case: Case, value: float) -> None:
    weighting, probs = taught(case), logits(9).probs()
    before = state(weighting)
    probs[3, 1] = value
    with pytest.raises(InputError, match=r"probs contains NaN or infinity \(first in row 3\)"):
        weighting(probs)
    assert_same_state(before, state(weighting))


@pytest.mark.parametrize("field", ["weak_probs", "labeled_probs"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_update_never_takes_in_what_is_not_finite(case: Case, field: str, value: float) -> None:
    """It refuses and changes nothing, or it does not look at that tensor."""
    weighting, seen = taught(case, updates=1), logits(9).seen()
    before = state(weighting)
    broken = getattr(seen, field).clone()
    broken[2, 1] = value
    message = refusal(weighting.update, replace(seen, **{field: broken}))
    if message is not None:
        assert "probs contains NaN or infinity (first in row 2)" in message
        assert_same_state(before, state(weighting))
    assert all(bool(torch.isfinite(value).all()) for value in weighting.state_dict().values())


def test_update_takes_no_gradient(case: Case) -> None:
    weighting = case()
    weighting.update(with_gradient(logits(9).seen()))
    assert all(not buffer.requires_grad for buffer in weighting.buffers())
    assert all(buffer.grad_fn is None for buffer in weighting.buffers())
    assert not list(weighting.parameters())


def test_update_leaves_its_input_alone(case: Case) -> None:
    seen = logits(9).seen()
    given = copy.deepcopy(seen)
    case().update(seen)
    for name, value in vars(given).items():
        assert torch.equal(value, getattr(seen, name))


def test_a_copy_evolves_on_its_own_and_in_the_same_way(case: Case) -> None:
    weighting = taught(case)
    before, copied = state(weighting), copy.deepcopy(weighting)
    copied.update(logits(10).seen())
    assert_same_state(before, state(weighting))
    weighting.update(logits(10).seen())
    assert_same_state(state(copied), state(weighting))


def test_moving_keeps_the_state(case: Case) -> None:
    weighting = taught(case)
    before = state(weighting)
    assert_same_state(before, state(weighting.to("cpu")))


def test_autocast_changes_nothing(case: Case) -> None:
    plain, cast, probs = taught(case), taught(case), logits(9).probs()
    plain.update(logits(10).seen())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast.update(logits(10).seen())
        weights = cast(probs)
    assert weights.dtype == torch.float32
    assert torch.equal(weights, plain(probs))
    assert_same_state(state(plain), state(cast))


def test_statistics_are_named_finite_tensors(case: Case) -> None:
    for name, value in taught(case).statistics().items():
        assert name.isidentifier()
        assert bool(torch.isfinite(value).all())


def test_weight_curve_lies_in_range(case: Case) -> None:
    weighting = taught(case)
    before = state(weighting)
    confidence, weights = weight_curve(weighting, CLASSES, points=21)
    assert confidence.shape == weights.shape == (21,)
    assert 0.0 <= float(weights.min()) <= float(weights.max()) <= weighting.max_weight
    assert_same_state(before, state(weighting))


def test_seen_without_labels_is_enough_or_refused(case: Case) -> None:
    weighting, batch = case(), logits(9)
    before = state(weighting)
    if refusal(weighting.update, Seen(batch.probs())) is not None:
        assert_same_state(before, state(weighting))
    assert weighting(batch.probs()).shape == (8,)
