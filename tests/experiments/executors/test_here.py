"""Child processes of runs: they write to their log, save when they are told to, and do not outlive their parent."""

import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from softmatch import __version__
from softmatch.distributed.launching import usable_cpus
from softmatch.experiments.executors import HEADING, Ended, Job, Where, here, open_executor
from softmatch.experiments.executors.here import execute, start_child
from tests.experiments.tiny import wait_for
from tests.forked import Forked

LONG = shlex.split("train two-moons --network mlp-8 --steps 100000 --checkpoint-every 50000 --threads 1 --no-baseline")


def test_output_goes_to_the_log_after_a_heading(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    assert start_child(["--version"], log, folder=tmp_path / "nowhere").wait() == 0
    heading, *lines = log.read_text().splitlines()
    assert heading.startswith(HEADING)
    assert lines == [__version__]


def test_a_child_has_the_folder_and_environment_it_is_given(tmp_path: Path) -> None:
    folder, log = tmp_path / "work", tmp_path / "run.log"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import os\nprint(os.getcwd(), os.environ['MINE'], flush=True)\n")
    environment = {"MINE": "own word", "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    assert execute(["trian"], log, environment, folder) == Ended(2)
    _, line, *message = log.read_text().splitlines()
    assert line == f"{folder} own word"
    assert "trian" in " ".join(message)


def test_a_machine_without_the_store_says_so(tmp_path: Path) -> None:
    ended = execute(["train"], tmp_path / "nowhere" / "run.log", {}, tmp_path)
    assert ended.code == 2
    assert f"has no folder {tmp_path / 'nowhere'}: the store must be in a folder that all machines share" in ended.message


PARENT = """
import multiprocessing, sys, time
from pathlib import Path
from softmatch.experiments.executors.here import start_child, start_job
started = start_child([*sys.argv[1:], "--out", "started"], Path("started.log"))
start_job([*sys.argv[1:], "--out", "forked"], Path("forked.log"), {})
print(started.pid, multiprocessing.active_children()[0].pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux tells children of their parent's end")
def test_a_child_saves_and_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    logs = [tmp_path / f"{name}.log" for name in ("started", "forked")]
    parent = Forked(["-c", PARENT, *LONG], tmp_path)
    wait_for(parent.written)
    children = [int(pid) for pid in parent.written().split()]
    wait_for(lambda: all("run folder" in log.read_text() for log in logs))
    assert [os.getsid(child) for child in children] == children  # Ctrl-C in the parent's terminal does not reach them
    parent.kill()
    wait_for(lambda: all("stopped by SIGTERM" in log.read_text() for log in logs))


def test_a_job_saves_when_it_is_told_to_and_is_killed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_executor(Where(), tmp_path) as executor:
        stopped, killed = (executor.start([*LONG, "--out", name], tmp_path / f"{name}.log") for name in ("stopped", "killed"))
        killed.kill()
        wait_for(lambda: "run folder" in (tmp_path / "stopped.log").read_text())
        assert stopped.poll() is None
        stopped.stop()
        wait_for(lambda: stopped.poll() is not None)
        assert stopped.poll() == Ended(75)
        assert killed.poll() == Ended(-signal.SIGKILL)
    assert "stopped by SIGTERM" in (tmp_path / "stopped.log").read_text()


@pytest.mark.parametrize(
    ("where", "options"),
    [
        (Where(processes=3), ["--threads", "2"]),
        (Where(processes=2, processes_per_run=2), ["--threads", "2", "--processes", "2"]),
        (Where(processes=20), ["--threads", "1"]),
        (Where(processes=1, threads=5), ["--threads", "5"]),
    ],
    ids=["shared", "several", "many", "given"],
)
def test_runs_share_the_cores(where: Where, options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "usable_cpus", lambda: 8)
    with open_executor(where, tmp_path) as executor:
        assert (executor.slots, executor.options) == (where.processes, options)


def test_one_run_per_core_by_default(tmp_path: Path) -> None:
    with open_executor(Where(), tmp_path) as executor:
        assert executor.slots == usable_cpus()


def test_each_run_gets_a_gpu_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, over = list[str](), set[int]()

    def start(arguments: Sequence[str], log: Path, environment: Mapping[str, Any]) -> Job:
        begun.append(environment["CUDA_VISIBLE_DEVICES"])
        number = len(begun)
        return Job(lambda: Ended(0) if number in over else None, lambda: None, lambda: None)

    monkeypatch.setattr(here, "start_job", start)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    with open_executor(Where(), tmp_path) as executor:
        assert executor.slots == 2
        for _ in range(2):
            executor.start([], tmp_path / "log")
        over.add(2)
        executor.start([], tmp_path / "log")
    assert begun == ["4", "7", "7"]
