"""Jobs through submitit, as real processes of this machine in the place of a Slurm cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from softmatch.errors import InputError
from softmatch.experiments import on_slurm
from softmatch.experiments.on_slurm import OnSlurm, Task, _minutes
from softmatch.experiments.places import Ended, Handle
from softmatch.experiments.starting import Started
from tests.experiments.tiny import wait_for

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # submitit leaves the processes of its jobs behind


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OnSlurm:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(on_slurm, "LATE", 0.0)
    return OnSlurm(tmp_path / "store", {"time": "5", "partition": "none"}, slots=2, cluster="local")


def end_of(handle: Handle) -> Ended:
    wait_for(lambda: handle.poll() is not None)
    ended = handle.poll()
    assert ended is not None
    return ended


OWN = """
import time
from pathlib import Path

if Path("preempted.log").read_text().count("=== ") > 1:
    raise ValueError("the second time")
time.sleep(60)
"""
"""A method that takes its time in the first attempt, and is refused in the second."""


def test_a_job_that_must_end_goes_on_in_the_queue_and_one_that_is_lost_is_over(place: OnSlurm, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    arguments = ["train", "two-moons", "--method", "own.py:x", "--out", "run"]
    with place:
        preempted, lost = (place.start(arguments, tmp_path / f"{name}.log") for name in ("preempted", "lost"))
        wait_for((tmp_path / "lost.log").exists)
        controller = lost._job._process.pid  # type: ignore[attr-defined]  # submitit's
        for pid in (_task(lost), controller):
            os.kill(pid, signal.SIGKILL)
        wait_for((tmp_path / "preempted.log").exists)
        assert preempted.poll() is None
        os.kill(_task(preempted), signal.SIGUSR2)  # as Slurm does before it takes a machine away
        assert end_of(preempted) == Ended(2)
        log = (tmp_path / "preempted.log").read_text()
        assert log.count("=== ") == 2
        assert log.endswith("softmatch: own.py cannot be run: ValueError: the second time\n")
        ended = end_of(lost)
        assert ended.code == 1
        assert "has left the queue without a result; see " in ended.message


def test_a_machine_without_the_store_says_so(tmp_path: Path) -> None:
    ended = Task()([], tmp_path / "nowhere" / "run.log", tmp_path)
    assert ended.code == 2
    assert ended.message.endswith(f"has no folder {tmp_path / 'nowhere'}: {on_slurm.SHARED}")


def _task(handle: Any) -> int:
    """The process that executes a job, which its controller has started."""
    controller = handle._job._process.pid
    return int(Path(f"/proc/{controller}/task/{controller}/children").read_text().split()[0])


class _Child:
    """In the place of a run: a process that ends at SIGTERM."""

    def __init__(self) -> None:
        self.run = Started(subprocess.Popen(["sleep", "60"]))

    def start(self, *given: Any, **more: Any) -> Started:
        return self.run


def test_a_job_that_slurm_ends_waits_for_it_and_one_that_the_sweep_ends_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    really = time.sleep

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        really(min(seconds, on_slurm.PAUSE))

    def told(number: int) -> Ended:
        child = _Child()
        monkeypatch.setattr(on_slurm, "start", child.start)
        monkeypatch.setattr(on_slurm, "STOPPED", -signal.SIGTERM)  # as a run that has saved
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), number))
        return Task()([], tmp_path / "log", tmp_path)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
    monkeypatch.setattr(on_slurm.time, "sleep", sleep)
    try:
        assert told(signal.SIGINT) == Ended(-signal.SIGTERM)
        assert on_slurm.GRACE not in slept
        assert told(signal.SIGTERM) == Ended(-signal.SIGTERM)
        assert slept.count(on_slurm.GRACE) == 1
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("90", 90), ("90:30", 91), ("2:00:00", 120), ("1-12", 2160), ("1-0:30", 1470), ("0-1:00:01", 61)],
)
def test_times_as_sbatch_reads_them(text: str, minutes: int) -> None:
    assert _minutes(text) == minutes


@pytest.mark.parametrize("text", ["", "soon", "1:2:3:4", "-5", "1.5"])
def test_other_times(text: str) -> None:
    with pytest.raises(InputError, match="give minutes, HOURS:MINUTES:SECONDS or DAYS-HOURS"):
        _minutes(text)


FAKES = {
    "srun": "exit 0",
    "sbatch": 'cp "$1" "$(dirname "$0")/submitted.sh"; echo Submitted batch job 17',
    "squeue": 'cat "$(dirname "$0")/queue"',
    "scancel": 'echo "$@" >> "$(dirname "$0")/cancelled"',
}
"""Commands of Slurm that do what those do which we have seen."""


def test_commands_that_slurm_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, text in FAKES.items():
        (commands / name).write_text(f"#!/bin/sh\n{text}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    monkeypatch.setattr(on_slurm, "LATE", 0.0)
    monkeypatch.setattr(on_slurm, "LOOK", 0.0)
    (commands / "queue").write_text("16\n17\n")
    given = {
        "partition": "gpu",
        "cpus": "4",
        "gpus": "1",
        "memory": "16GB",
        "time": "2:00:00",
        "qos": "high",
        "reservation": "us",
    }
    with OnSlurm(tmp_path / "store", given, slots=2) as place:
        handle = place.start(["--version"], tmp_path / "run.log")
        assert handle.poll() is None
        script = (commands / "submitted.sh").read_text()
        wanted = ["partition=gpu", "cpus-per-task=4", "gpus-per-node=1", "mem=16GB", "time=120", "qos=high", "reservation=us"]
        assert [each for each in wanted if f"#SBATCH --{each}\n" not in script] == []
        assert "srun --unbuffered" in script
        assert "--cpus-per-task=4" in script.partition("srun")[2]
        handle.stop()
        handle.kill()
        assert (commands / "cancelled").read_text().splitlines() == ["--state=PENDING 17", "--signal=INT 17", "17"]
        (commands / "queue").write_text("16\n")
        wait_for(lambda: handle.poll() is not None)
        assert handle.poll() == Ended(
            1, f"job 17 has left the queue without a result; see {tmp_path / 'store/slurm/17_0_log.err'}"
        )
        (commands / "sbatch").write_text("#!/bin/sh\necho no such partition >&2; exit 1\n")
        refused = place.start(["--version"], tmp_path / "run.log").poll()
        assert refused is not None
        assert refused.code == 1
        assert refused.message.startswith("could not be submitted: ")
        assert "no such partition" in refused.message


def test_a_machine_without_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"--on slurm needs a machine that can submit jobs: Could not detect \"srun\""):
        OnSlurm(tmp_path, {}).__enter__()
