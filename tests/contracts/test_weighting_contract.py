"""What every weighting λ(p) promises, in addition to test_learner_contract.py.

To hold your own to it: SOFTMATCH_WEIGHTING=file.py:Name pytest tests/contracts.
"""

import os
from collections.abc import Callable, Iterator

import pytest
import torch

from softmatch.methods import build
from softmatch.methods.longtail_weights import ClassWeighted, EqualShareThreshold
from softmatch.methods.sinkhorn import LabelAllocation
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
from tests.contracts.examples import BATCHES, CLASSES, PROBLEM, UNLABELED, Logits, assert_same_state, logits, state, taught

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
    return build(os.environ["SOFTMATCH_WEIGHTING"], PROBLEM).weighting


if "SOFTMATCH_WEIGHTING" in os.environ:
    CASES[os.environ["SOFTMATCH_WEIGHTING"]] = users_own


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


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


def test_forward_treats_each_sample_alone(case: Case) -> None:
    weighting, probs = taught(case), logits(9).probs()
    torch.testing.assert_close(weighting(probs), torch.cat([weighting(row[None]) for row in probs]))


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
