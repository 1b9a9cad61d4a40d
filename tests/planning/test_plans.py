"""Memory and files by hand and beside real files; plans, their sums, the paper's times and experiments, steps timed here."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from softmatch.errors import InputError
from softmatch.experiments.paper import EXPERIMENTS
from softmatch.files.tensors import write_checked
from softmatch.planning.costs import Data, named_setting, own_setting, random_job
from softmatch.planning.gpus import DEVICES, PAPER_RATE, Range
from softmatch.planning.plans import (
    HOST,
    KEPT,
    PATH,
    Counted,
    checkpoint_bytes,
    count,
    device_memory,
    gpu_plan,
    host_memory,
    measured_plan,
    plan_experiments,
    run_storage,
    sum_up,
)
from softmatch.training.setup import build_method, make_trainer, prepare_job


def counted(method: str = "softmatch", number: int = 1000, tested: int = 5, **options: Any) -> Counted:
    given = {"network": "small-conv-16", "labeled_batch": 8, "unlabeled_batch": 16, "steps": 50, "labels": 40}
    data = Data("image", (1, 8, 8), 10, number, number, tested)
    return count(own_setting(data, "cpu", given, {"method": method, **options}))


def test_memory_by_hand() -> None:
    found = counted("comatch")
    cost, passes, parts = found.cost, found.passes, device_memory(found)
    assert parts["weights"] == cost.state + 4 * found.heads
    assert parts["gradients"] == parts["optimiser"] == 4 * (cost.parameters + found.heads)
    assert parts["activations"] == cost.saved * passes.learned_rows
    assert parts["work on the largest layer"] == 5 * cost.largest * passes.forward_rows / passes.forward
    assert parts["views of the batch"] == passes.views * 4 * 64
    assert parts["data"] == 1000 * 64 + 8 * 1000 + 40 * 64
    assert parts["the method's state"] == found.state
    assert found.heads > 0


def test_optimiser_statistics_and_precision_change_what_is_held() -> None:
    one = device_memory(counted())
    assert device_memory(counted(optimizer="adamw"))["optimiser"] == 2 * one["optimiser"]
    joint = device_memory(counted(batch_statistics="joint"))
    assert joint["views of the batch"] == 2 * one["views of the batch"]
    half = device_memory(counted(precision="bf16"))
    assert (half["activations"], half["weights"]) == (one["activations"] / 2, one["weights"])


def test_the_passes_of_a_sprint_are_counted_in_float32_unless_told_otherwise() -> None:
    plain, muon = counted(), counted(optimizer="muon", teacher="average")
    assert muon.passes == plain.passes
    assert {plan.setting.config.precision for plan in (plain, muon)} == {"float32"}
    assert named_setting("cifar10", "cuda", {"recipe": "sprint"}).config.precision == "float32"
    assert counted(precision="bf16").setting.config.precision == "bf16"


def test_several_processes_share_batches_and_nothing_else() -> None:
    one, four = device_memory(counted()), device_memory(counted(), 4)
    for name in ("activations", "views of the batch", "work on the largest layer"):
        assert four[name] == one[name] / 4
    for name in ("weights", "optimiser", "averaged weights", "data", "the method's state"):
        assert four[name] == one[name]
    assert four["gradients"] == 2 * one["gradients"]  # once more, as one message


def test_files_are_paths_on_the_host() -> None:
    found = counted()
    assert host_memory(found) == {"shuffles and positions": 24 * 1000, "labels": 8 * 1000, "data": 64_000}
    files = replace(found, setting=found.setting._replace(data=replace(found.setting.data, files=1)))
    assert host_memory(files)["paths of files"] == PATH * 1000


@pytest.mark.parametrize(("steps", "every", "lines"), [(1000, None, 40), (1001, None, 41), (10, None, 10), (100, 30, 4)])
def test_evaluations_of_a_run(steps: int, every: int | None, lines: int) -> None:
    found = count(named_setting("two-moons", "cuda", {"steps": steps, "evaluate_every": every, "baseline": False}))
    assert found.predicted == lines * 1000


@pytest.mark.parametrize("method", ["softmatch", "comatch", "temporal_ensembling", "meta_pseudo_labels"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_checkpoint_is_as_large_as_it_is_written(method: str, optimizer: str, tmp_path: Path) -> None:
    found = counted(method, optimizer=optimizer)
    task = prepare_job(random_job(found.setting, (1, 8, 8), "cpu"))
    trainer = make_trainer(task, build_method(task, method))
    trainer.advance()
    write_checked(tmp_path / "state", trainer.state(), {})
    assert checkpoint_bytes(found) == pytest.approx((tmp_path / "state").stat().st_size, rel=0.05)


def test_a_run_keeps_three_checkpoints_and_its_baseline_too() -> None:
    found = counted()
    assert run_storage(found)["checkpoints"] == KEPT * checkpoint_bytes(found)
    assert run_storage(found)["baseline"] > 0
    assert run_storage(counted(twin=False))["baseline"] == 0
    assert run_storage(count(named_setting("digits", "cpu")))["split.json"] == pytest.approx(13_796, rel=0.08)  # as written
    folds = counted(tested=0, labels=100)  # of which only the records stay
    assert (folds.folds, run_storage(folds)["baseline"]) == (3, 0)


def plan(source: str, gpus: int = 1, device: str = "v100", **options: Any) -> dict[str, Any]:
    return gpu_plan(count(named_setting(source, "cuda", options), gpus), DEVICES[device], gpus)


def test_the_papers_step_on_cifar10() -> None:
    found = plan("cifar10", recipe="paper", labels=40)
    step = found["flops_per_step"]
    assert step == pytest.approx(960 * 3 * 428_706_304, rel=0.002)
    assert found["epochs"] == 2**20 * 448 / 50_000
    assert found["seconds"].low / 86_400 < 3 < found["seconds"].high / 86_400  # the paper: around three days
    assert 2**20 * step / (3 * 86_400) == pytest.approx(PAPER_RATE, rel=0.005)  # the speed that is used


def test_more_gpus_share_arithmetic_but_wait_for_their_host() -> None:
    one, eight, many = (plan("cifar10", gpus=gpus, recipe="paper")["step_seconds"] for gpus in (1, 8, 64))
    assert eight.low == pytest.approx(one.low / 8)
    assert eight.high == many.high == HOST.high
    assert plan("digits", device="h100")["step_seconds"] == HOST


def test_a_method_that_looks_at_all_samples_pays_for_it() -> None:
    found = count(named_setting("cifar10", "cuda", {"method": "adsh", "recipe": "paper"}))
    assert found.surveys == (2**20 - 1) // 112  # an epoch has 112 steps
    alone = replace(found, surveys=0)
    assert found.flops - alone.flops == pytest.approx(found.surveys * 50_000 * found.cost.forward)
    assert count(named_setting("cifar10", "cuda", {"method": "crest", "recipe": "paper"})).surveys == 5


def test_sums_over_methods_and_seeds() -> None:
    plans = [plan("two-moons"), plan("two-moons", method="fixmatch")]
    total = sum_up(plans, 3, 2.0)
    assert total["runs"] == 6
    assert total["gpu_hours"].low == pytest.approx(3 * sum(each["gpu_hours"].low for each in plans))
    assert total["price"] == Range(2 * total["gpu_hours"].low, 2 * total["gpu_hours"].high)
    assert sum_up(plans)["price"] is None


def test_a_baseline_costs_what_a_supervised_run_does() -> None:
    both, alone = (plan("cifar10", recipe="paper", method=method) for method in ("softmatch", "supervised"))
    assert both["seconds_by_part"]["the supervised baseline"] == alone["seconds_by_part"]["steps"]


def test_work_that_grows_with_the_samples_is_said_to_be_left_out() -> None:
    assert "grows with the unlabelled set is left out" in plan("cifar10", method="darp")["speed"]
    assert "left out" not in plan("cifar10")["speed"]


def test_the_size_of_the_data_is_that_of_their_files() -> None:
    assert plan("cifar10")["data_bytes"] == 60_000 * (3072 + 8)
    assert plan("imagenet")["data_bytes"] == 144_300_000_000


def test_an_experiment_is_the_sum_of_its_runs() -> None:
    (found,) = plan_experiments("fig-two-moons", DEVICES["v100"])
    (sheet,) = EXPERIMENTS["fig-two-moons"].sheets["paper"]
    assert found["runs"] == len(sheet.runs())
    assert found["flops"] > 0
    assert 0 < found["gpu_hours"].low < found["gpu_hours"].high < 1


def test_all_experiments_leave_out_those_on_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("fig-two-moons", "table-text", "fig-functions")
    monkeypatch.setattr("softmatch.planning.plans.EXPERIMENTS", {name: EXPERIMENTS[name] for name in names})
    assert [row["name"] for row in plan_experiments("paper", DEVICES["v100"])] == ["fig-two-moons", "all"]
    with pytest.raises(InputError, match="A plan of texts"):
        plan_experiments("table-text", DEVICES["v100"])
    with pytest.raises(InputError, match="fig-functions is drawn without training anything"):
        plan_experiments("fig-functions", DEVICES["v100"])


def test_steps_are_timed_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softmatch.training.bench.MATRIX", 128)
    found = measured_plan(count(named_setting("two-moons", "cpu", {"method": "sla", "steps": 100})), "cpu")
    assert found["step_seconds"].low == found["step_seconds"].high > 0
    assert found["seconds_by_part"]["steps"].low == pytest.approx(100 * found["step_seconds"].low)
    assert found["seconds_by_part"]["the supervised baseline"].low > 0
    assert found["speed"].startswith("Measured: ")
