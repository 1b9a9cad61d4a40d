"""A whole plan, its sums, the paper's own times and experiments, and steps that are timed here."""

import json
from dataclasses import replace
from typing import Any

import pytest

from softmatch.experiments.paper import EXPERIMENTS
from softmatch.planning.counts import count
from softmatch.planning.gpus import DEVICES, PAPER_RATE, Range
from softmatch.planning.plans import (
    ARITHMETIC,
    BASELINE,
    GRADIENTS,
    HOST,
    Plan,
    gpu_plan,
    is_experiment,
    measured_plan,
    plan_experiments,
    sum_up,
)
from softmatch.planning.setting import named_setting


def plan(source: str, gpus: int = 1, device: str = "v100", **options: Any) -> Plan:
    return gpu_plan(count(named_setting(source, (options,), "cuda", "settings"), gpus), DEVICES[device], gpus)


def test_the_papers_step_on_cifar10() -> None:
    found = plan("cifar10", recipe="paper", labels=40)
    counted = found.counted
    step = counted.step_flops(counted.passes)
    assert step == pytest.approx(960 * 3 * 428_706_304, rel=0.002)
    assert counted.epochs == 2**20 * 448 / 50_000
    assert counted.step_flops(counted.baseline) == pytest.approx(step / 15)
    assert found.seconds.low / 86_400 < 3 < found.seconds.high / 86_400  # the paper: around three days
    assert 2**20 * step / (3 * 86_400) == pytest.approx(PAPER_RATE, rel=0.005)  # the speed that is used


def test_more_gpus_share_arithmetic_and_sum_gradients() -> None:
    one, eight = plan("cifar10", recipe="paper"), plan("cifar10", gpus=8, recipe="paper")
    assert eight.parts[ARITHMETIC].low == pytest.approx(one.parts[ARITHMETIC].low / 8)
    sent = 2 * 7 / 8 * 4 * 1_469_642 / 150e9
    assert eight.parts[GRADIENTS].low == pytest.approx(2**20 * sent)
    assert eight.parts[GRADIENTS].high == pytest.approx(2**21 * sent)
    assert GRADIENTS not in one.parts
    assert eight.parts[HOST].high > one.parts.get(HOST, Range(0.0, 0.0)).high  # the host starts as many operations
    assert eight.gpu_hours.low > one.gpu_hours.low
    assert eight.seconds.low < one.seconds.low
    far = plan("cifar10", gpus=16, recipe="paper").parts[GRADIENTS]
    assert far.low > 20 * eight.parts[GRADIENTS].low  # by the network between machines


def test_a_quick_device_waits_for_its_host() -> None:
    found = plan("digits", device="h100")
    counted = found.counted
    operations = counted.step_operations(counted.passes)
    assert found.step.low == pytest.approx(1.1e-5 * operations)
    assert found.overhead.low > 0.5


def test_a_method_that_looks_at_all_samples_pays_for_it() -> None:
    found = plan("cifar10", method="adsh", recipe="paper").counted
    assert found.surveys == (2**20 - 1) // 112  # an epoch has 112 steps
    alone = replace(found, surveys=0)
    assert found.flops - alone.flops == pytest.approx(found.surveys * 50_000 * found.cost.forward)
    assert plan("cifar10", method="crest", recipe="paper").counted.surveys == 5


def test_figures_are_json() -> None:
    found = plan("two-moons", gpus=2).as_dict()
    json.dumps(found, allow_nan=False, default=lambda value: [value.low, value.high])
    assert found["flops_per_step"] > 0
    assert found["steps"] == 2000


def test_sums_over_methods_and_seeds() -> None:
    plans = [plan("two-moons"), plan("two-moons", method="fixmatch")]
    total = sum_up(plans, 3, 2.0)
    assert total.runs == 6
    assert total.gpu_hours.low == pytest.approx(3 * sum(each.gpu_hours.low for each in plans))
    assert total.price == Range(2 * total.gpu_hours.low, 2 * total.gpu_hours.high)
    assert sum_up(plans, 1, None).price is None


@pytest.mark.parametrize("gpus", [1, 8])
def test_a_baseline_costs_what_a_supervised_run_does(gpus: int) -> None:
    both, alone = (plan("cifar10", gpus=gpus, recipe="paper", method=method) for method in ("softmatch", "supervised"))
    steps = [part for name, part in alone.parts.items() if name != "evaluations"]
    assert both.parts[BASELINE].low == pytest.approx(sum(part.low for part in steps))
    assert both.parts[BASELINE].high == pytest.approx(sum(part.high for part in steps))


def test_features_are_paid_once_for_all_runs() -> None:
    encoder = "sentence-transformers/all-MiniLM-L6-v2"
    plans = [plan("agnews", encoder=encoder), plan("agnews", encoder=encoder, method="fixmatch")]
    features = plans[0].parts["features, once"] * (1 / 3600)
    everything = 3 * sum(each.gpu_hours.low for each in plans)
    assert features.low > 0
    assert sum_up(plans, 3, None).gpu_hours.low == pytest.approx(everything - 5 * features.low)


def test_work_that_grows_with_the_samples_is_said_to_be_left_out() -> None:
    assert "darp remembers every sample" in str(plan("cifar10", method="darp").left_out)
    assert plan("cifar10").left_out is None


def test_batches_of_similar_lengths_need_little_padding() -> None:
    """AG News has 52.7 tokens on average, and 92.1 in the longest of 16."""
    mixed, sorted_ = (plan("agnews", recipe="paper", length_buckets=buckets).counted for buckets in (1, 50))
    ratio = sorted_.step_flops(sorted_.passes) / mixed.step_flops(mixed.passes)
    assert ratio == pytest.approx((92.1 + 52.7) / 2 / 92.1, rel=0.01)
    assert sorted_.read == mixed.read  # which is by length in both
    assert mixed.read / mixed.cost.forward == pytest.approx(52.7 / 92.1, rel=0.02)


def test_an_experiment_is_the_sum_of_its_runs() -> None:
    assert is_experiment("paper")
    assert is_experiment("table-main")
    assert not is_experiment("cifar10")
    (found,) = plan_experiments("fig-two-moons", DEVICES["v100"])
    (sheet,) = EXPERIMENTS["fig-two-moons"].sheets["paper"]
    assert found.runs == len(sheet.runs())
    assert found.flops > 0
    assert 0 < found.gpu_hours.low < found.gpu_hours.high < 1


def test_steps_are_timed_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softmatch.training.bench.MATRIX", 128)
    setting = named_setting("two-moons", ({"method": "sla", "steps": 100},), "cpu", "settings")
    found = measured_plan(count(setting), "cpu")
    assert found.step.low == found.step.high > 0
    own = found.parts[ARITHMETIC].low + found.parts["views, loss, optimiser, records"].low
    assert own == pytest.approx(100 * found.step.low)
    assert found.parts[BASELINE].low > 0
    assert found.speed.startswith("Measured: ")
