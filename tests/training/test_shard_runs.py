"""Runs on shards: from a real S3 server, killed and resumed, by any number of workers and processes; then predictions."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from signal import SIGKILL
from typing import Any

import pytest
import torch

import softmatch
from benchmarks.fault_injection import Case, Endurance, Fault, Strike, Tally, warm_up
from softmatch.data.loading import LoadedBatches
from softmatch.distributed import processes
from softmatch.distributed.processes import World
from softmatch.errors import InputError
from softmatch.inference.predict import predict
from softmatch.inference.suggest import suggest
from softmatch.training.inputs import make_task_batches
from softmatch.training.opening import open_job
from softmatch.training.setup import build_method, make_trainer, prepare_job
from softmatch.training.task import Task
from tests.tar_shards import picture, s3_server, write_shards, write_tar

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # its copies use one
TINY: dict[str, Any] = {
    **{"steps": 8, "evaluate_every": 4, "checkpoint_every": 2, "labeled_batch": 4, "unlabeled_batch": 8, "network": "mlp"},
    **{"device": "cpu", "threads": 1, "evaluation": "none", "method": "softmatch", "workers": 1},
}


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("shards")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOFTMATCH_CACHE", str(folder / "cache"))
        yield write_shards(folder / "tars", [20, 7, 0, 33, 20], labelled=24)


def task_of(where: str, **settings: Any) -> Task:
    return prepare_job(open_job(where, {**TINY, **settings}))


def weak_views(task: Task, steps: int) -> list[torch.Tensor]:
    batches = make_task_batches(task, build_method(task, task.config.method), None)
    assert isinstance(batches, LoadedBatches)
    try:
        return [torch.cat([batch.unlabeled["weak"].flatten(1), batch.index[:, None]], 1) for batch in map(batches, range(steps))]
    finally:
        batches.close()


def test_batches_do_not_depend_on_the_number_of_workers(pattern: str) -> None:
    wanted = weak_views(task_of(pattern, workers=0), 4)
    for workers in (1, 2):
        assert all(map(torch.equal, weak_views(task_of(pattern, workers=workers), 4), wanted))


def test_processes_make_shares_of_the_same_batch(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(pattern, workers=0)
    method = build_method(task, "softmatch")
    whole = make_task_batches(task, method, None)(5).unlabeled["weak"]
    parts = []
    for rank in range(3):
        monkeypatch.setattr(processes, "world", lambda rank=rank: World(rank, 3))
        parts.append(make_task_batches(task, method, None)(5).unlabeled["weak"])
    assert torch.equal(torch.cat(parts), whole)


def test_what_a_method_remembers_is_said(pattern: str) -> None:
    """FlexMatch keeps a number for each sample, SoftMatch none."""
    task = task_of(pattern)
    sizes = {name: sum(b.numel() for b in build_method(task, name).state_dict().values()) for name in ("softmatch", "flexmatch")}
    assert sizes["softmatch"] < 20
    assert sizes["flexmatch"] >= 80
    assert make_trainer(task, build_method(task, "softmatch"))._truth.untyped_storage().nbytes() == 8
    with pytest.raises(InputError, match="predicts all unlabelled samples"):
        build_method(task, "crest+softmatch")


def test_a_run_from_s3_is_killed_and_ends_as_if_nothing_had_happened(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))
    with s3_server("bucket", Path(pattern).parent) as address:
        warm_up()
        (tmp_path / "runs").mkdir()
        where, tally = f"{address}/{Path(pattern).name}", Tally()
        strikes = Fault(lambda chance, reference: Strike(SIGKILL, count=5))
        ends = Endurance(tmp_path / "runs", Random(0)).endure(Case("shards", where, TINY), strikes, tally, 1)
        assert (tally.problems, tally.faults, tally.lost, tally.mismatches) == ([], 1, 0, 0)
        assert ends[1].steps <= 6, "it did not begin anew"
        result = softmatch.train(where, **TINY, out=tmp_path / "run")
        found = predict(result.run, f"{address}/shard-*.tar", tmp_path / "predictions.csv")
        assert (found.samples, found.problems, found.known) == (80, 0, 24)
    assert (tmp_path / "predictions.csv").read_text().splitlines()[80].startswith("some/0079,")
    with pytest.raises(InputError, match="shards are streamed"):
        suggest(result.run)


def test_the_error_is_measured_on_samples_that_the_pool_does_not_have(pattern: str) -> None:
    task = task_of(pattern, evaluation="crossfit", folds=2, evaluate_every=None)
    streamed = task.examples.streamed
    assert streamed is not None
    for fold in task.evaluation.folds:
        pool = streamed.pool(fold.unlabeled)
        there = set(pool[torch.arange(len(pool))].tolist())
        assert not there & set(streamed.places[fold.test].tolist())
        assert len(there) == 80 - len(fold.test)


def test_a_damaged_image_is_named(pattern: str, tmp_path: Path) -> None:
    folder = tmp_path / "tars"
    write_shards(folder, [10], labelled=10)
    write_tar(folder / "shard-001.tar", {"some/bad.png": b"no image", "some/good.png": picture(40)})
    with pytest.raises(InputError, match=r"shard-001\.tar, byte 512 cannot be read"):
        weak_views(task_of(str(folder), workers=0, unlabeled_batch=12), 1)


def test_settings_that_need_all_samples_are_refused(pattern: str) -> None:
    task = task_of(pattern)
    unequal = replace(task, config=task.config.model_copy(update={"imbalance": 2.0}))
    with pytest.raises(InputError, match="--imbalance draws"):
        build_method(unequal, "softmatch")
