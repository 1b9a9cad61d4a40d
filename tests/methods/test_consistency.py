"""Consistency methods: golden numbers, equivalences, state; VAT's perturbation."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch.errors import InputError
from softmatch.methods import Forward, Method, Problem, build, mean_teacher, pi_model, temporal_ensembling, vat
from softmatch.methods import consistency as module
from softmatch.methods.consistency import VAT, TemporalEnsembling
from softmatch.networks import build_network
from softmatch.step import Batch, Output
from tests.contracts.examples import assert_same_state, state
from tests.golden import CLASSES, STEP_1, STEP_2, close
from tests.methods.networks import batch

PROBLEM = Problem(num_classes=CLASSES, num_unlabeled=8, total_steps=10)
NAMES = ("mean_teacher", "pi_model", "temporal_ensembling", "vat")


def make(name: str, **options: Any) -> Method:
    return build(name, PROBLEM, options)


def linear() -> nn.Linear:
    return nn.Linear(5, CLASSES)


def normalised() -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, CLASSES))


def averaged(network: nn.Module) -> nn.Module:
    """A network of other weights, as the average of a run is."""
    average = copy.deepcopy(network).requires_grad_(False)
    for parameter in average.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
    return average


def squared(target: Tensor, probs: Tensor) -> float:
    """Mean over samples and classes of the squared difference, in loops."""
    rows = zip(target.tolist(), probs.tolist(), strict=True)
    return float(np.mean([[(a - b) ** 2 for a, b in zip(left, right, strict=True)] for left, right in rows]))


def at_full_weight(method: Method) -> None:
    method.ramp.updates.fill_(2**21)


# --- what all of them share -------------------------------------------------------------------------------------------------


def test_loss_is_supervised_plus_ramped_squared_distance() -> None:
    method = pi_model(CLASSES, total_steps=10, ramp=0.4, max_weight=10.0)
    expected = squared(STEP_1.weak, STEP_1.strong)
    for ramp in (0.0, 0.25, 0.5, 0.75, 1.0, 1.0):
        output = method.compute(STEP_1.labeled.log(), STEP_1.labels, STEP_1.strong.log(), STEP_1.weak)
        close(output.supervised_loss, 0.510826)
        close(output.unsupervised_loss, 10.0 * ramp * expected)
        close(output.loss, 0.510826 + 10.0 * ramp * expected)
        assert output.pseudo.labels.tolist() == [0, 0, 1, 0]
        close(output.pseudo.weights, [ramp] * 4)
        close(output.pseudo.unaligned_weights, [ramp] * 4)
        close(output.pseudo.confidence, [0.90, 0.55, 0.80, 0.42])
        close(method.statistics()["ramp"], ramp)


def test_sigmoid_ramp_golden() -> None:
    method, found = pi_model(CLASSES, total_steps=10, ramp=0.4, ramp_shape="sigmoid"), []
    for _ in range(5):
        method.compute(STEP_1.labeled.log(), STEP_1.labels, STEP_1.strong.log(), STEP_1.weak)
        found.append(method.statistics()["ramp"])
    close(torch.stack(found)[[0, 1, 2, 4]], [0.006738, 0.060055, 0.286505, 1.0])


def test_ramp_is_a_share_of_the_run() -> None:
    assert pi_model(CLASSES).ramp.steps == round(0.4 * 2**20)
    assert mean_teacher(CLASSES, total_steps=300).ramp.steps == 120
    assert temporal_ensembling(CLASSES, num_unlabeled=4, total_steps=100).ramp.steps == 40
    assert vat(CLASSES, total_steps=300, ramp=0.0).ramp.steps == 1


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_finite_is_refused_and_changes_nothing(name: str) -> None:
    network = linear()
    method, forward, data = make(name), Forward(network, average=averaged(network)), batch("weak", "weak_2")
    method.step(forward, data)
    before = state(method)
    for views, names in ((data.labeled, method.labeled_views), (data.unlabeled, method.unlabeled_views)):
        for view in names:
            kept = views[view].clone()
            views[view][2, 1] = float("nan")
            with pytest.raises(InputError, match=r"contains NaN or infinity \(first in row 2\)"):
                method.step(forward, data)
            views[view] = kept
    assert_same_state(before, state(method))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_labelled_samples_alone_move_the_running_statistics(name: str, mode: str) -> None:
    network, data, method = normalised(), batch("weak", "weak_2"), make(name)
    assert method.tracked_views == ()
    assert not list(method.parameters())
    average = averaged(network)
    kept = copy.deepcopy(average.state_dict())
    features = network[0](data.labeled["weak"]).detach()
    method.step(Forward(network, mode, average=average), data).loss.backward()  # type: ignore[arg-type]  # parametrised literal
    torch.testing.assert_close(network[1].running_mean, 0.1 * features.mean(0))
    assert all(torch.equal(value, kept[key]) for key, value in average.state_dict().items())


# --- Π-model ----------------------------------------------------------------------------------------------------------------


def gradient_of(loss: Tensor, network: nn.Module) -> Tensor:
    grads = torch.autograd.grad(loss, list(network.parameters()))
    return torch.cat([grad.flatten() for grad in grads])


@pytest.mark.parametrize("mode", ["joint", "separate"])
@pytest.mark.parametrize("both", [False, True])
def test_pi_model_step(both: bool, mode: str) -> None:
    network, data, method = linear(), batch("weak", "weak_2"), make("pi_model", both_branches=both)
    assert method.unlabeled_views == ("weak", "weak_2")
    at_full_weight(method)
    output = method.step(Forward(network, mode), data)  # type: ignore[arg-type]  # parametrised literal
    first, second = (network(data.unlabeled[view]).softmax(-1) for view in ("weak", "weak_2"))
    expected = F.cross_entropy(network(data.labeled["weak"]), data.labels)
    expected = expected + 10.0 * ((first if both else first.detach()) - second).square().mean()
    close(output.loss, float(expected.detach()))
    torch.testing.assert_close(gradient_of(output.loss, network), gradient_of(expected, network))


def test_pi_model_of_two_equal_views_is_supervised() -> None:
    network, data, method = linear(), batch("weak", "weak_2"), make("pi_model")
    at_full_weight(method)
    data.unlabeled["weak_2"] = data.unlabeled["weak"]
    output = method.step(Forward(network), data)
    close(output.unsupervised_loss, 0.0)


# --- temporal ensembling ----------------------------------------------------------------------------------------------------


def visit(method: TemporalEnsembling, probs: Tensor, index: Tensor) -> Output:
    return method.ensemble(STEP_1.labeled.log(), STEP_1.labels, probs.log(), index)


def test_visits_equal_the_papers_update_at_the_end_of_each_epoch() -> None:
    """Four epochs of six samples in shuffled batches of two."""
    samples, alpha = 6, 0.6
    method = temporal_ensembling(CLASSES, num_unlabeled=samples, total_steps=10, alpha=alpha, ramp=0.0)
    at_full_weight(method)
    ensemble, target = np.zeros((samples, CLASSES)), np.zeros((samples, CLASSES))
    for epoch in range(4):
        found = np.zeros((samples, CLASSES))
        for index in torch.randperm(samples).split(2):
            probs = torch.randn(2, CLASSES).softmax(-1)
            output = visit(method, probs, index)
            found[index] = probs.numpy()
            loss = 30.0 * np.mean((probs.numpy() - target[index]) ** 2) if epoch else 0.0
            close(output.unsupervised_loss, float(loss))
            close(output.pseudo.weights, [float(epoch > 0)] * 2)
            close(output.pseudo.confidence, probs.max(-1).values.tolist())
            labels = target[index].argmax(-1) if epoch else probs.numpy().argmax(-1)
            assert output.pseudo.labels.tolist() == labels.tolist()
        ensemble = alpha * ensemble + (1 - alpha) * found
        target = ensemble / (1 - alpha ** (epoch + 1))
    np.testing.assert_allclose(method.sums.rows.numpy(), ensemble, atol=1e-6)
    assert method.visits.rows.tolist() == [4] * samples
    assert method.visits.rows.dtype == torch.int64


def test_first_visits_have_no_loss_and_no_gradient() -> None:
    """A batch of seen and unseen samples is divided by its size, and the unseen ones train nothing."""
    method = temporal_ensembling(CLASSES, num_unlabeled=8, total_steps=10)
    at_full_weight(method)
    visit(method, STEP_1.weak[:2], torch.tensor([3, 5]))
    logits = STEP_2.weak.log().requires_grad_()
    output = method.ensemble(STEP_1.labeled.log(), STEP_1.labels, logits, torch.tensor([3, 0, 5, 1]))
    output.loss.backward()
    assert logits.grad[[1, 3]].abs().max() == 0.0
    assert logits.grad[[0, 2]].abs().min() > 0.0
    seen = [squared(STEP_1.weak[i : i + 1], STEP_2.weak[j : j + 1]) for i, j in ((0, 0), (1, 2))]
    close(output.unsupervised_loss, 30.0 * sum(seen) / 4)
    assert output.pseudo.weights.tolist() == [1.0, 0.0, 1.0, 0.0]


def test_of_a_sample_twice_in_a_batch_the_later_prediction_counts_as_one_visit() -> None:
    method = temporal_ensembling(CLASSES, num_unlabeled=4, total_steps=10)
    visit(method, STEP_1.weak, torch.tensor([2, 1, 2, 0]))
    close(method.sums.rows, (0.4 * torch.stack([STEP_1.weak[3], STEP_1.weak[1], STEP_1.weak[2], torch.zeros(3)])).tolist())
    assert method.visits.rows.tolist() == [1, 1, 1, 0]
    visit(method, STEP_2.weak, torch.tensor([2, 2, 1, 0]))
    close(method.sums.rows[2], (0.6 * 0.4 * STEP_1.weak[2] + 0.4 * STEP_2.weak[1]).tolist())
    assert method.visits.rows.tolist() == [2, 2, 2, 0]


def test_two_processes_remember_what_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """`gather` is played by one that knows the other process's share; a sample stands in both shares."""
    index, shares = torch.tensor([0, 1, 3, 1]), (slice(0, 2), slice(2, 4))
    whole, parts = make("temporal_ensembling"), [make("temporal_ensembling") for _ in shares]
    for step in (STEP_1, STEP_2):
        expected = visit(whole, step.weak, index).unsupervised_loss
        found = []
        monkeypatch.setattr(module, "gather", lambda value, weak=step.weak: index if value.dtype == torch.int64 else weak)
        for part, share in zip(parts, shares, strict=True):
            found.append(visit(part, step.weak[share], index[share]).unsupervised_loss)
        monkeypatch.undo()
        close(sum(found) / 2, float(expected))  # type: ignore[arg-type, operator]  # a consistency method always has this loss
    for part in parts:
        torch.testing.assert_close(part.state_dict(), whole.state_dict())


def test_temporal_ensembling_step_and_positions_outside_the_set() -> None:
    network, data, method = linear(), batch("weak", "weak_2"), make("temporal_ensembling")
    assert method.unlabeled_views == ("weak",)
    method.step(Forward(network), data)
    before = state(method)
    close(before["sums.values"][:6], (0.4 * network(data.unlabeled["weak"]).softmax(-1)).tolist())
    outside = Batch(data.labeled, data.labels, data.unlabeled, data.index + 5)
    with pytest.raises(InputError, match=r"index must lie in 0 … 7"):
        method.step(Forward(network), outside)
    assert_same_state(before, state(method))


@pytest.mark.parametrize("alpha", [0.0, 0.999])
def test_target_after_one_visit_is_that_prediction(alpha: float) -> None:
    method = temporal_ensembling(CLASSES, num_unlabeled=4, alpha=alpha)
    at_full_weight(method)
    visit(method, STEP_1.weak, torch.arange(4))
    close(visit(method, STEP_2.weak, torch.arange(4)).unsupervised_loss, 30.0 * squared(STEP_1.weak, STEP_2.weak))


# --- MeanTeacher ------------------------------------------------------------------------------------------------------------


def test_mean_teacher_step_trains_the_student_towards_the_average() -> None:
    network, data, method = linear(), batch("weak", "weak_2"), make("mean_teacher")
    average = averaged(network)
    assert method.unlabeled_views == ("weak", "weak_2")
    at_full_weight(method)
    output = method.step(Forward(network, average=average), data)
    teacher = average(data.unlabeled["weak"]).softmax(-1)
    distance = (network(data.unlabeled["weak_2"]).softmax(-1) - teacher).square().mean()
    expected = F.cross_entropy(network(data.labeled["weak"]), data.labels) + 50.0 * distance
    close(output.loss, float(expected.detach()))
    torch.testing.assert_close(gradient_of(output.loss, network), gradient_of(expected, network))
    assert output.pseudo.labels.tolist() == teacher.argmax(-1).tolist()


def test_the_consistency_alone_gives_the_student_a_gradient() -> None:
    network, data, method = linear(), batch("weak", "weak_2"), make("mean_teacher")
    at_full_weight(method)
    output = method.step(Forward(network, average=averaged(network)), data)
    supervised = F.cross_entropy(network(data.labeled["weak"]), data.labels)
    difference = gradient_of(output.loss, network) - gradient_of(supervised, network)
    assert float(difference.norm()) > 0.1


def test_the_teacher_normalises_with_its_batch() -> None:
    network, data, method = normalised(), batch("weak", "weak_2"), make("mean_teacher")
    average = averaged(network)
    average.eval()
    output = method.step(Forward(network, average=average), data)
    assert average.training is False
    with torch.no_grad():
        probs = copy.deepcopy(average).train()(data.unlabeled["weak"]).softmax(-1)
    close(output.pseudo.confidence, probs.max(-1).values.tolist())


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
    assert method.kinds == ("array", "image", "series", "vector")


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
