"""Checkpoints: whole or not at all, the newest and the best kept, damage named, no state lost to a kill or a full disk."""

import os
import random
import resource
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import nn

from softmatch.errors import InputError
from softmatch.files.tensors import write_checked
from softmatch.training import checkpoint
from softmatch.training.checkpoint import (
    CheckpointWriter,
    list_checkpoints,
    load_checkpoint,
    newest_good,
    unflatten_optimizer,
)


def steps_in(folder: Path) -> list[int]:
    """Steps of the checkpoints; nothing else may lie there."""
    assert {path.name for path in folder.iterdir()} == {path.name for path in list_checkpoints(folder)}
    return [load_checkpoint(path).step for path in list_checkpoints(folder)]


def test_round_trip_and_only_the_newest_are_kept(tmp_path: Path) -> None:
    with CheckpointWriter(tmp_path / "new" / "folder") as writer:
        for step in (10, 20, 30):
            writer.write(step, {"a": torch.full((2,), float(step)), "n": torch.tensor(step)}, {"at": [step, "ü", None]})
    assert steps_in(tmp_path / "new" / "folder") == [20, 30]
    found = load_checkpoint(list_checkpoints(tmp_path / "new" / "folder")[-1])
    assert found.step == 30
    assert found.tensors["a"].tolist() == [30.0, 30.0]
    assert found.tensors["n"].dtype == torch.int64
    assert found.notes == {"at": [30, "ü", None]}


def test_what_changes_after_the_call_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_go_on = threading.Event()

    def slow(*given: object) -> None:
        assert may_go_on.wait(30)
        write_checked(*given)  # type: ignore[arg-type]  # what the writer gives

    monkeypatch.setattr(checkpoint, "write_checked", slow)
    value, about = torch.zeros(3), {"list": [1]}
    with CheckpointWriter(tmp_path) as writer:
        writer.write(1, {"a": value, "part": value[1:], "turned": value.view(1, 3).T}, about)
        assert list_checkpoints(tmp_path) == []  # training goes on while it is written
        value += 1
        about["list"].append(2)
        may_go_on.set()
    found = load_checkpoint(tmp_path / "step-000000001.safetensors")
    assert found.tensors["a"].tolist() == [0, 0, 0]
    assert found.notes == {"list": [1]}


def test_tensors_may_change_their_shape_and_kind_between_two_writes(tmp_path: Path) -> None:
    states = [torch.zeros(3), torch.ones(3), torch.arange(2), torch.tensor(5, dtype=torch.uint8), torch.ones(2, 2)]
    with CheckpointWriter(tmp_path, keep=9) as writer:
        for step, state in enumerate(states):
            writer.write(step, {"a": state, f"only at {step}": state}, {})
    for path, state in zip(list_checkpoints(tmp_path), states, strict=True):
        found = load_checkpoint(path)
        assert set(found.tensors) == {"a", f"only at {found.step}"}
        assert found.tensors["a"].dtype == state.dtype
        assert torch.equal(found.tensors["a"], state)


def test_the_best_is_kept_also_after_a_restart(tmp_path: Path) -> None:
    errors: dict[int, float | None] = {1: None, 2: 0.5, 3: 0.25, 4: 0.25, 5: float("nan"), 6: 0.3}
    with CheckpointWriter(tmp_path) as writer:
        for step, error in errors.items():
            writer.write(step, {}, {}, error)
    assert steps_in(tmp_path) == [3, 5, 6]
    with CheckpointWriter(tmp_path, keep=1) as writer:
        writer.write(7, {}, {})
        writer.write(8, {}, {}, 0.26)
        assert writer.keep == 1
    assert steps_in(tmp_path) == [3, 8]
    with CheckpointWriter(tmp_path) as writer:
        writer.write(9, {}, {}, 0)
        writer.write(10, {}, {})
        writer.write(11, {}, {}, 0.1)
    assert steps_in(tmp_path) == [9, 10, 11]


def test_steps_are_in_order_and_the_same_step_again_replaces_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="keep = 0"):
        CheckpointWriter(tmp_path, keep=0)
    steps = [999_999_999, 1_000_000_000, 10_000_000_000]
    with CheckpointWriter(tmp_path, keep=3) as writer:
        for value, step in enumerate([*steps, steps[-1]]):
            writer.write(step, {}, {"value": value}, wait=True)
            assert steps_in(tmp_path) == steps[: value + 1]  # it is on the disk
    assert load_checkpoint(list_checkpoints(tmp_path)[-1]).notes == {"value": 3}


def test_the_newest_good_one_is_found_and_damage_is_named(tmp_path: Path) -> None:
    assert newest_good(tmp_path) == (None, [])
    assert newest_good(tmp_path / "none") == (None, [])
    with CheckpointWriter(tmp_path, keep=9) as writer:
        for step in (1, 2, 3, 4):
            writer.write(step, {"a": torch.arange(step)}, {})
    first, second, third, last = list_checkpoints(tmp_path)
    last.write_bytes(last.read_bytes()[:-1])
    changed = bytearray(third.read_bytes())
    changed[-1] ^= 1
    third.write_bytes(changed)
    found, wrong = newest_good(tmp_path)
    assert found is not None
    assert found.step == 2
    assert found.tensors["a"].tolist() == [0, 1]
    assert wrong[0] == f"checkpoint {last} is damaged: it is cut short, 1 bytes are missing."
    assert wrong[1].startswith(f"checkpoint {third} is damaged: its content is not what was written")
    for path in (first, second):
        path.write_bytes(b"")
    assert newest_good(tmp_path)[0] is None
    assert len(newest_good(tmp_path)[1]) == 4


def test_a_run_that_goes_on_replaces_the_damaged(tmp_path: Path) -> None:
    with CheckpointWriter(tmp_path, keep=3) as writer:
        for step in (10, 20, 30):
            writer.write(step, {}, {}, 0.9 if step < 30 else 0.1)
    for step in (20, 30):
        (tmp_path / f"step-0000000{step}.safetensors").write_bytes(b"torn")
    with CheckpointWriter(tmp_path) as writer:  # goes on at step 10
        writer.write(15, {}, {}, 0.95)
        writer.finish()
        assert steps_in(tmp_path) == [10, 15]  # not the damaged ones, which are newer
        writer.write(20, {}, {}, 0.95)
    assert steps_in(tmp_path) == [10, 15, 20]  # 10 is the best


def test_a_checkpoint_under_another_name_is_refused(tmp_path: Path) -> None:
    with CheckpointWriter(tmp_path) as writer:
        writer.write(1, {}, {})
    path = (tmp_path / "step-000000001.safetensors").rename(tmp_path / "step-000000002.safetensors")
    with pytest.raises(InputError, match=r"step-000000002\.safetensors is damaged: it is of step 1\."):
        load_checkpoint(path)
    with pytest.raises(InputError, match="not the name of a checkpoint"):
        load_checkpoint(path.rename(tmp_path / "last.safetensors"))
    for notes in ({}, {"step": "3", "notes": {}}, {"step": True, "notes": {}}, {"step": 3, "notes": []}):
        write_checked(tmp_path / "step-000000003.safetensors", {}, notes)
        newest, wrong = newest_good(tmp_path)
        assert newest is None
        assert "does not name its step" in wrong[0]


def test_only_what_killed_writers_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".step-000000007.safetensors.0a1b2c3d").write_bytes(b"part")
    others = {".step-7", "step-000000007.safetensors.old", "notes.txt", "step-7.safetensors"}
    for name in others:
        (tmp_path / name).touch()
    (tmp_path / "step-000000009.safetensors").mkdir()
    with CheckpointWriter(tmp_path, keep=1) as writer:
        writer.write(1, {}, {})
        writer.write(2, {}, {})
    assert {path.name for path in tmp_path.iterdir()} == {*others, "step-000000002.safetensors", "step-000000009.safetensors"}


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """As on a disk that is full: what is written beyond this size fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path, keep=1)
    writer.write(1, {"a": torch.zeros(10)}, {}, wait=True)
    with no_file_larger_than(100_000):
        writer.write(2, {"a": torch.zeros(100_000)}, {})
        with pytest.raises(OSError, match="File too large"):
            writer.write(3, {"a": torch.zeros(1)}, {})
        assert steps_in(tmp_path) == [1]
        with pytest.raises(OSError, match="File too large"):
            writer.write(3, {"a": torch.zeros(100_000)}, {}, wait=True)
    assert steps_in(tmp_path) == [1]
    writer.write(4, {"a": torch.zeros(100_000)}, {})  # there is room again
    writer.close()
    assert steps_in(tmp_path) == [4]


def test_closing_tells_of_a_failure(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path / "gone")
    shutil.rmtree(tmp_path / "gone")
    writer.write(1, {}, {})
    with pytest.raises(FileNotFoundError):
        writer.close()
    writer.close()  # told once
    with pytest.raises(RuntimeError, match="shutdown"):
        writer.write(2, {}, {})


@pytest.mark.parametrize(("error", "raised"), [(KeyError("worse"), KeyError), (None, FileNotFoundError)])
def test_leaving_reports_a_failure_unless_there_is_worse(
    tmp_path: Path, error: Exception | None, raised: type[Exception]
) -> None:
    with pytest.raises(raised), CheckpointWriter(tmp_path / "gone") as writer:  # noqa: PT012  # what is left
        shutil.rmtree(tmp_path / "gone")
        writer.write(1, {}, {})
        if error is not None:
            raise error


def write_without_end(folder: Path, step: int, told: int) -> None:
    """Write checkpoints, and tell the steps of those that are done."""
    with CheckpointWriter(folder) as writer:
        while True:
            step += 1
            writer.write(step, {"a": torch.full((50_000,), step), "b": torch.full((3,), float(step))}, {"again": step}, wait=True)
            os.write(told, b"%d\n" % step)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are copied")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # the copy uses none of the others
def test_a_writer_that_is_killed_at_any_moment_loses_nothing(tmp_path: Path) -> None:
    chance, last = random.Random(1), 0
    for _ in range(12):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                write_without_end(tmp_path, last, writing)
            finally:
                os._exit(1)
        os.close(writing)
        with os.fdopen(reading, "rb") as told:
            first = told.readline()  # it writes
            time.sleep(chance.random() * 0.03)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            done = int((first + told.read()).split(b"\n")[-2])
        assert done > last
        found, wrong = newest_good(tmp_path)
        assert found is not None
        assert wrong == []
        assert found.step in (done, done + 1)
        assert found.notes == {"again": found.step}
        assert bool((found.tensors["a"] == found.step).all())
        last = found.step
    CheckpointWriter(tmp_path).close()
    assert len(steps_in(tmp_path)) <= 3


@pytest.mark.parametrize(
    "name", ["weight", "2.momentum_buffer", "-1.step", "0.", "0", "01.step", "²._", "0.__class__ x", "0.step.1"]
)
def test_names_that_are_not_of_an_optimizer_are_refused(name: str) -> None:
    optimizer = torch.optim.SGD(nn.Linear(3, 2).parameters(), lr=0.1, momentum=0.9)
    with pytest.raises(InputError, match="is not a tensor of an optimiser with 2 parameters"):
        unflatten_optimizer(optimizer, {name: torch.zeros(2, 3)})
    with pytest.raises(InputError, match=r"'1.momentum_buffer' of the optimiser has shape \(2, 3\), its parameter \(2,\)"):
        unflatten_optimizer(optimizer, {"1.momentum_buffer": torch.zeros(2, 3)})
