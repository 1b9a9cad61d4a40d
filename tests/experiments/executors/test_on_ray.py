"""Sweeps on a real Ray cluster of this machine: workers are killed, runs fail and are stopped, several ranks train together."""

import os
import re
import signal
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import ray

from softmatch.distributed.launching import free_port
from softmatch.errors import InputError, Stopped, TrainingError
from softmatch.experiments.executors import Executor, Where, open_executor
from softmatch.experiments.executors.on_ray import _check_room, _connect
from softmatch.experiments.store import Store
from softmatch.experiments.sweep import Sweep
from tests.experiments.tiny import METHODS, Heard, tiny, wait_for

pytestmark = [
    pytest.mark.usefixtures("ray_cluster"),
    pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves pipes and files to the garbage collector
]
LONG: dict[str, Any] = {"steps": 100_000, "evaluate_every": 20, "checkpoint_every": 50_000}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.chdir(tmp_path)
    return Store(tmp_path / "store")


def opened(store: Store, **options: Any) -> AbstractContextManager[Executor]:
    return open_executor(Where(on="ray", **options), store.root)


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


def test_a_lost_process_ends_the_others_and_the_run_is_resumed_but_wrong_use_is_not_tried_again(
    store: Store, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(DYING)
    run, wrong, heard = tiny(method="own.py:Dies"), tiny(method="no_such"), Heard()
    outcomes = Sweep(store, opened(store, processes_per_run=2), listener=heard).run([wrong, run])
    assert [(outcome.state, outcome.attempts) for outcome in outcomes] == [("failed", 1), ("done", 2)]
    assert "there is no method 'no_such'" in outcomes[0].message
    (retried,) = (event for event in heard.events if event[0] == "retried")
    assert "another of the 2 processes has ended" in retried[3] or "signal 9 (killed)" in retried[3]  # who is seen first
    result = store.result(run)
    assert result is not None
    assert result["processes"] == 2


def test_a_sweep_that_is_stopped_lets_its_runs_save(store: Store) -> None:
    runs = [tiny(seed, **LONG) for seed in range(3)]

    class Strikes(Heard):
        def look(self) -> None:
            if all((store.folder(run) / "metrics.jsonl").is_file() for run in runs[:2]):
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped, match="0 of 3 runs are finished"):
        Sweep(store, opened(store), listener=Strikes()).run(runs)
    for run in runs[:2]:
        assert "stopped by SIGTERM at step" in store.log(run).read_text()
    assert not store.folder(runs[2]).exists()  # it was waiting for a worker


def test_runs_survive_the_killing_of_a_worker(store: Store) -> None:
    Path("own.py").write_text(METHODS)
    Path("slow").touch()
    struck = tiny(1, steps=200, evaluate_every=5, method="own.py:Slow")
    runs = [tiny(0), struck]

    def strike() -> None:
        wait_for(lambda: (store.folder(struck) / "metrics.jsonl").is_file())
        os.kill(worker(struck.name), signal.SIGKILL)
        Path("slow").unlink()

    heard, thread = Heard(), threading.Thread(target=strike)
    thread.start()
    outcomes = Sweep(store, opened(store), listener=heard).run(runs)
    thread.join()
    assert [(outcome.state, outcome.attempts) for outcome in outcomes] == [("done", 1), ("done", 2)]
    (retried,) = (event for event in heard.events if event[0] == "retried")
    assert retried[1] == struck.key
    assert retried[3].startswith("its worker was lost: WorkerCrashedError: ")
    assert re.search(r"resuming after step [1-9]\d* of 200", store.log(struck).read_text())
    records = (store.folder(struck) / "metrics.jsonl").read_text()
    assert re.findall(r'^{"step": (\d+)', records, re.MULTILINE) == [str(step) for step in range(5, 201, 5)]


def test_what_the_cluster_will_never_have_room_for_is_refused(store: Store) -> None:
    message = "a run asks for 4 processes with 1 CPUs and 0 GPUs each, .* has room for 2 at most. Lower --processes-per-run"
    with pytest.raises(InputError, match=message), opened(store, processes_per_run=4):
        pass
    assert not store.root.exists()


@pytest.mark.parametrize(
    ("number", "cpus", "gpus", "room"),
    [(2, 1.5, 0.0, 1), (1, 1.0, 0.5, 0), (4, 0.1, 0.0, 3), (3, 0.1, 0.0, None), (1, 0.0, 0.0, None)],
    ids=["cpus", "gpus", "shares", "enough", "nothing"],
)
def test_room_of_the_largest_machine(number: int, cpus: float, gpus: float, room: int | None) -> None:
    machines = [{"CPU": 0.2}, {"CPU": 0.3 if cpus < 1 else 2.0}]
    if room is None:
        _check_room(number, cpus, gpus, machines)
        return
    with pytest.raises(InputError, match=rf"a run asks for {number} process.* has room for {room} at most"):
        _check_room(number, cpus, gpus, machines)


def test_a_cluster_takes_many_runs(store: Store) -> None:
    with opened(store, cpus_per_run=2.0) as executor:
        assert (executor.slots, executor.options) == (200, ["--threads", "2"])


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
