"""The measured step is the real step: its parts, its arithmetic, its estimate of a run."""

import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from softmatch.distributed.devices import has_bf16_units
from softmatch.errors import InputError
from softmatch.training import bench as benching
from softmatch.training.bench import PARTS, Stopwatch, bench, matmul_flops, measure, plan, plan_length
from softmatch.training.opening import open_job
from tests.own.sources import blobs
from tests.prepared import small_task, trainer_of

SMALL: dict[str, Any] = {"network": "wrn-10-1", "labeled_batch": 4, "unlabeled_batch": 6, "threads": 1}


def small_bench(**options: Any) -> Any:
    return bench({**SMALL, **options}, side=16, channels=3, classes=3, images=40, repeats=2)


def test_bench_reports_every_part() -> None:
    setting, measurement = small_bench()
    found = measurement.as_dict()
    assert set(PARTS) <= set(found["parts"])
    assert all(seconds >= 0 for seconds in found["parts"].values())
    assert sum(found["parts"].values()) <= 2.5 * found["seconds_per_step"]
    assert setting["network"] == "wrn-10-1"
    assert found["images_per_second"] == pytest.approx((4 + 2 * 6) / found["seconds_per_step"])
    assert found["peak_memory_bytes"] >= found["memory_before_bytes"] > 0
    assert found["matmul_gflops"] > 0
    json.dumps([setting, found])


def test_arithmetic_is_counted_forward_and_backward() -> None:
    joint, separate = (small_bench(batch_statistics=mode).measurement.flops for mode in ("joint", "separate"))
    supervised = small_bench(method="supervised").measurement.flops
    assert joint / supervised == pytest.approx(16 / 4, rel=1e-6)
    assert separate / supervised == pytest.approx((10 + 6 / 3) / 4, rel=0.03), "weak views have no backward pass"
    assert small_bench(batch_statistics="separate", micro_batch=2).measurement.flops == separate


def test_views_that_a_teacher_sees_are_counted() -> None:
    found = {teacher: small_bench(teacher=teacher).measurement.images for teacher in ("network", "average")}
    assert found == {"network": 4 + 2 * 6, "average": 4 + 2 * 6}


@pytest.mark.parametrize("wrong", [{"side": 0}, {"channels": 2}, {"classes": 1}, {"images": 0}, {"repeats": 0}])
def test_impossible_benches(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match="bench needs"):
        bench(SMALL, **{"side": 8, "channels": 3, "classes": 3, "images": 40, "repeats": 1, **wrong})


def test_measuring_trains() -> None:
    task = small_task("digits", steps=9, unlabeled_batch=16)
    trainer, plain = trainer_of(task), trainer_of(task)
    found = measure(trainer, steps=3)
    for _ in range(4):  # one to warm up, three measured
        plain.advance()
    assert len(found.step) == 3
    assert trainer.step == 4
    for ours, theirs in zip(trainer.network.parameters(), plain.network.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_plan_adds_up() -> None:
    job = open_job("digits", {"steps": 50, "unlabeled_batch": 16})
    found = plan(job, steps=2)
    assert found.baseline is not None
    assert found.evaluations == 50
    expected = 50 * (found.step + found.baseline) + 2 * 50 * found.evaluation[0]
    assert found.evaluation[0] == found.evaluation[1], "all 539 samples each time"
    assert found.seconds == pytest.approx(expected)
    alone = plan(replace(job, config=job.config.model_copy(update={"baseline": False})), steps=2)
    assert alone.baseline is None


def test_a_plan_counts_the_folds(tmp_path: Path) -> None:
    job = open_job(blobs(tmp_path / "t.csv"), {"steps": 10, "folds": 3})
    found = plan(job, steps=2)
    assert found.baseline is not None
    expected = 10 * (4 * found.step + 3 * found.baseline) + 6 * found.evaluations * found.evaluation[0]
    assert found.seconds == pytest.approx(expected)


@pytest.mark.parametrize(("precision", "kind"), [("float32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_the_matrix_product_is_in_the_precision_of_the_step(
    precision: str, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.dtype] = []
    monkeypatch.setattr(benching, "MATRIX", 64)
    monkeypatch.setattr(torch, "mm", lambda a, b: seen.extend((a.dtype, b.dtype)))
    assert small_bench(precision=precision).measurement.peak_flops > 0
    assert set(seen) == {kind}


def test_the_matrix_product_is_counted_right() -> None:
    assert matmul_flops(torch.device("cpu"), repeats=1) > 1e8


def test_arithmetic_per_unlabeled_image() -> None:
    found = small_bench().measurement
    assert found.as_dict()["gflop_per_unlabeled_image"] == pytest.approx(found.flops / 6e9)
    assert small_bench(method="supervised").measurement.as_dict()["gflop_per_unlabeled_image"] is None


def test_the_step_of_the_sprint() -> None:
    setting, measurement = small_bench(recipe="sprint", network="shallow-2")
    assert (setting["recipe"], setting["network"]) == ("sprint", "shallow-2")
    assert setting["precision"] == ("bf16" if has_bf16_units(torch.device("cpu")) else "float32")
    assert measurement.images == 4 + 6 + 3  # labelled, weak, and half of the strong views
    assert bench({"recipe": "sprint", "network": "shallow-1"}, 8, 1, 2, 40, 1).setting["unlabeled_batch"] == 256


def test_few_images_are_enough_and_settings_without_meaning_are_refused() -> None:
    assert bench(SMALL, side=8, channels=1, classes=2, images=1, repeats=1).measurement.images == 16
    for key, value in (("recipe", "paper"), ("imbalance", 10), ("data", "x.npz")):
        with pytest.raises(InputError, match=f"no use for {key}"):
            bench({**SMALL, key: value}, side=8, channels=3, classes=2, images=20, repeats=1)
    with pytest.raises(InputError, match="do not fit into memory"):
        bench(SMALL, side=200_000, channels=3, classes=2, images=1000, repeats=1)


def test_the_time_of_a_nested_part_is_counted_once() -> None:
    watch, started = Stopwatch(torch.device("cpu")), time.perf_counter()
    with watch("outer"):
        time.sleep(0.02)
        for _ in range(2):
            with watch("inner"):
                time.sleep(0.02)
        with watch("other"), watch("inner"):
            time.sleep(0.01)
    total = time.perf_counter() - started
    assert set(watch.seconds) == {"outer", "inner", "other"}
    assert 0.07 < sum(watch.seconds.values()) <= total
    assert watch.seconds["inner"] >= 0.05
    assert watch.seconds["outer"] >= 0.02
    assert watch.seconds["other"] < watch.seconds["inner"]


def test_a_part_that_fails_is_closed() -> None:
    watch = Stopwatch(torch.device("cpu"))
    with pytest.raises(KeyError), watch("outer"), watch("inner"):
        raise KeyError
    with watch("outer"):
        pass
    assert set(watch.seconds) == {"outer", "inner"}


def test_a_length_leaves_time_for_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    job = open_job("digits", {"minutes": 10.0})
    settings = SimpleNamespace(config=SimpleNamespace(steps=10**9))
    found = SimpleNamespace(step_seconds=0.25, evaluation_seconds=(2.0, 20.0), encoding_seconds=0.0, task=settings)
    monkeypatch.setattr(benching, "plan", lambda *_: found)
    steps = (410 - 9 * 2 - 20) * 4 - 1
    assert plan_length(job, 410.0) == {"steps": steps, "evaluate_every": -(-steps // 10)}, (
        "nine evaluations and a longer last one"
    )
    settings.config.steps = 100
    assert plan_length(job, 410.0)["steps"] == 100, "no more than the settings have"
    found.evaluation_seconds = (0.0, 0.0)
    assert plan_length(job, 0.1) == {"steps": 1, "evaluate_every": 1}


def test_a_plan_of_minutes_takes_about_as_long() -> None:
    found = plan(open_job("digits", {"minutes": 0.05, "network": "mlp", "unlabeled_batch": 16, "threads": 1}), steps=2)
    assert found.task.config.minutes is None
    assert found.task.config.steps > 1
    assert 0.3 < found.seconds < 30.0, "three seconds, on a machine that may be busy"
