"""What every method of logits promises; what all methods promise is in test_step_contract.py.

To hold your own to it: SOFTMATCH_METHOD=file.py:name pytest tests/contracts.
"""

import copy
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from softmatch.errors import InputError
from softmatch.methods import METHODS, Forward, Match, Method, Supervised, build
from softmatch.methods.longtail_labels import Refinery
from softmatch.step import Batch
from tests.contracts.examples import (
    BATCHES,
    CLASSES,
    PROBLEM,
    Logits,
    assert_same_state,
    logits,
    state,
    through_safetensors,
    train,
)

OF_LOGITS = [name for name in METHODS if isinstance(build(name, PROBLEM), Match | Supervised)]
"""Those whose loss is one of logits, so that they work in anybody's own loop; the others need features, inputs or networks."""
CASES: dict[str, tuple[str, Mapping[str, Any]]] = {
    **{name: (name, {}) for name in OF_LOGITS},
    "softmatch-per-class": ("softmatch", {"estimation": "per_class", "start": "debiased"}),
    "softmatch-usb": ("softmatch", {"statistics": "aligned", "start": "first"}),
    "softmatch-labels": ("softmatch", {"align": "labels", "max_weight": 2.0}),
    "flexmatch-concave": ("flexmatch", {"mapping": "concave", "threshold_warmup": False, "threshold": 0.8}),
    "freematch-clipped": ("freematch", {"clip": (0.5, 0.9)}),
    "uda-annealed": ("uda", {"annealing": "exp"}),
    "pseudo_label-threshold": ("pseudo_label", {"threshold": 0.6}),
    "darp-at-once": ("darp", {"warmup": 0.0, "every": 2}),
    "adamatch-running": ("adamatch", {"queue": 0, "ramp": False}),
}
if "SOFTMATCH_METHOD" in os.environ:
    CASES[os.environ["SOFTMATCH_METHOD"]] = (os.environ["SOFTMATCH_METHOD"], {})

Make = Callable[[], Method]


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def make(request: pytest.FixtureRequest) -> Make:
    name, options = request.param
    return lambda: build(name, PROBLEM, options)


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES.keys())
@pytest.mark.parametrize("steps", [0, 4])
def test_loss_is_a_finite_float32_scalar(make: Make, batch: Logits, steps: int) -> None:
    method = make()
    train(method, 0, steps)
    loss = batch.loss(method)
    assert loss.shape == ()
    assert loss.dtype == torch.float32
    assert bool(torch.isfinite(loss))
    assert all(bool(torch.isfinite(value).all()) for value in method.state_dict().values())


@pytest.mark.parametrize("saving", [dict, through_safetensors], ids=["state_dict", "safetensors"])
def test_a_resumed_run_equals_the_uninterrupted_one(make: Make, saving: Callable[..., dict[str, Tensor]]) -> None:
    method, resumed = make(), make()
    train(method, 0, 4)
    resumed.load_state_dict(saving(state(method)))
    for left, right in zip(train(method, 4, 4), train(resumed, 4, 4), strict=True):
        assert torch.equal(left, right)
    assert_same_state(state(method), state(resumed))


def test_evaluation_changes_no_state(make: Make) -> None:
    method = make()
    train(method, 0, 4)
    before = state(method)
    method.eval()
    assert torch.equal(*train(method, 9, 1), *train(method, 9, 1))
    assert_same_state(before, state(method))


@pytest.mark.parametrize("field", ["labeled", "weak", "strong"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_refused_by_name_and_changes_nothing(make: Make, field: str, value: float) -> None:
    method, batch = make(), logits(9)
    train(method, 0, 3)
    if field not in ("labeled", *method.unlabeled_views):
        pytest.skip("this method does not look at that view")
    before = state(method)
    broken = getattr(batch, field).clone()
    broken[2, 1] = value
    with pytest.raises(InputError, match=rf"{field}_logits contains NaN or infinity \(first in row 2\)"):
        replace(batch, **{field: broken}).loss(method)
    assert_same_state(before, state(method))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_give_the_float32_loss(make: Make, dtype: torch.dtype) -> None:
    half, full = make(), make()
    for seed in range(3):
        batch = logits(seed).to(dtype)
        loss = batch.loss(half)
        assert loss.dtype == torch.float32
        torch.testing.assert_close(loss, batch.to(torch.float32).loss(full), atol=1e-6, rtol=1e-5)
    for name, value in state(half).items():
        torch.testing.assert_close(value, state(full)[name], atol=1e-6, rtol=1e-5)


def test_autocast_gives_the_float32_loss(make: Make) -> None:
    cast, full = make(), make()
    for seed in range(3):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = logits(seed).loss(cast)
        assert loss.dtype == torch.float32
        torch.testing.assert_close(loss, logits(seed).loss(full), atol=1e-6, rtol=1e-5)
    assert_same_state(state(cast), state(full))


@pytest.fixture
def _fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.usefixtures("_fresh_compiler")
def test_compiled_as_one_graph_equals_eager(make: Make) -> None:
    eager = make()
    if isinstance(eager, Match) and isinstance(eager.refinement, Refinery) and not eager.refinement.warmup:
        pytest.skip("DARP's solver stops when it is near enough, which depends on the data")
    inner = make()
    compiled = torch.compile(inner, fullgraph=True, backend="aot_eager")
    for seed in range(3):
        torch.testing.assert_close(logits(seed).loss(compiled), logits(seed).loss(eager))
    for name, value in state(eager).items():
        torch.testing.assert_close(value, state(inner)[name])


def test_state_takes_no_gradient_and_learns_no_parameters(make: Make) -> None:
    method, batch = make(), logits(9)
    tracked = Logits(*(value.requires_grad_() if value.is_floating_point() else value for value in vars(batch).values()))
    tracked.loss(method).backward()
    assert tracked.labeled.grad is not None
    if "strong" in method.unlabeled_views:
        assert tracked.weak.grad is None
        assert tracked.strong.grad is not None
    assert all(not buffer.requires_grad and buffer.grad_fn is None for buffer in method.buffers())
    assert not list(method.parameters())


def test_a_copy_evolves_on_its_own_and_in_the_same_way(make: Make) -> None:
    method = make()
    train(method, 0, 3)
    before, copied = state(method), copy.deepcopy(method)
    losses = train(copied, 3, 3)
    assert_same_state(before, state(method))
    assert torch.equal(torch.stack(losses), torch.stack(train(method, 3, 3)))
    assert_same_state(state(copied), state(method))


def test_moving_keeps_the_state(make: Make) -> None:
    method = make()
    train(method, 0, 3)
    before = state(method)
    assert_same_state(before, state(method.to("cpu")))


def test_weights_of_the_batch_lie_in_range(make: Make) -> None:
    method = make()
    if not isinstance(method, Match):
        pytest.skip("only a Match has weights")
    for seed in range(4):
        batch = logits(seed)
        strong = batch.strong if "strong" in method.unlabeled_views else None
        pseudo = method.compute(batch.labeled, batch.labels, batch.weak, strong, batch.index).pseudo
        for value in (pseudo.weights, pseudo.unaligned_weights, pseudo.confidence, pseudo.labels):
            assert value.shape == (8,)
            assert not value.requires_grad
        assert 0.0 <= float(pseudo.weights.min()) <= float(pseudo.weights.max()) <= method.weighting.max_weight


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_steps_train_a_network_with_batch_normalisation(make: Make, mode: str) -> None:
    method, network = make(), nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, CLASSES))
    for step in range(3):
        data = Batch(
            labeled={name: torch.randn(5, 6) for name in method.labeled_views},
            labels=torch.randint(0, CLASSES, (5,)),
            unlabeled={name: torch.randn(7, 6) for name in method.unlabeled_views},
            index=torch.arange(7) + step,
        )
        output = method.step(Forward(network, mode), data)  # type: ignore[arg-type]  # parametrised literal
        network.zero_grad()
        output.loss.backward()
        assert all(p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in network.parameters())
        for part in (output.supervised_loss, output.unsupervised_loss):
            assert part is None or not part.requires_grad


def test_statistics_and_curve_can_be_logged(make: Make) -> None:
    method = make()
    train(method, 0, 3)
    before = state(method)
    assert all(bool(torch.isfinite(value).all()) for value in method.statistics().values())
    curve = method.weight_curve(CLASSES)
    assert curve is None or curve[0].shape == curve[1].shape
    assert_same_state(before, state(method))
