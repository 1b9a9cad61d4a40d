"""The state of methods, built without memory, and their passes, counted in real steps."""

from typing import Any

import pytest

from softmatch.errors import InputError
from softmatch.methods import METHODS
from softmatch.planning.counts import Counted, count
from softmatch.planning.method_costs import PHASES, Passes, count_passes, planned_method, probe_task, state_bytes
from softmatch.planning.setting import Own, Setting, own_setting
from softmatch.training.setup import build_method

LABELED, UNLABELED, FEATURES = 6, 10, 5
SAMPLES = 15_000
"""Enough for every registry to be made without memory."""


def setting(method: str, number: int = SAMPLES, device: str = "cuda", **options: Any) -> Setting:
    given = {"method": method, "labels": 40, "steps": 1000, "network": "small-conv-8", **options}
    return own_setting(Own("image", number, (3, 8, 8), 10, 5), (given,), device, "settings")


@pytest.mark.parametrize("name", METHODS)
def test_the_planned_state_is_the_real_one(name: str) -> None:
    task = probe_task(setting(name), FEATURES)
    real = sum(value.nbytes for value in build_method(task, name).state_dict().values())
    assert state_bytes(planned_method(task, "image", SAMPLES)) == real


def counted(method: str, number: int) -> Counted:
    return count(setting(method, number, labels=100, evaluation="none"))


def test_methods_remember_what_they_say_of_a_billion_samples() -> None:
    flexmatch, darp = counted("flexmatch", 10**9), counted("darp", 10**9)
    assert (flexmatch.state_per_sample, flexmatch.state) == (4, 4 * (10**9 + 1) + 128)
    assert darp.state_per_sample == 2 * 10 * 4
    assert counted("softmatch", 10**9).state == counted("softmatch", 10**4).state == 184


def test_a_teacher_is_part_of_the_state() -> None:
    found = counted("meta_pseudo_labels", 10**4)
    assert found.state_trained == 4 * found.cost.trained


def test_methods_that_cannot_serve_are_refused() -> None:
    with pytest.raises(InputError, match="--labeled-batch 40 has no row for each of 64 processes"):
        count(setting("softmatch"), processes=64)
    with pytest.raises(InputError, match=r"there is no method 'softmach'. Did you mean 'softmatch'"):
        count(setting("softmach"))


def passes(method: str, statistics: str = "joint", device: str = "cuda", **options: Any) -> Passes:
    given = {"labeled_batch": LABELED, "unlabeled_batch": UNLABELED, "batch_statistics": statistics, **options}
    return count_passes(probe_task(setting(method, 1000, device, **given), FEATURES), method)


def test_joint_statistics_are_one_pass_with_a_way_back_for_all() -> None:
    found = passes("softmatch")
    assert (found.steps, found.forward, found.forward_rows) == (1, 1, LABELED + 2 * UNLABELED)
    assert (found.backward, found.learned_rows) == (1, LABELED + 2 * UNLABELED)
    assert (found.samples, found.views) == (LABELED + UNLABELED, LABELED + 2 * UNLABELED)


def test_separate_statistics_spare_the_weak_views_the_way_back() -> None:
    found = passes("softmatch", "separate")
    assert (found.forward, found.forward_rows) == (3, LABELED + 2 * UNLABELED)
    assert (found.backward, found.learned_rows) == (2, LABELED + UNLABELED)


def test_a_cpu_takes_small_passes() -> None:
    found = passes("softmatch", "separate", "cpu", unlabeled_batch=100)
    assert (found.forward, found.backward) == (1 + 2 + 2, 1 + 2)


def test_labels_alone_are_one_pass() -> None:
    found = passes("supervised")
    assert (found.forward_rows, found.learned_rows, found.samples) == (LABELED, LABELED, LABELED)


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
    taught = PHASES - 1  # the last moment is in the part that is trained on labels alone
    assert found.learned_rows == taught * (LABELED + 2 * UNLABELED + LABELED + UNLABELED) + LABELED


def test_most_operations_make_strong_views() -> None:
    weak, strong = passes("supervised"), passes("softmatch")
    assert strong.view_operations > 5 * weak.view_operations > 0
    assert strong.operations > strong.view_operations
