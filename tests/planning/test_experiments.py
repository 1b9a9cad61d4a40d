"""The paper's experiments in GPU-hours."""

from __future__ import annotations

import pytest

from softmatch.experiments.paper import EXPERIMENTS
from softmatch.planning.devices import DEVICES
from softmatch.planning.experiments import is_experiment, plan_experiments


def test_names_of_experiments_are_known() -> None:
    assert is_experiment("paper")
    assert is_experiment("table-main")
    assert not is_experiment("cifar10")
    assert not is_experiment(None)


def test_an_experiment_is_the_sum_of_its_runs() -> None:
    (found,) = plan_experiments("fig-two-moons", DEVICES["v100"])
    (sheet,) = EXPERIMENTS["fig-two-moons"].sheets["paper"]
    assert found.runs == len(sheet.runs())
    assert found.flops > 0
    assert 0 < found.gpu_hours.low < found.gpu_hours.high < 1
    assert found.as_dict()["runs"] == found.runs


def test_tables_of_one_network_are_proportional_to_their_runs() -> None:
    (momentum,) = plan_experiments("ablate-momentum", DEVICES["v100"])
    (alignment,) = plan_experiments("fig-ua", DEVICES["v100"])
    assert momentum.flops / momentum.runs == pytest.approx(alignment.flops / alignment.runs)
