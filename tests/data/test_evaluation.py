"""How the error is measured: nothing that is held out is trained on, whatever the labels look like."""

from dataclasses import replace

import pytest
import torch

from softmatch.data.evaluation import FEWEST, HOLD_OUT_FROM, hold_out, plan_evaluation
from softmatch.data.examples import Examples
from softmatch.errors import InputError


def _examples(labels: list[int], classes: int = 3, test: bool = False) -> Examples:
    items = torch.arange(float(len(labels)))[:, None]
    names = tuple(map(str, range(classes)))
    tests = Examples(items[:2], torch.tensor([0, 1]), names, "vector") if test else None
    return Examples(items, torch.tensor(labels), names, "vector", test=tests)


def _own(examples: Examples) -> torch.Tensor:
    return torch.arange(len(examples))


def test_cross_fit_leaves_out_each_labelled_sample_once() -> None:
    examples = _examples([0, 1, 2] * 10 + [-1] * 50)
    found = plan_evaluation(examples, _own(examples), seed=0, folds=5)
    assert found.kind == "crossfit"
    assert len(found.folds) == 5
    assert torch.cat([fold.test for fold in found.folds]).sort().values.tolist() == list(range(30))
    assert found.final.labeled.tolist() == list(range(30))
    assert len(found.final.unlabeled) == 80
    assert len(found.final.test) == 0
    for fold in found.folds:
        assert not set(fold.test.tolist()) & set(fold.labeled.tolist())
        assert not set(fold.test.tolist()) & set(fold.unlabeled.tolist())
        assert len(fold.unlabeled) == 80 - len(fold.test)
        assert set(examples.labels[fold.labeled].tolist()) == {0, 1, 2}
        assert torch.bincount(examples.labels[fold.test]).tolist() == [2, 2, 2]


def test_copies_of_a_held_out_sample_are_not_trained_on() -> None:
    examples = _examples([0, 1, 2] * 10 + [-1] * 30)
    groups = torch.cat([torch.arange(30), torch.arange(30)])  # each labelled sample has an unlabelled copy
    for fold in plan_evaluation(examples, groups, seed=0).folds:
        held_out = set(fold.test.tolist())
        assert not {position + 30 for position in held_out} & set(fold.unlabeled.tolist())


def test_labelled_copies_are_held_out_together() -> None:
    examples = _examples(([0] * 2 + [1] * 2) * 10, classes=2)
    groups = torch.arange(40) // 2 * 2
    for fold in plan_evaluation(examples, groups, seed=3).folds:
        members = set(fold.test.tolist())
        assert all((position ^ 1) in members for position in members)


def test_a_class_with_one_label_is_kept_for_training_and_said_to_be_untested() -> None:
    examples = _examples([0] * 15 + [1] * 15 + [2] + [-1] * 10)
    found = plan_evaluation(examples, _own(examples), seed=0)
    assert found.reason is not None
    assert "1 of 3 classes have no sample to spare" in found.reason
    for fold in found.folds:
        assert 30 in fold.labeled
        assert 30 not in fold.test


def test_a_class_with_two_labels_never_loses_both() -> None:
    examples = _examples([0] * 15 + [1] * 15 + [2, 2])
    for seed in range(10):
        for fold in plan_evaluation(examples, _own(examples), seed=seed, folds=20).folds:
            assert 2 in examples.labels[fold.labeled]


def test_too_few_labels_are_not_measured_unless_asked() -> None:
    examples = _examples([0, 1] * 4 + [-1] * 20, classes=2)
    found = plan_evaluation(examples, _own(examples), seed=0)
    assert found.kind == "none"
    assert found.reason is not None
    assert "8 labelled samples are too few" in found.reason
    assert len(found.final.labeled) == 8
    assert plan_evaluation(examples, _own(examples), seed=0, how="crossfit").kind == "crossfit"


def test_one_label_of_each_class_cannot_be_measured_even_if_asked() -> None:
    examples = _examples([0, 1, 2] + [-1] * 20)
    found = plan_evaluation(examples, _own(examples), seed=0, how="crossfit")
    assert found.kind == "none"
    assert "single labelled sample" in str(found.reason)


def test_many_labels_are_held_out_by_class() -> None:
    examples = _examples([0, 1] * (HOLD_OUT_FROM // 2) + [-1] * 7, classes=2)
    found = plan_evaluation(examples, _own(examples), seed=0, test_fraction=0.2)
    assert found.kind == "holdout"
    assert torch.bincount(examples.labels[found.final.test]).tolist() == [HOLD_OUT_FROM // 10] * 2
    assert not set(found.final.test.tolist()) & set(found.final.unlabeled.tolist())


@pytest.mark.parametrize(("share", "held_out"), [(0.15, 150), (0.3, 300), (0.45, 450), (0.9, 900)])
def test_as_many_are_held_out_as_asked_for(share: float, held_out: int) -> None:
    examples = _examples([0, 1] * 500 + [-1] * 7, classes=2)
    assert len(plan_evaluation(examples, _own(examples), seed=0, how="holdout", test_fraction=share).final.test) == held_out


def test_held_out_samples_take_their_copies_along() -> None:
    examples = _examples(([0] * 2 + [1] * 2) * 300 + [-1] * 100, classes=2)
    groups = torch.cat([torch.arange(1200) // 2 * 2, torch.arange(100) * 2])
    final = plan_evaluation(examples, groups, seed=0).final
    assert len(final.test) == 240
    assert not set(groups[final.test].tolist()) & set(groups[final.unlabeled].tolist())


def test_copies_with_another_label_never_empty_a_class() -> None:
    labels, groups = [0] * 15 + [1] * 15 + [2, 2], list(range(32))
    groups[30], groups[31] = 0, 5  # both samples of the last class are copies of the first one's
    examples = _examples(labels)
    for seed in range(30):
        for fold in plan_evaluation(examples, torch.tensor(groups), seed=seed, folds=3).folds:
            assert set(examples.labels[fold.labeled].tolist()) == {0, 1, 2}


def test_hold_out_of_few_labels_is_refused() -> None:
    examples = _examples([0, 1] * (FEWEST - 1), classes=2)
    with pytest.raises(InputError, match="crossfit"):
        plan_evaluation(examples, _own(examples), seed=0, how="holdout")


def test_a_test_set_leaves_all_labels_to_training_and_none_is_none() -> None:
    examples = _examples([0, 1, 2] * 10, test=True)
    found = plan_evaluation(examples, _own(examples), seed=0)
    assert (found.kind, len(found.final.labeled)) == ("test", 30)
    assert plan_evaluation(_examples([0, 1, 2] * 10), _own(examples), seed=0, how="none").kind == "none"


def test_the_seed_decides() -> None:
    examples = _examples([0, 1, 2] * 10)
    one, two, other = (plan_evaluation(examples, _own(examples), seed=seed).folds[0].test.tolist() for seed in (1, 1, 2))
    assert one == two != other


def _chosen(examples: Examples, chosen: list[int]) -> Examples:
    mask = torch.zeros(len(examples), dtype=torch.bool)
    mask[chosen] = True
    return replace(examples, chosen=mask)


def test_chosen_labels_train_but_are_not_measured() -> None:
    examples = _chosen(_examples([0, 1, 2] * 20 + [-1] * 40), list(range(30)))
    found = plan_evaluation(examples, _own(examples), seed=0, folds=5)
    assert (found.kind, found.measured_on) == ("crossfit", "random")
    assert torch.cat([fold.test for fold in found.folds]).sort().values.tolist() == list(range(30, 60))
    assert found.final.labeled.tolist() == list(range(60))
    for fold in found.folds:
        assert set(range(30)) <= set(fold.labeled.tolist())


def test_a_single_random_label_of_a_class_is_measured_where_a_chosen_one_trains() -> None:
    examples = _chosen(_examples([0] * 15 + [1] * 15 + [2, 2] + [-1] * 9), [31])
    found = plan_evaluation(examples, _own(examples), seed=0)
    assert found.reason is None
    assert 30 in torch.cat([fold.test for fold in found.folds]).tolist()


def test_copies_of_a_measured_label_are_not_trained_on_even_if_they_were_chosen() -> None:
    examples = _chosen(_examples([0, 1] * 30, classes=2), list(range(30)))
    groups = torch.cat([torch.arange(30), torch.arange(30)])  # each random label has a chosen copy
    found = plan_evaluation(examples, groups, seed=0)
    for fold in found.folds:
        assert all(position >= 30 and position - 30 not in fold.labeled.tolist() for position in fold.test.tolist())


@pytest.mark.parametrize(("random", "measured_on", "samples"), [(FEWEST - 1, "chosen", 60), (FEWEST, "random", FEWEST)])
def test_too_few_random_labels(random: int, measured_on: str, samples: int) -> None:
    examples = _chosen(_examples([0, 1, 2] * 20 + [-1] * 40), list(range(random, 60)))
    found = plan_evaluation(examples, _own(examples), seed=0)
    assert (found.measured_on, sum(len(fold.test) for fold in found.folds)) == (measured_on, samples)


def test_random_labels_that_cannot_be_spared_do_not_count() -> None:
    """One of 20 is the only label of its class: 19 would be left to measure on."""
    examples = _chosen(_examples([0] * 40 + [1] * 19 + [2]), list(range(40)))
    assert plan_evaluation(examples, _own(examples), seed=0).measured_on == "chosen"


def test_labels_are_chosen_only_where_they_are_labels() -> None:
    examples = _chosen(_examples([0, 1, 2] * 20 + [-1] * 40), [70, 80])
    assert plan_evaluation(examples, _own(examples), seed=0).measured_on == "all"
    with_test = replace(_chosen(_examples([0, 1, 2] * 20, test=True), list(range(60))))
    assert plan_evaluation(with_test, _own(with_test), seed=0).measured_on == "all"


def test_random_labels_are_held_out_of_many() -> None:
    labels = [0, 1, 2] * (HOLD_OUT_FROM // 2)
    few = _chosen(_examples(labels), list(range(100, len(labels))))
    assert plan_evaluation(few, _own(few), seed=0).kind == "crossfit"  # a fifth of 100 would be too few
    many = _chosen(_examples(labels), list(range(400)))
    found = plan_evaluation(many, _own(many), seed=0)
    assert (found.kind, found.measured_on) == ("holdout", "random")
    assert min(found.final.test.tolist()) >= 400
    assert len(found.final.test) == pytest.approx(0.2 * (len(labels) - 400), abs=2)
    assert set(range(400)) <= set(found.final.labeled.tolist())
    every = torch.ones(len(labels), dtype=torch.bool)
    assert hold_out(many.labels, _own(many), 0.2, 0, every).tolist() == hold_out(many.labels, _own(many), 0.2, 0).tolist()
