"""Memory and files by part, beside numbers computed by hand and files that are really written."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from softmatch.files.tensors import write_checked
from softmatch.planning.costs import random_task
from softmatch.planning.counts import (
    KEPT,
    PATH,
    Counted,
    checkpoint_bytes,
    count,
    device_memory,
    host_memory,
    records,
    run_storage,
    shared_storage,
    split_bytes,
)
from softmatch.planning.setting import Own, named_setting, own_setting
from softmatch.runs.folder import RunFolder
from softmatch.training.setup import build_method, make_trainer


def counted(method: str = "softmatch", number: int = 1000, tested: int = 5, **options: Any) -> Counted:
    given = {"network": "small-conv-16", "labeled_batch": 8, "unlabeled_batch": 16, "steps": 50, "labels": 40}
    setting = own_setting(
        Own("image", number, (1, 8, 8), 10, tested), ({**given, "method": method, **options},), "cpu", "settings"
    )
    return count(setting)


def test_memory_by_hand() -> None:
    found = counted("comatch")
    cost, passes, parts = found.cost, found.passes, device_memory(found)
    assert parts["weights"] == cost.state + 4 * found.heads
    assert parts["gradients"] == parts["optimiser"] == 4 * (cost.trained + found.heads)
    assert parts["activations"] == cost.saved * passes.learned_rows / passes.steps
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
def test_records_of_a_run(steps: int, every: int | None, lines: int) -> None:
    assert records(named_setting("digits", ({"steps": steps, "evaluate_every": every},), "cuda", "")) == lines


@pytest.mark.parametrize(("source", "options"), [("digits", {}), ("svhn", {"labels": 1000}), ("cifar10", {"imbalance": 100})])
def test_a_split_is_as_large_as_it_is_written(source: str, options: dict[str, Any], tmp_path: Path) -> None:
    given = {**options, **({} if source == "digits" else {"recipe": "paper"})}
    found = count(named_setting(source, (given,), "cuda", "settings"))
    task = random_task(found.setting, (1, 8, 8) if source == "digits" else (3, 8, 8), "cpu", "small-conv-8")
    about = {"data": "0" * 64, "content": "0" * 64, "device": "cpu"}
    RunFolder(tmp_path).write_json("split.json", {**task.split.as_dict(), **about})
    assert split_bytes(found) == pytest.approx((tmp_path / "split.json").stat().st_size, rel=0.05)


@pytest.mark.parametrize("method", ["softmatch", "comatch", "temporal_ensembling", "meta_pseudo_labels"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_checkpoint_is_as_large_as_it_is_written(method: str, optimizer: str, tmp_path: Path) -> None:
    found = counted(method, optimizer=optimizer)
    task = random_task(found.setting, (1, 8, 8), "cpu")
    trainer = make_trainer(task, build_method(task, method))
    trainer.advance()
    write_checked(tmp_path / "state", trainer.state(), {})
    known = 200 + 50 * (2560 + 690)  # predictions and records, which a trainer has not
    assert checkpoint_bytes(found) == pytest.approx((tmp_path / "state").stat().st_size + known, rel=0.05)


def test_a_run_keeps_three_checkpoints_and_its_baseline_too() -> None:
    found = counted()
    assert run_storage(found)["checkpoints"] == KEPT * checkpoint_bytes(found)
    assert run_storage(found)["baseline"] > 0
    assert run_storage(counted(twin=False))["baseline"] == 0
    folds = counted(tested=0, labels=100)  # of which only the records stay
    assert (folds.folds, run_storage(folds)["baseline"]) == (3, 0)
    assert run_storage(folds)["records and report"] > run_storage(found)["records and report"]


def test_what_runs_share() -> None:
    assert shared_storage(named_setting("cifar10", ({},), "cuda", "")) == {"data": 60_000 * (3072 + 8)}
    assert shared_storage(named_setting("imagenet", ({},), "cuda", "")) == {"data": 144_300_000_000}
    news = shared_storage(named_setting("agnews", ({"recipe": "paper"},), "cuda", ""))
    assert news == {"texts": pytest.approx((120_000 + 2 * 110_000) * 52.7 * 4.5), "features": 0}
    frozen = named_setting("agnews", ({"encoder": "sentence-transformers/all-MiniLM-L6-v2"},), "cuda", "")
    assert shared_storage(frozen)["features"] == 127_600 * 384 * 4
