"""How the error is measured: nothing that is held out is trained on, whatever the labels look like."""

import pytest
import torch

from softmatch.data.evaluation import FEWEST, HOLD_OUT_FROM, plan_evaluation
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
