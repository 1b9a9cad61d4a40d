"""VAT: the perturbation against the power iteration by hand, its precision, and where gradients flow."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch.methods import Forward, Problem, build
from softmatch.methods.consistency import VAT, vat
from softmatch.networks import build_network
from tests.golden import CLASSES, close
from tests.methods.networks import batch
from tests.methods.test_consistency import at_full_weight, gradient_of, linear, normalised


def as_vat(**options: Any) -> VAT:
    method = build(vat, Problem(num_classes=CLASSES, num_unlabeled=8, total_steps=10), options)
    at_full_weight(method)
    return method


def perturb(method: VAT, forward: Forward, view: Tensor) -> Tensor:
    with torch.no_grad():
        (plain,) = forward(view, tracking=False)
    return method.perturbation(forward, view, plain)


def test_radius_is_six_for_cifar_and_follows_the_number_of_values() -> None:
    method = as_vat()
    close(method.radius(torch.zeros(1, 3, 32, 32)), 6.0)
    close(method.radius(torch.zeros(1, 1, 8, 8)), 6.0 * math.sqrt(64 / 3072))
    close(as_vat(epsilon=2.5).radius(torch.zeros(1, 7)), 2.5)
    assert method.kinds == ("image", "vector")


@pytest.mark.parametrize("shape", [(5,), (2, 4, 4)])
def test_perturbation_has_the_length_epsilon(shape: tuple[int, ...]) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), CLASSES))
    found = perturb(as_vat(epsilon=1.5, iterations=2), Forward(network), torch.randn(6, *shape))
    assert found.shape == (6, *shape)
    close(found.flatten(1).norm(dim=1), [1.5] * 6, tolerance=1e-5)
    assert not found.requires_grad


def test_direction_of_a_linear_model_is_the_power_iterations() -> None:
    """For z = Wx the second derivative of KL is H = Wᵀ(diag p − ppᵀ)W; one iteration gives Hd/‖Hd‖, two H²d/‖H²d‖."""
    network, view = linear(), torch.randn(4, 5)
    weight = network.weight.detach().double().numpy()
    for iterations in (1, 2):
        torch.manual_seed(3)
        start = torch.randn_like(view).double().numpy()
        torch.manual_seed(3)
        found = perturb(as_vat(epsilon=1.0, iterations=iterations), Forward(network), view).numpy()
        probs = network(view).softmax(-1).detach().double().numpy()
        for row in range(4):
            hessian = weight.T @ (np.diag(probs[row]) - np.outer(probs[row], probs[row])) @ weight
            expected = np.linalg.matrix_power(hessian, iterations) @ start[row]
            assert found[row] @ expected / np.linalg.norm(expected) > 0.999


@pytest.mark.parametrize("name", ["small-conv-8", "wrn-10-1"])
def test_direction_in_float32_is_that_in_float64(name: str) -> None:
    """The trial step is long enough that rounding does not decide on the direction; the authors' 1e-6 is not."""
    network, view = build_network(name, (1, 8, 8), 10).train(), torch.randn(16, 1, 8, 8)
    torch.manual_seed(1)
    start = torch.randn_like(view)
    exact, trial = copy.deepcopy(network).double(), 1e-6 * F.normalize(start.double().flatten(1)).view_as(start)
    with torch.no_grad():
        target = exact(view.double()).softmax(-1)
    logits = exact(view.double() + trial.requires_grad_())
    (gradient,) = torch.autograd.grad(-(target * logits.log_softmax(-1)).sum(), trial)
    expected = F.normalize(gradient.flatten(1), eps=1e-30)
    cosines = {}
    for step in (1e-3, 1e-6):
        torch.manual_seed(1)
        found = perturb(as_vat(step=step), Forward(network), view).double()
        cosines[step] = float((F.normalize(found.flatten(1)) * expected).sum(1).mean())
    assert cosines[1e-3] > 0.98
    assert cosines[1e-6] < 0.9


def test_perturbation_leaves_the_parameters_without_gradient() -> None:
    network = normalised()
    called = []
    for parameter in network.parameters():
        parameter.register_hook(lambda grad: called.append(grad))
    perturb(as_vat(iterations=3), Forward(network), torch.randn(6, 5))
    assert all(parameter.grad is None for parameter in network.parameters())
    assert not called


def test_perturbation_changes_the_prediction_more_than_noise_of_its_length() -> None:
    network, view = normalised(), torch.randn(64, 5)
    found = perturb(as_vat(epsilon=0.5), Forward(network), view)
    noise = F.normalize(torch.randn_like(view), dim=1) * 0.5
    method = as_vat()
    with torch.no_grad():
        target = network(view).softmax(-1)
        adversarial, random = (float(method.distance(target, network(view + r)).mean()) for r in (found, noise))
    assert adversarial > 2.0 * random


def test_where_nothing_changes_the_prediction_there_is_no_perturbation() -> None:
    network = linear()
    nn.init.zeros_(network.weight)
    found = perturb(as_vat(), Forward(network), torch.randn(6, 5))
    assert torch.equal(found, torch.zeros(6, 5))
    assert bool(torch.isfinite(as_vat().step(Forward(network), batch("weak")).loss))


def test_perturbation_under_autocast_is_the_float32_one() -> None:
    network, view, found = normalised(), torch.randn(6, 5), []
    for enabled in (False, True):
        torch.manual_seed(2)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            found.append(perturb(as_vat(), Forward(network), view))
    assert found[1].dtype == torch.float32
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("entropy", [0.0, 0.06])
@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_vat_step(entropy: float, mode: str) -> None:
    network, data, method = linear(), batch("weak"), as_vat(entropy=entropy, max_weight=2.0)
    assert method.unlabeled_views == ("weak",)
    forward, view = Forward(network, mode), data.unlabeled["weak"]  # type: ignore[arg-type]  # parametrised literal
    torch.manual_seed(4)
    output = method.step(forward, data)
    torch.manual_seed(4)
    moved = view + perturb(method, forward, view)
    probs = network(view).softmax(-1)
    target = probs.detach()
    divergence = (target * (target.log() - network(moved).log_softmax(-1))).sum(-1).mean()
    close(output.unsupervised_loss, 2.0 * float(divergence.detach()))
    expected = F.cross_entropy(network(data.labeled["weak"]), data.labels) + 2.0 * divergence
    expected = expected - entropy * (probs * probs.log()).sum(-1).mean()
    close(output.loss, float(expected.detach()))
    torch.testing.assert_close(gradient_of(output.loss, network), gradient_of(expected, network))
    close(output.pseudo.confidence, probs.max(-1).values.tolist())
