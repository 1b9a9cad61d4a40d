"""Files of a run, beside files that are really written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from softmatch.config import Config
from softmatch.data import Split
from softmatch.files.tensors import write_checked
from softmatch.planning.measured import random_task
from softmatch.planning.plans import count
from softmatch.planning.setting import Data, Own, named_setting, own_setting
from softmatch.planning.storage import (
    KEPT,
    checkpoint_bytes,
    mean_digits,
    metrics_bytes,
    records,
    run_storage,
    shared_storage,
    split_bytes,
)
from softmatch.runs.folder import RunFolder
from softmatch.training.setup import build_method, make_trainer


@pytest.mark.parametrize("number", [1, 10, 11, 999, 54_321])
def test_the_mean_number_of_digits(number: int) -> None:
    assert mean_digits(number) == pytest.approx(sum(len(str(position)) for position in range(number)) / number)


@pytest.mark.parametrize(("steps", "every", "lines"), [(1000, None, 40), (1001, None, 41), (10, None, 10), (100, 30, 4)])
def test_records_of_a_run(steps: int, every: int | None, lines: int) -> None:
    assert records(Config(steps=steps, evaluate_every=every)) == lines


@pytest.mark.parametrize(("number", "whole"), [(2000, True), (150_000, True), (2000, False)])
def test_a_split_is_as_large_as_it_is_written(number: int, whole: bool, tmp_path: Path) -> None:
    drawn = torch.randperm(number, generator=torch.Generator().manual_seed(0))
    pool = torch.arange(number) if whole else drawn[: number // 2].sort().values
    data = Data("image", (1, 8, 8), 10, number, len(pool), (20,) * 10, 0, whole=whole)
    split = Split(drawn[:200].sort().values, pool, pool[:0], seed=0)
    RunFolder(tmp_path).write_json("split.json", {**split.as_dict(), "data": "0" * 64, "content": "0" * 64, "device": "cpu"})
    assert split_bytes(data) == pytest.approx((tmp_path / "split.json").stat().st_size, rel=0.05)


@pytest.mark.parametrize("method", ["softmatch", "comatch", "temporal_ensembling", "meta_pseudo_labels"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_checkpoint_is_as_large_as_it_is_written(method: str, optimizer: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"model": "small-conv-16", "optimizer": optimizer, "labeled_batch": 8, "unlabeled_batch": 16}
    own = Own("image", 1000, (1, 8, 8), 10, 5)
    setting = own_setting(own, ({**options, "method": method, "steps": 50, "labels": 40},), "cpu", "settings")
    task = random_task(setting, "cpu")
    trainer = make_trainer(task, build_method(task, method))
    trainer.advance()
    write_checked(tmp_path / "state", trainer.state(), {})
    counted = count(setting)
    planned = checkpoint_bytes(setting, counted.cost, counted.tally, counted.state, counted.tensors)
    remembered = sum(value.nbytes for value in trainer.method.state_dict().values())
    known = 200 + metrics_bytes(setting.config, 10, counted.tally)  # predictions and records, which a trainer has not
    real = (tmp_path / "state").stat().st_size - remembered + counted.state.saved + known
    assert planned == pytest.approx(real, rel=0.05)


def test_a_run_keeps_three_checkpoints_and_its_twin_too() -> None:
    counted = count(named_setting("two-moons", ({},), "cuda", "settings"))
    found = run_storage(counted.setting, counted.cost, counted.tally, counted.state, twin=True, tensors=counted.tensors)
    one = checkpoint_bytes(counted.setting, counted.cost, counted.tally, counted.state, counted.tensors)
    assert found["checkpoints"] == KEPT * one
    assert found["twin"] > 0
    assert "twin" not in run_storage(counted.setting, counted.cost, counted.tally, counted.state, twin=False)


def test_what_runs_share() -> None:
    assert shared_storage(named_setting("cifar10", ({},), "cuda", "")) == {"cached data": 60_000 * (3072 + 8)}
    assert shared_storage(named_setting("imagenet", ({},), "cuda", "")) == {"files of images": 144_300_000_000}
    news = shared_storage(named_setting("agnews", ({"recipe": "paper"},), "cuda", ""))
    assert news == {"texts": 120_000 * 236, "back-translations": 2 * 110_000 * 236}
    frozen = named_setting("agnews", ({"encoder": "sentence-transformers/all-MiniLM-L6-v2"},), "cuda", "")
    assert shared_storage(frozen)["features of the encoder"] == 127_600 * 384 * 4


def test_of_folds_only_the_records_stay() -> None:
    counted = count(own_setting(Own("image", 1000, (1, 8, 8), 10), ({"labels": 100, "steps": 50},), "cuda", "settings"))
    found = run_storage(counted.setting, counted.cost, counted.tally, counted.state, twin=True, tensors=counted.tensors)
    config = counted.setting.config
    assert found["twin"] == metrics_bytes(config, 10, None)
    assert found["records of the folds"] == 5 * (found["metrics"] + found["twin"])
