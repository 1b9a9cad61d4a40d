"""Sinkhorn label allocation: the plan against an independent solver, its sums, targets and weights, and the state."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from softmatch.errors import InputError
from softmatch.methods import Problem, build
from softmatch.methods.sinkhorn import LabelAllocation, sla, solve_columns, upper_bounds
from softmatch.step import Seen
from tests.contracts.examples import assert_same_state, state
from tests.golden import CLASSES, STEP_1, STEP_2, close

INDEX = torch.tensor([4, 0, 7, 2])
SIZE = 10

Array = NDArray[np.float64]


def log_sum_exp(values: Array, axis: int) -> Array:
    top = values.max(axis, keepdims=True)
    return np.squeeze(top, axis) + np.log(np.exp(values - top).sum(axis))


def solve_in_numpy(scores: Array, columns: Array, slack: float, iterations: int) -> tuple[Array, Array]:
    """u and v by the two alternating updates in the logarithmic domain, in float64."""
    u, v = np.zeros(len(scores)), np.zeros(len(columns))
    for _ in range(iterations):
        v = np.log(columns) - log_sum_exp(scores + u[:, None], 0)
        v -= v[:-1].mean()
        u = -log_sum_exp(scores + v, 1)
        u[-1] += math.log(slack)
    return u, v


def example(size: int = 40, regularization: float = 5.0) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, column sums and slack sum of a share 0.6 of samples to classes of half, a third and a sixth."""
    cost = -torch.log_softmax(2.0 * torch.randn(size, CLASSES), dim=-1)
    weighting = LabelAllocation(size, [1 / 2, 1 / 3, 1 / 6], total_steps=10, regularization=regularization)
    weighting.share.updates.fill_(6)
    return F.pad(-regularization * cost, (0, 1, 0, 1)), *weighting.sums()


@pytest.mark.parametrize("start", [0.0, 3.0])
def test_solution_is_that_of_an_independent_solver(start: float) -> None:
    scores, columns, slack = example()
    first = torch.tensor([start, -start, 0.0, start])
    found, error = solve_columns(scores, first, columns, slack, 1e-7, 5000)
    u, v = solve_in_numpy(scores.double().numpy(), columns.double().numpy(), float(slack), 3000)
    close(found, v.tolist(), tolerance=1e-4)
    close(found[:-1].mean(), 0.0)
    plan = np.exp(scores.double().numpy() + u[:, None] + v)
    np.testing.assert_allclose(plan.sum(0), columns.numpy(), rtol=1e-6)
    np.testing.assert_allclose(plan.sum(1), [1.0] * 40 + [float(slack)], rtol=1e-6)
    ours = torch.softmax(scores + found, dim=-1)
    ours[-1] *= slack
    np.testing.assert_allclose(ours.numpy(), plan, atol=2e-4)
    assert float(error) < 1e-5


def test_one_iteration_is_one_round_of_the_two_updates() -> None:
    """From the u that belongs to v: first v from u, then u from v."""
    scores, columns, slack = example()
    first = torch.tensor([0.5, -0.25, -0.25, 1.0])
    found, error = solve_columns(scores, first, columns, slack, 1e-9, 1)
    matrix = scores.double().numpy()
    u = -log_sum_exp(matrix + first.double().numpy(), 1)
    u[-1] += math.log(float(slack))
    v = np.log(columns.double().numpy()) - log_sum_exp(matrix + u[:, None], 0)
    v -= v[:-1].mean()
    close(found, v.tolist(), tolerance=1e-5)
    u = -log_sum_exp(matrix + v, 1)
    u[-1] += math.log(float(slack))
    sums = np.exp(matrix + u[:, None] + v).sum(0)
    goal = columns.double().numpy()
    close(error, float(np.abs(sums - goal).sum() / goal.sum()), tolerance=1e-5)


def test_solver_stops_at_the_tolerance() -> None:
    scores, columns, slack = example()
    zero = torch.zeros(CLASSES + 1)
    errors = [float(solve_columns(scores, zero, columns, slack, 1e-9, n)[1]) for n in (1, 2, 3, 4, 5)]
    assert errors == sorted(errors, reverse=True)
    tolerance = (errors[2] + errors[3]) / 2
    assert float(solve_columns(scores, zero, columns, slack, tolerance, 100)[1]) == errors[3]


def test_solver_recovers_from_a_column_without_any_mass() -> None:
    """exp(−500) is 0 in float32: the column's potential must climb all the same."""
    scores, columns, slack = example()
    start = torch.tensor([-500.0, 0.0, 0.0, 0.0])
    found, _ = solve_columns(scores, start, columns, slack, 1e-6, 5000)
    expected, _ = solve_columns(scores, torch.zeros(CLASSES + 1), columns, slack, 1e-6, 5000)
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("bounds", "columns", "slack"),
    [
        ([0.5, 0.3, 0.2], [6.0, 4.0, 3.0, 1 + 10 * 0.8], 1 + 3 + 10 * 0.8),
        ([0.4, 0.2, 0.1], [5.0, 3.0, 2.0, 1 + 10 * (0.8 + 0.3)], 1 + 3 + 10 * 0.8),
        ([0.6, 0.5, 0.4], [7.0, 6.0, 5.0, 1 + 10 * 0.8], 1 + 3 + 10 * (0.8 + 0.5)),
    ],
    ids=["exact", "spare-places-nowhere", "upper-bounds"],
)
def test_sums_of_rows_and_columns(bounds: list[float], columns: list[float], slack: float) -> None:
    """After the first of five steps a fifth of the samples is to be labelled."""
    weighting = LabelAllocation(SIZE, bounds, total_steps=5)
    weighting.update(STEP_1.seen(INDEX))
    found = weighting.sums()
    close(found[0], columns, tolerance=1e-5)
    close(found[1], slack, tolerance=1e-5)
    close(found[0].sum(), float(SIZE + found[1]), tolerance=1e-4)


def test_share_grows_to_one() -> None:
    weighting, found = LabelAllocation(SIZE, [1 / 3] * 3, total_steps=4), []
    for _ in range(5):
        weighting.update(STEP_1.seen(INDEX))
        found.append(float(weighting.statistics()["share"]))
    assert found == [0.25, 0.5, 0.75, 1.0, 1.0]


def test_first_targets_compete_with_no_label_at_equal_potentials() -> None:
    """v = 0: λ·target_c = p_c^γ / (1 + Σ p^γ)."""
    method = sla(CLASSES, num_unlabeled=SIZE, regularization=2.0)
    output = STEP_1.output(method, INDEX)
    rows = (STEP_1.weak**2) / (1.0 + (STEP_1.weak**2).sum(-1, keepdim=True))
    close(output.pseudo.weights, rows.sum(-1).tolist())
    close(output.unsupervised_loss, float(-(rows * STEP_1.strong.log()).sum(-1).mean()))
    close(output.supervised_loss, 0.510826)
    close(output.loss, 0.510826 + float(-(rows * STEP_1.strong.log()).sum(-1).mean()))
    assert output.pseudo.labels.tolist() == [0, 0, 1, 0]
    close(output.pseudo.confidence, [0.90, 0.55, 0.80, 0.42])


def test_targets_use_the_potentials_of_the_step_before() -> None:
    method = sla(CLASSES, num_unlabeled=SIZE, total_steps=4, class_prior=[0.5, 0.25, 0.25])
    STEP_1.output(method, INDEX)
    v = method.weighting.potential.clone()
    assert float(v.abs().max()) > 1.0
    output = STEP_2.output(method, INDEX)
    assert not torch.equal(v, method.weighting.potential)
    logits = torch.cat([v[:-1] + 100.0 * STEP_2.weak.log(), v[-1].expand(4, 1)], dim=1)
    rows = torch.softmax(logits.double(), dim=-1)[:, :-1]
    close(output.pseudo.weights, rows.sum(-1).tolist(), tolerance=1e-5)
    close(output.unsupervised_loss, float(-(rows * STEP_2.strong.log()).sum(-1).mean()), tolerance=1e-5)
    assert output.pseudo.labels.tolist() == rows.argmax(-1).tolist()


def test_evaluation_uses_the_newest_potentials_and_changes_nothing() -> None:
    method = sla(CLASSES, num_unlabeled=SIZE, total_steps=4, regularization=5.0)
    STEP_1.output(method, INDEX)
    before = state(method)
    output = STEP_1.output(method.eval(), INDEX)
    v = method.weighting.potential
    rows = torch.softmax(torch.cat([v[:-1] + 5.0 * STEP_1.weak.log(), v[-1].expand(4, 1)], dim=1), dim=-1)[:, :-1]
    close(output.pseudo.weights, rows.sum(-1).tolist())
    assert_same_state(before, state(method))


def test_costs_are_replaced_by_index_and_the_rest_is_uniform() -> None:
    weighting = LabelAllocation(SIZE, [1 / 3] * 3)
    weighting.update(STEP_1.seen(torch.tensor([4, 0, 4, 2])))
    cost = weighting.cost.rows
    torch.testing.assert_close(cost[4], -STEP_1.weak[2].log())  # of the sample twice in the batch the later counts
    torch.testing.assert_close(cost[0], -STEP_1.weak[1].log())
    torch.testing.assert_close(cost[2], -STEP_1.weak[3].log())
    rest = cost[[1, 3, 5, 6, 7, 8, 9]]
    torch.testing.assert_close(rest, torch.full_like(rest, math.log(3)))


def test_what_is_allocated_is_the_share_in_the_proportions_of_the_prior() -> None:
    """Predictions favour class 0; its places are limited all the same, and the surest samples come first."""
    size, prior = 200, [0.2, 0.5, 0.3]
    probs = torch.softmax(torch.randn(size, CLASSES) + torch.tensor([2.0, 0.0, 0.0]), dim=-1)
    weighting = LabelAllocation(size, prior, total_steps=2, regularization=20.0, tolerance=1e-4, max_iterations=2000)
    weighting.update(Seen(probs, index=torch.arange(size)))
    weighting.eval()
    mass = weighting(probs)
    plan = mass[:, None] * weighting.target(probs)
    assert 0.5 - 2 / size <= float(mass.mean()) <= 0.5 + 4 / size
    assert bool((plan.sum(0) <= 1.0 + size * torch.tensor(prior) + 0.1).all())
    assert float(plan.sum(0)[0]) > 30.0
    for label in range(CLASSES):
        chosen = (plan.argmax(-1) == label) & (mass > 0.9)
        if bool(chosen.any()):
            left = (weighting.target(probs).argmax(-1) == label) & (mass < 0.1)
            assert float(probs[chosen, label].min()) >= float(probs[left, label].max() if bool(left.any()) else 0.0) - 1e-6


def test_cap_on_iterations_leaves_the_rest_to_the_next_step() -> None:
    method = sla(CLASSES, num_unlabeled=SIZE, total_steps=4, max_iterations=1)
    STEP_1.output(method, INDEX)
    first = float(method.statistics()["error"])
    assert first >= 0.01
    converged = sla(CLASSES, num_unlabeled=SIZE, total_steps=4, max_iterations=5000)
    STEP_1.output(converged, INDEX)
    assert float(converged.statistics()["error"]) < 0.01


def test_gradient_reaches_strong_and_labelled_logits_alone() -> None:
    labeled, weak, strong = (torch.randn(4, CLASSES, requires_grad=True) for _ in range(3))
    method = sla(CLASSES, num_unlabeled=SIZE, regularization=1.0)
    method(labeled, torch.tensor([0, 1, 2, 0]), weak, strong, INDEX).backward()
    for value in (labeled, strong):
        assert float(value.grad.abs().sum()) > 0.0
    assert weak.grad is None
    assert all(not buffer.requires_grad for buffer in method.buffers())


def test_predictions_of_zero_and_one_stay_finite() -> None:
    method = sla(2, num_unlabeled=4, total_steps=2)
    weak = torch.tensor([[200.0, -200.0], [200.0, -200.0], [-200.0, 200.0], [0.0, 0.0]])
    for _ in range(2):
        output = method.compute(torch.zeros(2, 2), torch.tensor([0, 1]), weak, torch.zeros(4, 2), torch.arange(4))
        assert bool(torch.isfinite(output.loss))
    assert all(bool(torch.isfinite(value).all()) for value in method.state_dict().values())


def test_wilson_upper_bounds() -> None:
    """10 of 100 and 90 of 100 at 95 %: the textbook intervals end at 0.17437 and 0.94477."""
    close(torch.tensor(upper_bounds([10, 90], 0.95)), [0.17437, 0.94477], tolerance=1e-5)
    close(torch.tensor(upper_bounds([0, 4], 0.95)), [0.48989, 1.0], tolerance=1e-5)
    method = sla(2, num_unlabeled=4, class_counts=[10, 90], bounds="wilson")
    close(method.weighting.bounds, [0.17437, 0.94477], tolerance=1e-5)


def test_builder_takes_the_problem() -> None:
    problem = Problem(num_classes=2, num_unlabeled=7, class_counts=(3, 1), class_prior=(0.75, 0.25), total_steps=9)
    method = build(sla, problem)
    weighting = method.weighting
    close(weighting.bounds, [0.75, 0.25])
    assert (len(weighting.cost), weighting.share.steps) == (7, 9)
    close(sla(4, num_unlabeled=7).weighting.bounds, [0.25] * 4)


def test_wilson_bounds_need_counts() -> None:
    with pytest.raises(InputError, match="class_counts"):
        sla(CLASSES, num_unlabeled=SIZE, bounds="wilson")
