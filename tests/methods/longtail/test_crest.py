"""CReST: which samples are added, what a generation forgets, how CReST+ levels its target, and that a run goes on exactly."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from softmatch.errors import InputError
from softmatch.methods import Problem, build, fixmatch, softmatch
from softmatch.methods.longtail_labels import choose, crest, crest_plus, sampling_shares
from softmatch.training.loop import Trainer
from tests.contracts.examples import assert_same_state, state
from tests.golden import CLASSES, STEP_1, STEP_2, close
from tests.methods.networks import trainer as make_trainer

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


@pytest.mark.parametrize("builder", [crest, crest_plus])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"generations": 0}, "generations"),
        ({"alpha": -1.0}, "alpha"),
        ({"class_counts": None}, "give class_counts"),
        ({"class_counts": (1, 2)}, "3 numbers"),
        ({"class_counts": (0, 0, 0)}, "3 numbers"),
        ({"base": "supervised"}, "is not one"),
    ],
)
def test_options_that_make_no_sense_are_refused(builder: Any, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(builder, PROBLEM, options)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"final_power": 1.5}, "final_power"), ({"queue": 0}, "queue"), ({"class_prior": [1.0, 2.0]}, "class_prior")],
)
def test_options_of_the_alignment_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(crest_plus, PROBLEM, options)


def trainer(name: str) -> Trainer:
    """Twelve steps in three generations, on long-tailed digits."""
    tail = {"imbalance": 4.0, "largest_class_labels": 8, "largest_class_unlabeled": 20, "labeled_batch": 16}
    options = {"generations": 3, "base": "softmatch"}
    return make_trainer(f"softmatch.methods.longtail_labels:{name}", steps=12, method_options=options, **tail)


def advance(run: Trainer, steps: int) -> Trainer:
    for _ in range(steps):
        run.advance()
    return run


@pytest.fixture(scope="module", params=["crest", "crest_plus"])
def whole(request: pytest.FixtureRequest) -> tuple[str, Trainer]:
    torch.manual_seed(0)
    return request.param, advance(trainer(request.param), 12)


@pytest.mark.parametrize("stop", [3, 4, 5, 8, 10])
def test_a_run_goes_on_exactly_within_any_generation_and_between_two(whole: tuple[str, Trainer], stop: int) -> None:
    name, uninterrupted = whole
    saved = {key: value.clone() for key, value in advance(trainer(name), stop).state().items()}
    torch.manual_seed(99)  # a restarted process has another global state
    resumed = trainer(name)
    resumed.load_state(stop, saved)
    assert_same_state(advance(resumed, 12 - stop).state(), uninterrupted.state())


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
