"""Traffic between processes, beside numbers computed by hand; benchmarks/plan.py compares it with two real processes."""

from __future__ import annotations

from typing import Any

import pytest

from softmatch.planning.networks import NetworkCost
from softmatch.planning.probe import Tally
from softmatch.planning.setting import Data
from softmatch.planning.traffic import Message, Traffic, count_traffic

COST = NetworkCost(100, 90, 400, 1.0, 2.0, 4.0, 4.0, 10, 20, (3, 5), 7)
DATA = Data("image", (1, 2, 2), 10, 50, 50, (1,) * 10, 5)


def tally(**values: Any) -> Tally:
    found = Tally(steps=2, normalised=2, normalised_back=2, **values)
    found.gathers[(6, 10, 10), 40] = 2
    found.announced[3] = 2
    return found


def traffic(processes: int, on_cpu: bool = True, micro_batch: int = 0, followed: int = 0, **values: Any) -> Traffic:
    return count_traffic(tally(**values), COST, DATA, processes, on_cpu, micro_batch, followed)


def test_one_process_sends_nothing() -> None:
    assert (traffic(1).sent, traffic(1).number, traffic(1).parts) == (0, 0, {})


@pytest.mark.parametrize(("processes", "sent"), [(2, 1000), (4, 1500), (64, 2000 * 63 / 64)])
def test_a_sum_goes_round_a_ring(processes: int, sent: float) -> None:
    assert Message("x", "sum", 1000).sent(processes) == sent


def test_what_is_gathered_goes_to_all_others() -> None:
    assert Message("x", "gather", 10, times=2.5).sent(5) == 4 * 25


def test_the_parts_of_a_step_are_those_of_the_code() -> None:
    found = traffic(2)
    assert found.parts == {
        "gradients": 4 * 90,
        "predictions and features": (3 + 5 + 5) * 40,
        "numbers of rows": 3 * 8,
        "batch statistics": 8 * (7 + 11) + 4 * (6 + 10),
        "whether to stop": 8,
    }
    assert found.number == 1 + 1 + 1 + 4 + 1
    assert found.sent == sum(found.parts.values())


def test_torchs_own_layer_on_a_gpu_sends_half_of_ours() -> None:
    assert traffic(2, on_cpu=False).parts["batch statistics"] == 4 * (7 + 11) + 4 * (6 + 10)


def test_passes_with_statistics_of_their_own_average_them_once_a_step() -> None:
    assert traffic(2, micro_batch=64).parts["batch statistics"] == 2 * 4 * (3 + 5)


def test_a_teacher_and_heads_send_their_gradients_too() -> None:
    assert traffic(2, followed=1000, heads=10).parts["gradients"] == 4 * 100 + 1000


def test_mixed_views_are_sent() -> None:
    found = tally()
    found.whole[10, 10] = 2
    found.whole[10, 3] = 2
    parts = count_traffic(found, COST, DATA, 2, True, 0).parts
    assert parts["views"] == (5 + 3) * 4 * 4
