"""DARP: the solver against loops and bisection, the conditions of its optimum, and when a method uses what it finds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from softmatch.errors import InputError
from softmatch.methods import Problem, build, fixmatch, softmatch
from softmatch.methods.longtail_labels import darp, drop_small, solve
from softmatch.methods.match import Match
from softmatch.methods.match_variants import debiaspl
from softmatch.step import Seen
from tests.golden import CLASSES, STEP_1, STEP_2, close

Numbers = NDArray[np.float64]
PRIOR = [0.5, 0.3, 0.2]


def predictions(samples: int = 60, classes: int = 4, sharpness: float = 2.0) -> Tensor:
    logits = torch.randn(samples, classes, dtype=torch.float64)
    logits[:, 0] += 1.0
    return torch.softmax(sharpness * logits, -1)


def counts_of(samples: int = 60, classes: int = 4) -> Tensor:
    falling = torch.tensor([3.0 ** (-c) for c in range(classes)], dtype=torch.float64)
    return samples * falling / falling.sum()


def dropped_by_loops(table: Numbers, counts: Numbers, alpha: float) -> Numbers:
    found = np.zeros_like(table)
    for label in range(table.shape[1]):
        kept = np.argsort(-table[:, label], kind="stable")[: int(alpha * counts[label])]
        found[kept, label] = table[kept, label] * (counts[label] + 1e-6) / (table[kept, label].sum() + 1e-6)
    found += 1e-6
    return found / found.sum(1, keepdims=True)


def solved_by_bisection(table: Numbers, counts: Numbers, rounds: int) -> Numbers:
    """Rows and columns in turn; the price of each class by bisection of its column sum, in plain exponentials."""
    entropy = -(table * np.log(table)).sum(1)
    price = np.zeros(len(counts))
    for _ in range(rounds):
        rows = 1.0 / (table * np.exp(-price * entropy[:, None])).sum(1)
        for label, wanted in enumerate(counts):
            low, high = -200.0, 200.0
            for _ in range(100):
                middle = (low + high) / 2
                total = (rows * table[:, label] * np.exp(-middle * entropy)).sum()
                low, high = (middle, high) if total > wanted else (low, middle)
            price[label] = (low + high) / 2
    found = table * np.exp(-price * entropy[:, None])
    return found / found.sum(1, keepdims=True)


@pytest.mark.parametrize("alpha", [0.5, 2.0, 100.0])
def test_small_entries_are_dropped_as_by_loops(alpha: float) -> None:
    table, counts = predictions(), counts_of()
    table[10:30] = 0.25  # samples never seen: ties, of which the first count
    expected = dropped_by_loops(table.numpy(), counts.numpy(), alpha)
    np.testing.assert_allclose(drop_small(table, counts, alpha).numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("rounds", [1, 2, 10])
def test_the_solution_is_that_of_bisection(rounds: int) -> None:
    table, counts = predictions(), counts_of()
    expected = solved_by_bisection(table.numpy(), counts.numpy(), rounds)
    np.testing.assert_allclose(solve(table, counts, rounds, 1e-9).numpy(), expected, atol=1e-9)
    loose = solve(table.float(), counts.float(), rounds).numpy()  # the tolerance is of ν before its last Newton step
    np.testing.assert_allclose(loose, expected, atol=2e-3)


@pytest.mark.parametrize(("samples", "classes"), [(60, 4), (200, 10)])
def test_rows_sum_to_one_and_columns_to_their_targets(samples: int, classes: int) -> None:
    table, counts = predictions(samples, classes), counts_of(samples, classes)
    found = solve(table, counts, rounds=200, tolerance=1e-9)
    torch.testing.assert_close(found.sum(1), torch.ones(samples, dtype=torch.float64))
    torch.testing.assert_close(found.sum(0), counts, rtol=1e-4, atol=0.0)
    ten = solve(table.float(), counts.float())
    torch.testing.assert_close(ten.sum(1), torch.ones(samples))
    before, after = (float((x.sum(0) - counts).abs().sum()) for x in (table, ten))
    assert after < 0.05 * before


def test_the_solution_is_optimal() -> None:
    """log(x/a)/h must be a number of the row plus a number of the column: the condition of Lagrange."""
    table, counts = predictions(), counts_of()
    found = solve(table, counts, rounds=200, tolerance=1e-9)
    entropy = torch.special.entr(table).sum(1, keepdim=True)
    slope = (found / table).log() / entropy
    rest = slope - slope.mean(0) - slope.mean(1, keepdim=True) + slope.mean()
    torch.testing.assert_close(rest, torch.zeros_like(rest), atol=1e-8, rtol=0.0)


def test_predictions_with_the_right_counts_stay_as_they_are() -> None:
    table = predictions()
    torch.testing.assert_close(solve(table, table.sum(0)), table)


def test_uncertain_samples_are_moved_and_certain_ones_are_not() -> None:
    table = torch.tensor([[0.999, 0.001]] * 5 + [[0.55, 0.45]] * 5)
    found = solve(table, torch.tensor([5.0, 5.0]))
    assert float(found[0, 0]) > 0.99
    assert float(found[9, 0]) < 0.05
    close(found.sum(0), [5.0, 5.0], tolerance=0.05)


@pytest.mark.parametrize("counts", [[60.0, 0.0, 0.0], [0.1, 0.1, 59.8]])
def test_targets_that_cannot_be_met_leave_rows_that_sum_to_one(counts: list[float]) -> None:
    certain = torch.zeros(60, 3)
    certain[:, 0] = 1.0
    found = solve(drop_small(certain, torch.tensor(counts)), torch.tensor(counts))
    assert bool(torch.isfinite(found).all())
    torch.testing.assert_close(found.sum(1), torch.ones(60))


def test_autocast_does_not_touch_the_solution() -> None:
    table, counts = predictions().float(), counts_of().float()
    expected = solve(drop_small(table, counts), counts)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(solve(drop_small(table, counts), counts), expected)


def make(base: Match | None = None, **options: object) -> Match:
    given = {"num_unlabeled": 8, "class_prior": PRIOR, "total_steps": 10, "every": 2, **options}
    return darp(CLASSES, base=fixmatch(CLASSES, threshold=0.5) if base is None else base, **given)  # type: ignore[arg-type]  # free options


def test_it_starts_after_the_warm_up_and_solves_every_few_updates() -> None:
    method, solved = make(warmup=0.3), []
    for step in range(8):
        index = (torch.arange(4) + step) % 8
        before = method.refinement.refined.rows.clone()
        output = (STEP_1, STEP_2)[step % 2].output(method, index)
        solved.append(not torch.equal(before, method.refinement.refined.rows))
        raw = (STEP_1, STEP_2)[step % 2].weak
        expected = raw if step < 3 else method.refinement.refined[index]
        assert torch.equal(output.pseudo.labels, expected.argmax(-1))
        torch.testing.assert_close(output.pseudo.confidence, raw.max(-1).values)  # of the network, as it predicts
        assert torch.equal(output.pseudo.labels, expected.argmax(-1))
    assert [step for step, new in enumerate(solved) if new] == [3, 5, 7]


def test_loss_mask_and_target_come_from_the_refined_rows() -> None:
    method, index = make(warmup=0.0), torch.tensor([5, 0, 2, 7])
    output = STEP_1.output(method, index)
    table = np.full((8, CLASSES), 1 / 3)
    table[index.numpy()] = STEP_1.weak.double().numpy()
    counts = 8 * np.array(PRIOR)
    rows = solved_by_bisection(dropped_by_loops(table, counts, 2.0), counts, 10)[index.numpy()]
    chosen = rows.max(1) >= 0.5
    assert chosen.tolist() != (STEP_1.weak.max(-1).values >= 0.5).tolist()
    losses = [-np.log(strong[row.argmax()]) for strong, row in zip(STEP_1.strong.double().numpy(), rows, strict=True)]
    assert output.pseudo.weights.tolist() == chosen.astype(float).tolist()
    close(output.unsupervised_loss, float((chosen * np.array(losses)).mean()), tolerance=1e-5)


def test_a_base_that_aligns_sees_refined_predictions_and_learns_from_raw_ones() -> None:
    method, plain = make(softmatch(CLASSES), warmup=0.0), softmatch(CLASSES)
    ours, theirs = STEP_1.output(method, torch.arange(4)).pseudo, STEP_1.output(plain).pseudo
    assert not torch.equal(ours.labels, theirs.labels)
    assert torch.equal(ours.confidence, theirs.confidence)
    for name in ("mean", "variance", "marginal"):
        assert torch.equal(method.statistics()[name], plain.statistics()[name])


def test_of_a_sample_twice_in_a_batch_the_later_prediction_counts() -> None:
    part = make().refinement
    part.update(Seen(STEP_1.weak, index=torch.tensor([3, 1, 3, 0])))
    close(part.predictions[torch.tensor([0, 1, 3, 2])], [*STEP_1.weak[[3, 1, 2]].tolist(), [1 / 3] * 3])


def test_what_other_processes_saw_is_refined_too() -> None:
    """`update` gets the gathered batch, `forward` the share of one process."""
    part = make(warmup=0.0).refinement
    part.update(Seen(torch.cat([STEP_1.weak, STEP_2.weak]), index=torch.arange(8)))
    expected = solve(drop_small(torch.cat([STEP_1.weak, STEP_2.weak]), part.counts), part.counts)
    torch.testing.assert_close(part(STEP_2.weak, torch.arange(4, 8)), expected[4:])
    close(part.statistics()["refined_marginal"], expected.mean(0).tolist())


def test_counts_are_the_prior_or_what_is_given_scaled_to_the_unlabelled_set() -> None:
    close(make().refinement.counts, [4.0, 2.4, 1.6])
    close(make(target_counts=[1, 1, 2]).refinement.counts, [2.0, 2.0, 4.0])


def test_it_is_built_around_any_match_method_of_the_problem() -> None:
    problem = Problem(num_classes=CLASSES, num_unlabeled=50, class_prior=tuple(PRIOR), total_steps=200)
    for base, kind in (("fixmatch", fixmatch), ("softmatch", softmatch)):
        method = build(darp, problem, {"base": base})
        assert type(method.weighting) is type(kind(CLASSES).weighting)
        assert (method.refinement.warmup, method.refinement.every, len(method.refinement.refined)) == (80, 10, 50)


REFUSED = {"warmup": 1.0, "every": 0, "rounds": 0, "alpha": 0.0, "tolerance": 0.0}
MESSAGES = {"target_counts": "3 numbers", "class_prior": "class_prior or target_counts", "base": "another base"}
OTHERS = [("target_counts", [1.0, 2.0]), ("target_counts", [1.0, -2.0, 3.0]), ("class_prior", None), ("base", debiaspl(CLASSES))]


@pytest.mark.parametrize(("option", "value"), [*REFUSED.items(), *OTHERS])
def test_options_that_make_no_sense_are_refused(option: str, value: object) -> None:
    with pytest.raises(InputError, match=MESSAGES.get(option, option)):
        make(**{option: value})


def test_without_the_position_of_a_sample_it_cannot_work() -> None:
    with pytest.raises(InputError, match="give `index`"):
        STEP_1.output(make())
