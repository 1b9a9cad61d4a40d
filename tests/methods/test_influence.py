"""Influence: curvature and gradient of the weights against autograd and finite differences, Adam by hand, and the steps."""

import copy
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch.methods import Match, Problem, build, fixmatch, influence, pseudo_label, softmatch, uda
from softmatch.methods.forward import Forward
from softmatch.methods.influence import Curvature, Influence, conjugate_gradients
from softmatch.step import Batch, Labeled
from tests.golden import close

CLASSES, SIZE, UNLABELED = 4, 3, 12


def make(base: Match, **options: Any) -> Influence:
    return influence(CLASSES, num_unlabeled=UNLABELED, base=base, **options)


class Linear(nn.Module):
    """Features are the inputs, or batch-normalised ones; the bias of the head is no part of the method."""

    def __init__(self, normalised: bool = False) -> None:
        super().__init__()
        self.norm: nn.Module = nn.BatchNorm1d(SIZE) if normalised else nn.Identity()
        self.head = nn.Linear(SIZE, CLASSES)

    def features(self, inputs: Tensor) -> Tensor:
        return self.norm(inputs)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.features(inputs))


def batch(index: list[int] | None = None, seed: int = 0, spread: float = 1.0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    index = list(range(6)) if index is None else index
    views = [spread * torch.randn(n, SIZE, generator=generator) for n in (5, len(index), len(index), 7)]
    labels, held_out = (torch.randint(0, CLASSES, (n,), generator=generator) for n in (5, 7))
    return Batch(
        labeled={"weak": views[0]},
        labels=labels,
        unlabeled={"weak": views[1], "strong": views[2]},
        index=torch.tensor(index),
        streams={"validation": Labeled({"weak": views[3]}, held_out)},
    )


def gradients(method: Influence, network: nn.Module, data: Batch, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """∂L_val/∂λ_n as the method gives it to Adam, for each unlabelled sample of the batch."""
    seen: list[Tensor] = []
    monkeypatch.setattr(Influence, "_adam", lambda self, index, gradient: seen.append(gradient))
    method.step(Forward(network), data)
    return seen[0]


def curvature(damping: float = 0.7) -> tuple[Curvature, Callable[[Tensor], Tensor], Tensor]:
    """Of a weighted cross-entropy with soft targets, the loss itself by the kernel, and that kernel; in float64."""
    kernel = torch.randn(CLASSES, SIZE, dtype=torch.float64)
    features, targets = torch.randn(9, SIZE, dtype=torch.float64), torch.rand(9, CLASSES, dtype=torch.float64)
    targets, weights = targets / targets.sum(-1, keepdim=True), torch.rand(9, dtype=torch.float64)

    def loss(kernel: Tensor) -> Tensor:
        losses = -(targets * torch.log_softmax(features @ kernel.T, -1)).sum(-1)
        return (weights * losses).sum() + 0.5 * damping * kernel.square().sum()

    return Curvature(features, torch.softmax(features @ kernel.T, -1), weights, damping), loss, kernel


def test_curvature_is_the_second_derivative_of_the_loss() -> None:
    found, loss, kernel = curvature()
    expected = torch.autograd.functional.hessian(loss, kernel)  # type: ignore[no-untyped-call]  # torch's own signature
    torch.testing.assert_close(found.matrix(), expected.reshape(CLASSES * SIZE, CLASSES * SIZE))


def test_product_and_solution_agree_with_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _, _ = curvature()
    vector = torch.randn(CLASSES, SIZE, dtype=torch.float64)
    torch.testing.assert_close(found.product(vector).flatten(), found.matrix() @ vector.flatten())
    expected = torch.linalg.solve(found.matrix(), vector.flatten()).view_as(vector)
    torch.testing.assert_close(found.solve(vector), expected)
    monkeypatch.setattr(sys.modules[Curvature.__module__], "LARGEST_DIRECT", 0)
    torch.testing.assert_close(found.solve(vector), expected)


def test_conjugate_gradients_stay_at_the_solution_they_have_found() -> None:
    right = torch.tensor([3.0, -1.0])
    torch.testing.assert_close(conjugate_gradients(lambda x: 2.0 * x, right), right / 2)
    assert torch.equal(conjugate_gradients(lambda x: 2.0 * x, torch.zeros(2)), torch.zeros(2))


def test_the_large_case_does_not_build_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Curvature) -> Tensor:
        raise AssertionError("this matrix would not fit")

    monkeypatch.setattr(Curvature, "matrix", refuse)
    features, probs = torch.randn(32, 600), torch.softmax(torch.randn(32, 50), -1)
    found = Curvature(features, probs, torch.full((32,), 1 / 32), 1.0)
    vector = torch.randn(50, 600)
    torch.testing.assert_close(found.product(found.solve(vector)), vector, atol=1e-4, rtol=1e-4)


def test_gradient_against_autograd(monkeypatch: pytest.MonkeyPatch) -> None:
    """−∇L_valᵀ H⁻¹ ∇ℓ_n with every derivative taken by autograd."""
    network, data = Linear(), batch()
    method = make(fixmatch(CLASSES, threshold=0.4), every=1, damping=0.5)
    method.weights.values[:6] = torch.linspace(0.5, 1.5, 6)
    found = gradients(method, network, data, monkeypatch)

    kernel, bias = network.head.weight.detach(), network.head.bias.detach()
    weak = torch.softmax(network(data.unlabeled["weak"]), -1).detach()
    weights = torch.linspace(0.5, 1.5, 6) * (weak.max(-1).values >= 0.4)
    assert 0 < int((weights > 0).sum()) < 6

    def each(kernel: Tensor) -> Tensor:
        return F.cross_entropy(data.unlabeled["strong"] @ kernel.T + bias, weak.argmax(-1), reduction="none")

    def training(kernel: Tensor) -> Tensor:
        labeled = F.cross_entropy(data.labeled["weak"] @ kernel.T + bias, data.labels)
        return labeled + (weights * each(kernel)).mean() + 0.25 * kernel.square().sum()

    def validation(kernel: Tensor) -> Tensor:
        held_out = data.streams["validation"]
        return F.cross_entropy(held_out.views["weak"] @ kernel.T + bias, held_out.labels)

    functional: Any = torch.autograd.functional
    matrix = functional.hessian(training, kernel).reshape(CLASSES * SIZE, -1)
    by_sample = functional.jacobian(each, kernel).reshape(6, -1)
    by_kernel = functional.jacobian(validation, kernel).flatten()
    torch.testing.assert_close(found, -by_sample @ torch.linalg.solve(matrix, by_kernel), atol=1e-5, rtol=1e-4)


def test_gradient_is_how_the_validation_loss_of_the_optimum_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the minimum of the training loss, dL_val/dλ_n by finite differences of that minimum is the gradient / B_U."""
    data, damping = batch(seed=3), 0.5
    labels = torch.randint(0, CLASSES, (6,))
    views = {name: view.double() for name, view in (("l", data.labeled["weak"]), ("u", data.unlabeled["strong"]))}

    def training(kernel: Tensor, weights: Tensor) -> Tensor:
        unlabeled = F.cross_entropy(views["u"] @ kernel.T, labels, reduction="none")
        labeled = F.cross_entropy(views["l"] @ kernel.T, data.labels)
        return labeled + (weights * unlabeled).mean() + 0.5 * damping * kernel.square().sum()

    def minimum(weights: Tensor) -> Tensor:
        kernel = torch.zeros(CLASSES, SIZE, dtype=torch.float64)
        functional: Any = torch.autograd.functional
        for _ in range(30):
            slope = functional.jacobian(lambda k: training(k, weights), kernel).flatten()
            matrix = functional.hessian(lambda k: training(k, weights), kernel).reshape(CLASSES * SIZE, -1)
            kernel = kernel - torch.linalg.solve(matrix, slope).view_as(kernel)
        return kernel

    def validation(weights: Tensor) -> float:
        held_out = data.streams["validation"]
        return float(F.cross_entropy(held_out.views["weak"].double() @ minimum(weights).T, held_out.labels))

    ones, changes = torch.ones(6, dtype=torch.float64), []
    for number in range(6):
        moved = 1e-4 * F.one_hot(torch.tensor(number), 6)
        changes.append((validation(ones + moved) - validation(ones - moved)) / 2e-4)
    network = Linear()
    with torch.no_grad():
        network.head.bias.zero_()
        network.head.weight.copy_(minimum(ones).float())
    base = fixmatch(CLASSES, threshold=0.0)
    base.target = lambda probs: F.one_hot(labels, CLASSES).float()
    method = make(base, every=1, damping=damping)
    found = gradients(method, network, data, monkeypatch)
    torch.testing.assert_close(found.double() / 6, torch.tensor(changes, dtype=torch.float64), atol=1e-5, rtol=1e-3)


def test_targets_of_the_base_may_be_soft(monkeypatch: pytest.MonkeyPatch) -> None:
    """With UDA's sharpened targets, ∇ℓ_n = (q_n − target_n) h_nᵀ still."""
    network, data = Linear(), batch()
    base = uda(CLASSES, threshold=0.0)
    found = gradients(make(base, every=1), network, data, monkeypatch)
    with torch.no_grad():
        views = (data.labeled["weak"], data.unlabeled["strong"], data.unlabeled["weak"], data.streams["validation"].views["weak"])
        labeled, strong, weak, held_out = (torch.softmax(network(view), -1) for view in views)
        target = weak ** (1 / 0.4) / (weak ** (1 / 0.4)).sum(-1, keepdim=True)
        wrong = held_out - F.one_hot(data.streams["validation"].labels, CLASSES)
        weights = torch.cat([torch.full((5,), 1 / 5), torch.full((6,), 1 / 6)])
        bend = Curvature(torch.cat(views[:2]), torch.cat([labeled, strong]), weights, 1.0)
        direction = torch.linalg.solve(bend.matrix(), (wrong.T @ views[3] / 7).flatten())
        each = torch.stack([torch.outer(strong[n] - target[n], views[1][n]).flatten() for n in range(6)])
    torch.testing.assert_close(found, -each @ direction, atol=1e-5, rtol=1e-4)


def test_adam_of_each_sample_by_hand() -> None:
    method = make(fixmatch(CLASSES), lr=0.1)
    first, second = torch.tensor([2.0, -3.0]), torch.tensor([1.0])
    method._adam(torch.tensor([4, 7]), first)
    close(method.weights.rows[[4, 7, 5]], [0.9, 1.1, 1.0])  # the first step is ±lr, whatever the gradient
    method._adam(torch.tensor([7]), second)
    mean = (0.9 * 0.1 * -3.0 + 0.1 * 1.0) / (1 - 0.9**2)
    square = (0.999 * 0.001 * 9.0 + 0.001 * 1.0) / (1 - 0.999**2)
    close(method.weights.rows[7], 1.1 - 0.1 * mean / square**0.5)
    assert method.updates.rows[[4, 7, 5]].tolist() == [1, 2, 0]
    assert method.updates.values.dtype == torch.int64


def test_weights_stay_between_zero_and_the_largest() -> None:
    method = make(fixmatch(CLASSES), lr=5.0)
    method._adam(torch.tensor([0, 1]), torch.tensor([1.0, -1.0]))
    assert method.weights.rows[:2].tolist() == [0.0, 2.0]


def test_weights_multiply_those_of_the_base_and_move_after_their_use() -> None:
    network, data, base = Linear(), batch(), softmatch(CLASSES)
    method = make(copy.deepcopy(base), every=1)
    method.weights.values[:6] = torch.linspace(0.0, 2.0, 6)
    alone, output = base.step(Forward(network), data), method.step(Forward(network), data)
    torch.testing.assert_close(output.pseudo.weights, alone.pseudo.weights * torch.linspace(0.0, 2.0, 6))
    assert not torch.equal(method.weights.rows[:6], torch.linspace(0.0, 2.0, 6))
    assert torch.equal(method.weights.rows[6:], torch.ones(6))
    assert method.updates.rows.tolist() == [1] * 6 + [0] * 6


def test_the_first_step_is_the_base_s_own() -> None:
    network, data, base = Linear(), batch(), fixmatch(CLASSES, threshold=0.3)
    method = make(copy.deepcopy(base))
    assert torch.equal(method.step(Forward(network), data).loss, base.step(Forward(network), data).loss)


def test_weights_move_every_so_often_and_only_in_training() -> None:
    network, data = Linear(), batch()
    method = make(fixmatch(CLASSES), every=3)
    counts = []
    for _ in range(6):
        method.step(Forward(network), data)
        counts.append(int(method.updates.rows.sum()))
    assert counts == [0, 0, 6, 6, 6, 12]
    method.eval()
    for _ in range(3):
        method.step(Forward(network), data)
    assert int(method.updates.rows.sum()) == 12


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_held_out_samples_train_nothing_and_move_no_running_statistics(mode: str) -> None:
    data = batch()
    other = batch(seed=5)
    found = []
    for held_out in (data.streams, other.streams):
        torch.manual_seed(0)
        network = Linear(normalised=True)
        method = make(fixmatch(CLASSES, threshold=0.3), every=1)
        given = Batch(data.labeled, data.labels, data.unlabeled, data.index, streams=held_out)
        method.step(Forward(network, mode), given).loss.backward()  # type: ignore[arg-type, no-untyped-call]  # parametrised literal; torch's own signature
        found.append([*network.buffers(), *(p.grad for p in network.parameters())])
    for left, right in zip(*found, strict=True):
        assert torch.equal(left, right)


def test_a_base_without_strong_view_is_served() -> None:
    network, data = Linear(), batch()
    method = make(pseudo_label(CLASSES), every=1)
    data = Batch(data.labeled, data.labels, {"weak": data.unlabeled["weak"]}, data.index, streams=data.streams)
    method.step(Forward(network), data)
    assert method.updates.rows.tolist() == [1] * 6 + [0] * 6


def test_the_mean_weight_is_reported() -> None:
    network, method = Linear(), make(fixmatch(CLASSES), every=2)
    for seed in range(3):
        method.step(Forward(network), batch(seed=seed))
    assert not torch.equal(method.weights.rows, torch.ones(UNLABELED))
    close(method.statistics()["sample_weight"], float(method.weights.rows.mean()))


def test_builder_follows_the_problem() -> None:
    problem = Problem(num_classes=CLASSES, num_unlabeled=UNLABELED, total_steps=2**13)
    method = build("softmatch.methods:influence", problem, {"base": "softmatch", "base_options": {"k": 3.0}})
    assert method.every == 4  # 512 of 2^20
    assert method.streams == ("validation",)
    assert method.validation_share == 0.25
    assert method.needs_features
    assert influence(CLASSES, num_unlabeled=1, total_steps=10, base=fixmatch(CLASSES)).every == 1
