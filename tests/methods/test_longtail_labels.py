"""DARP and CReST: refined predictions, generations and the labels they add."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from softmatch.errors import InputError
from softmatch.methods import Problem, build, crest, crest_plus, fixmatch, softmatch
from softmatch.methods.longtail_labels import choose, darp, drop_small, sampling_shares, solve
from softmatch.methods.match import Match
from softmatch.methods.match_variants import debiaspl
from softmatch.step import Seen
from softmatch.training.loop import Trainer
from tests.contracts.examples import assert_same_state, state
from tests.golden import CLASSES, STEP_1, STEP_2, close
from tests.methods.networks import trainer as make_trainer

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


COUNTS = (2, 16, 4)
PROBLEM = Problem(num_classes=CLASSES, num_unlabeled=9, class_counts=COUNTS, class_prior=(2 / 22, 16 / 22, 4 / 22))


def no_optimizer(module: nn.Module) -> torch.optim.Optimizer:
    raise AssertionError(f"{module} needs no optimiser")


def test_classes_are_ranked_by_their_labels_and_not_by_their_number() -> None:
    """Sorted 16, 4, 2: the largest class contributes (2/16)^⅓ = ½, the middle one (4/16)^⅓, the smallest all."""
    assert sampling_shares(COUNTS) == pytest.approx([1.0, 0.5, 0.25 ** (1 / 3)])
    assert sampling_shares((16, 4, 2)) == pytest.approx([0.5, 0.25 ** (1 / 3), 1.0])
    assert sampling_shares(COUNTS, alpha=1.0) == pytest.approx([1.0, 0.125, 0.25])
    assert sampling_shares(COUNTS, alpha=0.0) == [1.0, 1.0, 1.0]


def test_classes_of_equal_size_contribute_everything() -> None:
    assert sampling_shares([7] * 10) == [1.0] * 10


def test_a_class_without_labels_leaves_the_largest_one_out() -> None:
    assert sampling_shares([8, 1, 0]) == pytest.approx([0.0, 0.5, 1.0])


def test_the_most_confident_share_of_each_predicted_class_is_chosen() -> None:
    probs = torch.tensor(
        [
            [0.9, 0.1, 0.0],
            [0.6, 0.2, 0.2],
            [0.7, 0.2, 0.1],
            [0.8, 0.1, 0.1],
            [0.1, 0.5, 0.4],
            [0.0, 1.0, 0.0],
            [0.1, 0.7, 0.2],
            [0.3, 0.3, 0.4],
        ]
    )
    assert choose(probs, [0.5, 0.67, 1.0]).tolist() == [0, -1, -1, 0, -1, 1, 1, 2]
    assert choose(probs, [1.0, 1.0, 1.0]).tolist() == [0, 0, 0, 0, 1, 1, 1, 2]
    assert choose(probs, [0.0, 0.3, 0.99]).tolist() == [-1] * 8
    assert choose(probs[:4], [0.3, 1.0, 1.0]).tolist() == [0, -1, -1, -1]  # no sample of two classes: nothing of them


def test_a_generation_replaces_the_labels_of_the_one_before() -> None:
    method = build(crest, PROBLEM)
    added = method.added_labels()
    assert added.dtype == torch.int64
    assert added.tolist() == [-1] * 9
    first, second = torch.eye(3).repeat(3, 1), torch.eye(3)[torch.zeros(9, dtype=torch.int64)]
    method.next_generation(first)
    assert method.added_labels().tolist() == choose(first, method.shares).tolist()  # type: ignore[union-attr]  # not None
    method.next_generation(second)
    assert method.added_labels().tolist() == [0] * 9  # type: ignore[union-attr]  # not None
    assert method.statistics()["generation"] == 2
    assert method.statistics()["added_labels"].tolist() == [9, 0, 0]


def test_a_generation_begins_with_a_match_method_that_has_forgotten_and_keeps_what_was_added() -> None:
    method = crest(CLASSES, num_unlabeled=9, class_counts=COUNTS, base=softmatch(CLASSES))
    fresh = state(method.base)
    STEP_1.output(method.base)
    assert any(not torch.equal(value, fresh[name]) for name, value in method.base.state_dict().items())
    method.next_generation(torch.eye(3).repeat(3, 1))
    method.begin(nn.Identity(), no_optimizer)
    assert_same_state(fresh, state(method.base))
    assert int(method.generation) == 1
    assert int((method.added >= 0).sum()) == 3 + 1 + 1


def test_crest_plus_levels_its_target_from_generation_to_generation() -> None:
    method = build(crest_plus, PROBLEM, {"generations": 3})
    for power in (1.0, 0.75, 0.5):
        method.begin(nn.Identity(), no_optimizer)
        expected = [count**power for count in COUNTS]
        close(method.base.alignment.goal, [value / sum(expected) for value in expected])
        method.next_generation(torch.eye(3).repeat(3, 1))


def test_crest_plus_of_one_generation_aligns_to_the_prior_itself() -> None:
    method = crest_plus(
        CLASSES, num_unlabeled=9, class_counts=COUNTS, class_prior=[1, 1, 2], generations=1, base=fixmatch(CLASSES)
    )
    method.begin(nn.Identity(), no_optimizer)
    close(method.base.alignment.goal, [0.25, 0.25, 0.5])


def test_crest_plus_makes_labels_and_weights_of_aligned_predictions() -> None:
    """r = prior at first; s is the mean of the last batches, the queue being full of 1/C before them."""
    method = crest_plus(
        CLASSES, num_unlabeled=9, class_counts=COUNTS, total_steps=480, generations=6, base=fixmatch(CLASSES, threshold=0.6)
    )
    method.begin(nn.Identity(), no_optimizer)
    queue = [torch.full((3,), 1 / 3)] * 2
    for step in (STEP_1, STEP_2):
        queue = [*queue[1:], step.weak.mean(0)]
        pseudo = step.output(method.base).pseudo
        scaled = step.weak * torch.tensor([count / 22 for count in COUNTS]) / torch.stack(queue).mean(0)
        aligned = scaled / scaled.sum(-1, keepdim=True)
        assert torch.equal(pseudo.labels, aligned.argmax(-1))
        assert pseudo.weights.tolist() == (aligned.max(-1).values >= 0.6).float().tolist()


@pytest.mark.parametrize(("steps", "generations", "queue"), [(2**20, 6, 128), (1000, 2, 12), (1600, 3, 13), (40, 2, 1)])
def test_short_runs_have_fewer_generations_and_a_shorter_queue(steps: int, generations: int, queue: int) -> None:
    method = crest_plus(CLASSES, num_unlabeled=9, class_counts=COUNTS, total_steps=steps, base=fixmatch(CLASSES))
    assert method.generations == generations
    assert method.base.alignment.queue == queue
    plain = crest(CLASSES, num_unlabeled=9, class_counts=COUNTS, total_steps=steps, base=fixmatch(CLASSES))
    assert plain.generations == generations


def trainer(name: str) -> Trainer:
    """Twelve steps in three generations, on long-tailed digits."""
    tail = {"imbalance": 4.0, "largest_class_labels": 8, "largest_class_unlabeled": 20, "labeled_batch": 16}
    options = {"generations": 3, "base": "softmatch"}
    return make_trainer(f"softmatch.methods:{name}", steps=12, method_options=options, **tail)


def advance(run: Trainer, steps: int) -> Trainer:
    for _ in range(steps):
        run.advance()
    return run


@pytest.fixture(scope="module", params=["crest", "crest_plus"])
def whole(request: pytest.FixtureRequest) -> tuple[str, Trainer]:
    torch.manual_seed(0)
    return request.param, advance(trainer(request.param), 12)


def labelled(run: Trainer) -> int:
    return len(run.batches.roles["labeled"].labels)  # type: ignore[arg-type,union-attr]  # batches held in memory


def test_the_last_generation_had_the_labels_that_were_added(whole: tuple[str, Trainer]) -> None:
    name, uninterrupted = whole
    method = uninterrupted.method
    assert int(method.generation) == 2
    added = int((method.added >= 0).sum())
    assert 0 < added < len(method.added)
    assert labelled(uninterrupted) == labelled(trainer(name)) + added


def test_a_generation_starts_from_the_weights_of_no_other() -> None:
    run = advance(trainer("crest"), 4)
    first = trainer("crest").network.state_dict()
    run._between_steps()
    second = run.network.state_dict()
    assert not any(torch.equal(value, second[name]) for name, value in first.items() if value.dim() > 1)
    assert run.factor(4) == run.factor(0) == 1.0


def test_bases_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="another base"):
        make(debiaspl(CLASSES))
    for builder in (crest, crest_plus):
        with pytest.raises(InputError, match="is not one"):
            build(builder, PROBLEM, {"base": "supervised"})
