"""Sweeps on a real Ray cluster of this machine: workers are killed, runs fail and are stopped, several ranks train together."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from softmatch.distributed.launching import free_port
from softmatch.errors import InputError, Stopped, TrainingError
from softmatch.experiments import on_ray
from softmatch.experiments.on_ray import OnRay, _connect, _room, _Spot, environments
from softmatch.experiments.store import Store
from softmatch.experiments.sweep import sweep
from tests.experiments.tiny import METHODS, Heard, tiny, wait_for

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves pipes and files to the garbage collector
]
LONG: dict[str, Any] = {"steps": 100_000, "evaluate_every": 20, "checkpoint_every": 50_000}


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    """One for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")  # which would write a token into the user's home
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=80 * 2**20, log_to_driver=False)
        yield
        ray.shutdown()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.chdir(tmp_path)
    return Store(tmp_path / "store")


def worker(name: str) -> int:
    """The process of Ray that executes the run of that name."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace")
        except OSError:  # it has just ended
            continue
        if words.startswith(f"ray::{name}"):
            return int(path.parent.name)
    raise AssertionError(f"no worker executes {name}")


def test_several_ranks_train_a_run_and_wrong_use_is_not_tried_again(store: Store) -> None:
    run, wrong = tiny(), tiny(method="no_such")
    with OnRay(store.root, ranks=2) as place:
        outcomes = sweep([wrong, run], store, place)
    assert [(outcome.state, outcome.attempts) for outcome in outcomes] == [("failed", 1), ("done", 1)]
    result = store.result(run)
    assert result is not None
    assert result["processes"] == 2
    assert "there is no method 'no_such'" in outcomes[0].message


DYING = """
import os, signal
from pathlib import Path
from softmatch.weightings import Constant

class Dies(Constant):
    marker, steps = Path(__file__).with_name("died-before"), 0

    def update(self, seen):
        self.steps += 1
        if self.steps == 4 and os.environ["RANK"] == "1" and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_lost_rank_ends_the_others_and_the_run_goes_on(store: Store, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(DYING)
    run, heard = tiny(method="own.py:Dies"), Heard()
    with OnRay(store.root, ranks=2) as place:
        (outcome,) = sweep([run], store, place, listener=heard)
    assert (outcome.state, outcome.attempts) == ("done", 2)
    (retried,) = (event for event in heard.events if event[0] == "retried")
    assert "another of the 2 processes has ended" in retried[3] or "signal 9 (killed)" in retried[3]  # who is seen first


def test_a_sweep_that_is_stopped_lets_its_runs_save(store: Store) -> None:
    runs = [tiny(seed, **LONG) for seed in range(3)]

    class Strikes(Heard):
        def look(self) -> None:
            if all((store.folder(run) / "metrics.jsonl").is_file() for run in runs[:2]):
                os.kill(os.getpid(), signal.SIGTERM)

    with OnRay(store.root, slots=3) as place, pytest.raises(Stopped, match="0 of 3 runs are finished"):
        sweep(runs, store, place, listener=Strikes())
    for run in runs[:2]:
        assert "stopped by SIGTERM at step" in store.log(run).read_text()
    assert not store.folder(runs[2]).exists()  # it was waiting for a worker


def test_four_runs_survive_the_killing_of_a_worker(store: Store) -> None:
    Path("own.py").write_text(METHODS)
    Path("slow").touch()
    struck = tiny(1, steps=200, evaluate_every=5, method="own.py:Slow")
    runs = [tiny(0), struck, tiny(2), tiny(3)]

    def strike() -> None:
        wait_for(lambda: (store.folder(struck) / "metrics.jsonl").is_file())
        wait_for(lambda: all(store.is_finished(run) for run in runs if run is not struck))  # a worker is free then
        os.kill(worker(struck.name), signal.SIGKILL)
        Path("slow").unlink()

    heard, thread = Heard(), threading.Thread(target=strike)
    thread.start()
    with OnRay(store.root, slots=4) as place:
        outcomes = sweep(runs, store, place, listener=heard)
    thread.join()
    assert [(outcome.state, outcome.attempts) for outcome in outcomes] == [("done", 1), ("done", 2), ("done", 1), ("done", 1)]
    (retried,) = (event for event in heard.events if event[0] == "retried")
    assert retried[1] == struck.key
    assert retried[3].startswith("its worker was lost: WorkerCrashedError: ")
    assert re.search(r"resuming after step [1-9]\d* of 200", store.log(struck).read_text())
    records = (store.folder(struck) / "metrics.jsonl").read_text()
    assert re.findall(r'^{"step": (\d+)', records, re.MULTILINE) == [str(step) for step in range(5, 201, 5)]


def elsewhere(marker: Path) -> Path | None:
    """What a machine answers on which another folder lies at the path of the store."""
    return on_ray._answer(marker.parent.parent / "other" / marker.name)


def unseen(marker: Path) -> Path | None:
    """What a machine answers that sees the marker, and whose own files are not seen here."""
    answer = on_ray._answer(marker)
    assert answer is not None
    return answer.rename(marker.parent.parent / "other" / answer.name).with_name("gone")


@pytest.mark.parametrize("answer", [elsewhere, unseen])
def test_the_store_must_be_shared(answer: Callable[[Path], Path | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    with OnRay(tmp_path / "store"):  # it is, and nothing is left of the question
        assert list((tmp_path / "store").iterdir()) == []
    monkeypatch.setattr(on_ray, "_answer", answer)
    with pytest.raises(InputError, match=r"of the Ray cluster cannot read and write .*/store: the store must be in a folder"):
        OnRay(tmp_path / "store").__enter__()
    assert ray.is_initialized()  # it is not ours
    assert list((tmp_path / "store").iterdir()) == []


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"ranks": 4}, "a run asks for 4 processes with 1 CPUs and 0 GPUs each, .* has room for 2: lower --processes-per-run"),
        ({"ranks": 2, "cpus": 1.5}, "2 processes with 1.5 CPUs and 0 GPUs each, .* has room for 1"),
        ({"gpus": 0.5}, "a run asks for one process with 1 CPUs and 0.5 GPUs each, .* has room for 0"),
    ],
    ids=["ranks", "cpus", "gpus"],
)
def test_what_the_cluster_will_never_have_room_for_is_refused(asked: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        OnRay(tmp_path / "store", **asked).__enter__()
    assert not (tmp_path / "store").exists()


def test_room_of_a_machine() -> None:
    node = {"Resources": {"CPU": 0.3, "GPU": 2.0}}
    assert [_room(node, 0.1, gpus) for gpus in (0.0, 1.0, 4.0)] == [3, 2, 0]


@pytest.mark.parametrize("failing", [1, 5])
def test_a_local_cluster_that_is_late_is_started_once_more(failing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def init(*_: object, **__: object) -> None:
        done.append("init")
        if len(done) <= failing:
            raise Exception("The current node timed out during startup. This could happen because")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: done.append("shutdown"))
    if failing == 1:
        _connect("local")
        assert done == ["init", "shutdown", "init"]
        return
    with pytest.raises(TrainingError, match=r"in 2 attempts: Exception: The current node timed out .* the same command again"):
        _connect("local")
    assert done == ["init", "shutdown", "init", "shutdown"]


def test_whatever_ray_raises_for_an_address_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(*_: object, **__: object) -> None:
        raise Exception("")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(InputError, match=r"there is no Ray cluster at auto: Exception Give --address"):
        _connect("auto")


def test_an_address_where_nobody_listens_is_told_at_once() -> None:
    port = free_port()
    with pytest.raises(InputError, match=rf"there is no Ray cluster at 127.0.0.1:{port}: .* Give --address HOST:PORT"):
        _connect(f"127.0.0.1:{port}")


def test_what_ranks_are_told() -> None:
    spots = [_Spot("a", "10.0.0.1", 7001, ("3",)), _Spot("b", "10.0.0.2", 7002, ("0",)), _Spot("a", "10.0.0.1", 7003, ("1",))]
    common = {"WORLD_SIZE": "3", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "7001"}
    on_a = {**common, "LOCAL_WORLD_SIZE": "2", "CUDA_VISIBLE_DEVICES": "3,1"}
    assert environments(spots) == [
        {**on_a, "RANK": "0", "LOCAL_RANK": "0"},
        {**common, "RANK": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "CUDA_VISIBLE_DEVICES": "0"},
        {**on_a, "RANK": "2", "LOCAL_RANK": "1"},
    ]
    assert "CUDA_VISIBLE_DEVICES" not in environments([spots[0]._replace(gpus=())])[0]
