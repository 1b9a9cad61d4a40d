"""Jobs through submitit, as real processes of this machine in the place of a Slurm cluster."""

import os
import signal
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import submitit

from softmatch.errors import InputError
from softmatch.experiments.executors import Ended, Executor, Job, Where, on_slurm, open_executor
from softmatch.experiments.executors.on_slurm import TIME, Task
from tests.experiments.tiny import wait_for

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # submitit leaves the processes of its jobs behind
FAKES = {
    "srun": "exit 0",
    "sbatch": 'cp "$1" "$(dirname "$0")/submitted.sh"; echo Submitted batch job 17',
    "squeue": 'cat "$(dirname "$0")/queue"',
    "scancel": 'echo "$@" >> "$(dirname "$0")/cancelled"',
}
"""Commands of Slurm that do what those did that were seen."""


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of fake commands of Slurm."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in FAKES.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    for name in ("LATE", "LOOK", "HURRY"):
        monkeypatch.setattr(on_slurm, name, 0.0)
    return folder


def opened(root: Path, given: dict[str, str], **options: Any) -> AbstractContextManager[Executor]:
    return open_executor(Where(on="slurm", slurm=given, **options), root / "store")


def end_of(job: Job) -> Ended:
    wait_for(lambda: job.poll() is not None)
    ended = job.poll()
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


RUNNING = "ps -eo pid=,stat= | awk '$2 !~ /Z/ {print $1}'"
"""In place of Slurm's queue: numbers of processes, which submitit gives to jobs of this machine."""


def test_a_job_that_must_end_is_resumed_and_one_that_is_lost_is_over(
    commands: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, jobs = submitit.AutoExecutor, list[Any]()

    def local(folder: Path, **options: Any) -> Any:
        executor = really(folder, **{**options, "cluster": "local"})
        submit = executor.submit
        executor.submit = lambda *given: jobs.append(submit(*given)) or jobs[-1]
        return executor

    monkeypatch.setattr(submitit, "AutoExecutor", local)
    (commands / "squeue").write_text(f"#!/bin/sh\n{RUNNING}\n")
    (tmp_path / "own.py").write_text(OWN)
    arguments = ["train", "two-moons", "--method", "own.py:x", "--out", "run"]
    with opened(tmp_path, {"time": "5"}) as executor:
        preempted, lost = (executor.start(arguments, tmp_path / f"{name}.log") for name in ("preempted", "lost"))
        wait_for((tmp_path / "lost.log").exists)
        controller = jobs[1]._process.pid
        for pid in (_task(controller), controller):
            os.kill(pid, signal.SIGKILL)
        wait_for((tmp_path / "preempted.log").exists)
        assert preempted.poll() is None
        os.kill(_task(jobs[0]._process.pid), signal.SIGUSR2)  # as Slurm does before it takes a machine away
        assert end_of(preempted) == Ended(2)
        log = (tmp_path / "preempted.log").read_text()
        assert log.count("=== ") == 2
        assert log.endswith("softmatch: own.py cannot be run: ValueError: the second time\n")
        ended = end_of(lost)
        assert ended.code == 1
        assert "has left the queue without a result; see " in ended.message


def _task(controller: int) -> int:
    """The process that executes a job, which submitit's controller has started."""
    return int(Path(f"/proc/{controller}/task/{controller}/children").read_text().split()[0])


def test_a_job_that_slurm_ends_waits_for_it_and_one_that_the_sweep_ends_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    really = time.sleep

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        really(min(seconds, 0.05))

    def told(number: int) -> Ended:
        child = subprocess.Popen(["sleep", "60"])  # which ends at SIGTERM
        monkeypatch.setattr(on_slurm, "start_child", lambda *_, **__: child)
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


@pytest.mark.parametrize("text", ["90", "90:30", "2:00:00", "1-12", "1-0:30", "0-1:00:01"])
def test_times_as_sbatch_reads_them(text: str) -> None:
    assert TIME.fullmatch(text)


@pytest.mark.parametrize("text", ["", "soon", "1:2:3:4", "-5", "1.5"])
def test_other_times(text: str, tmp_path: Path) -> None:
    message = "give minutes, HOURS:MINUTES:SECONDS or DAYS-HOURS"
    with pytest.raises(InputError, match=message), opened(tmp_path, {"time": text}):
        pass


def test_commands_that_slurm_is_given(commands: Path, tmp_path: Path) -> None:
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
    with opened(tmp_path, given) as executor:
        job = executor.start(["--version"], tmp_path / "run.log")
        assert job.poll() is None
        script = (commands / "submitted.sh").read_text()
        wanted = ["partition=gpu", "cpus-per-task=4", "gpus-per-node=1", "mem=16GB", "time=2:00:00", "qos=high", "reservation=us"]
        assert [each for each in [*wanted, "job-name=softmatch"] if f"#SBATCH --{each}\n" not in script] == []
        assert "srun --unbuffered" in script
        assert "--cpus-per-task=4" in script.partition("srun")[2]
        job.stop()
        job.kill()
        assert (commands / "cancelled").read_text().splitlines() == ["--state=PENDING 17", "--signal=INT 17", "17"]
        (commands / "queue").write_text("16\n")
        log = tmp_path / "store/slurm/17_0_log.err"
        assert end_of(job) == Ended(1, f"job 17 has left the queue without a result; see {log}")
        (commands / "sbatch").write_text("#!/bin/sh\necho no such partition >&2; exit 1\n")
        with pytest.raises(OSError, match="no such partition"):
            executor.start(["--version"], tmp_path / "run.log")


@pytest.mark.parametrize(
    ("given", "more", "slots", "options"),
    [
        ({}, {}, 200, []),
        ({"cpus": "6"}, {"processes_per_run": 2, "processes": 7}, 7, ["--threads", "3", "--processes", "2"]),
        ({"cpus-per-task": "2"}, {"threads": 5}, 200, ["--threads", "5"]),
    ],
    ids=["default", "several", "given"],
)
def test_a_run_uses_the_cpus_of_its_job(
    given: dict[str, str], more: dict[str, Any], slots: int, options: list[str], commands: Path, tmp_path: Path
) -> None:
    with opened(tmp_path, given, **more) as executor:
        assert (executor.slots, executor.options) == (slots, options)


def test_a_machine_without_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    message = r"--on slurm needs a machine that can submit jobs: Could not detect \"srun\""
    with pytest.raises(InputError, match=message), opened(tmp_path, {}):
        pass
