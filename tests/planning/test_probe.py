"""Which passes a method makes, found by running it."""

from __future__ import annotations

from typing import Any

from softmatch.planning.methods import planned_micro_batch, working_method
from softmatch.planning.probe import PHASES, Tally, probe
from softmatch.planning.setting import Own, own_setting

LABELED, UNLABELED, FEATURES = 6, 10, 5


def passes(method: str, statistics: str = "joint", device: str = "cuda", **options: Any) -> Tally:
    given = {"labeled_batch": LABELED, "unlabeled_batch": UNLABELED, "batch_statistics": statistics, "labels": 40, **options}
    own = Own("image", 1000, (3, 32, 32), 10, 5)
    setting = own_setting(own, ({**given, "method": method, "steps": 1000},), device, "settings")
    return probe(working_method(setting, method, FEATURES), setting, FEATURES, planned_micro_batch(setting))


def test_joint_statistics_are_one_pass_with_a_way_back_for_all() -> None:
    found = passes("softmatch")
    assert (found.steps, found.forward, found.forward_rows) == (1, 1, LABELED + 2 * UNLABELED)
    assert (found.backward, found.learned_rows) == (1, LABELED + 2 * UNLABELED)
    assert dict(found.gathers) == {((LABELED, UNLABELED, UNLABELED), 40): 1}
    assert dict(found.announced) == {3: 1}


def test_separate_statistics_spare_the_weak_views_the_way_back() -> None:
    found = passes("softmatch", "separate")
    assert (found.forward, found.forward_rows) == (3, LABELED + 2 * UNLABELED)
    assert (found.backward, found.learned_rows) == (2, LABELED + UNLABELED)
    assert (found.normalised, found.normalised_back) == (3, 2)


def test_a_cpu_takes_small_passes() -> None:
    found = passes("softmatch", "separate", "cpu", unlabeled_batch=100)
    assert (found.forward, found.backward) == (1 + 2 + 2, 1 + 2)


def test_labels_alone_are_one_pass() -> None:
    found = passes("supervised")
    assert (found.forward_rows, found.learned_rows) == (LABELED, LABELED)


def test_a_derivative_by_the_input_alone_is_told_from_one_by_the_weights() -> None:
    found = passes("vat", "separate")
    assert found.forward_rows == LABELED + 3 * UNLABELED
    assert found.backward_rows - found.learned_rows == UNLABELED
    assert found.learned_rows == LABELED + 2 * UNLABELED


def test_a_teacher_has_no_way_back() -> None:
    found = passes("mean_teacher", "separate")
    assert (found.forward_rows, found.backward_rows) == (LABELED + 2 * UNLABELED, LABELED + UNLABELED)


def test_methods_that_change_during_a_run_are_seen_at_several_moments() -> None:
    found = passes("meta_pseudo_labels")
    assert found.steps == PHASES
    assert found.followed == 1
    taught = PHASES - 1  # the last moment is in the part that is trained on labels alone
    assert found.learned_rows == taught * (LABELED + 2 * UNLABELED + LABELED + UNLABELED) + LABELED


def test_mixed_views_are_sent_whole_and_heads_are_counted() -> None:
    assert dict(passes("mixmatch").whole) == {(LABELED, LABELED): 1, (UNLABELED, UNLABELED): 2}
    assert passes("comatch").heads == FEATURES * FEATURES + FEATURES + FEATURES * 64 + 64
