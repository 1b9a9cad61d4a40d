"""Networks counted without memory, beside known numbers; the state of methods, and their passes in real steps."""

from typing import Any

import pytest
import torch

from softmatch.errors import InputError
from softmatch.methods import METHODS
from softmatch.networks import build_network
from softmatch.planning.costs import (
    Data,
    NetworkCost,
    Passes,
    Setting,
    count_passes,
    own_setting,
    planned_method,
    planned_network,
    probe_task,
    state_bytes,
)
from softmatch.planning.plans import Counted, count
from softmatch.training.setup import build_method


def cost_of(name: str, shape: tuple[int, ...], classes: int) -> NetworkCost:
    return planned_network(name, shape, classes)[1]


def test_a_perceptron_is_counted_as_by_hand() -> None:
    cost = cost_of("mlp-4", (3,), 2)
    weights = 3 * 4 + 4 * 4 + 4 * 2
    assert cost.parameters == weights + 4 + 4 + 2
    assert cost.state == 4 * cost.parameters
    assert cost.forward == 2 * weights
    # Backward: by the weights of all three layers, by the inputs of the last two.
    assert cost.backward == 2 * weights + 2 * (4 * 4 + 4 * 2)
    # Kept: the input, and what the two hidden layers make.
    assert cost.saved == 4 * (3 + 4 + 4)
    assert cost.features == 4


def test_the_papers_network_is_counted() -> None:
    cost = cost_of("wrn-28-2", (3, 32, 32), 10)
    assert cost.parameters == sum(parameter.numel() for parameter in build_network("wrn-28-2", (3, 32, 32), 10).parameters())
    assert cost.parameters == 1_469_642
    # By hand: a 3×3 convolution of 16·2^s·2 channels has 9·1024·32² products in every stage, seven of them and a half.
    stage, first = 9 * 32 * 32 * 1024, 9 * 16 * 32 * 1024
    shortcuts = 16 * 32 * 1024 + 32 * 64 * 256 + 64 * 128 * 64
    stem, head = 9 * 3 * 16 * 1024, 128 * 10
    halves = 2 * (9 * 32 * 64 * 256)
    assert cost.forward == 2 * (7 * stage + first + 2 * 7 * stage + halves + shortcuts + stem + head)
    assert cost.backward == pytest.approx(2 * cost.forward, rel=0.003)


def test_a_network_for_imagenet_has_its_known_size() -> None:
    cost = cost_of("resnet-50", (3, 224, 224), 1000)
    assert cost.parameters == 25_557_032
    assert cost.forward == pytest.approx(2 * 4.09e9, rel=0.001)


def test_what_is_kept_for_the_backward_pass_is_what_torch_keeps() -> None:
    network, kept = build_network("small-conv-8", (1, 8, 8), 10).train(), dict[int, torch.Tensor]()

    def keep(value: torch.Tensor) -> torch.Tensor:
        kept[value.untyped_storage().data_ptr()] = value
        return value

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        network(torch.randn(16, 1, 8, 8))
    own = {value.untyped_storage().data_ptr() for value in (*network.parameters(), *network.buffers())}
    real = sum(value.untyped_storage().nbytes() for place, value in kept.items() if place not in own)
    planned = cost_of("small-conv-8", (1, 8, 8), 10).saved
    assert planned * 16 == pytest.approx(real, rel=0.02)  # batch statistics are kept once, not for each image


def test_items_that_a_network_cannot_take_are_refused() -> None:
    with pytest.raises(InputError, match="The network small-conv cannot be planned for items of 3×2×2"):
        planned_network("small-conv", (3, 2, 2), 10)


LABELED, UNLABELED, FEATURES = 6, 10, 5
SAMPLES = 15_000
"""Enough for every registry to be made without memory."""


def setting(method: str, number: int = SAMPLES, device: str = "cuda", **options: Any) -> Setting:
    given = {"method": method, "labels": 40, "steps": 1000, "network": "small-conv-8", **options}
    return own_setting(Data("image", (3, 8, 8), 10, number, number, 5), device, given)


@pytest.mark.parametrize("name", METHODS)
def test_the_planned_state_is_the_real_one(name: str) -> None:
    task = probe_task(setting(name), FEATURES)
    real = sum(value.nbytes for value in build_method(task, name).state_dict().values())
    assert state_bytes(planned_method(task, SAMPLES)) == real


def counted(method: str, number: int) -> Counted:
    return count(setting(method, number, labels=100, evaluation="none"))


def test_methods_remember_what_they_say_of_a_billion_samples() -> None:
    flexmatch, darp = counted("flexmatch", 10**9), counted("darp", 10**9)
    assert (flexmatch.state_per_sample, flexmatch.state) == (4, 4 * (10**9 + 1) + 128)
    assert darp.state_per_sample == 2 * 10 * 4
    assert counted("softmatch", 10**9).state == counted("softmatch", 10**4).state == 184


def test_a_teacher_is_part_of_the_state() -> None:
    found = counted("meta_pseudo_labels", 10**4)
    assert found.state_trained == 4 * found.cost.parameters


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
    assert (found.forward, found.forward_rows) == (1, LABELED + 2 * UNLABELED)
    assert found.backward_rows == found.learned_rows == LABELED + 2 * UNLABELED
    assert (found.samples, found.views) == (LABELED + UNLABELED, LABELED + 2 * UNLABELED)


def test_separate_statistics_spare_the_weak_views_the_way_back() -> None:
    found = passes("softmatch", "separate")
    assert (found.forward, found.forward_rows) == (3, LABELED + 2 * UNLABELED)
    assert found.backward_rows == found.learned_rows == LABELED + UNLABELED


def test_a_cpu_takes_small_passes() -> None:
    assert passes("softmatch", "separate", "cpu", unlabeled_batch=100).forward == 1 + 2 + 2


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
    taught = 0.9  # the last of ten moments is in the part that is trained on labels alone
    assert found.learned_rows == pytest.approx(taught * (LABELED + 2 * UNLABELED + LABELED + UNLABELED) + 0.1 * LABELED)
