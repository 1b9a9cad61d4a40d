"""Runs as jobs of a Slurm cluster, through submitit (extra `slurm`). A job starts our own entry point.

A job that is preempted or runs out of time saves, and Slurm puts it into its queue again: that is no failed attempt.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from softmatch.errors import STOPPED, InputError
from softmatch.experiments.places import FAILED, SHARED, WRONG_USE, Ended, Handle, process_options, thread_options
from softmatch.experiments.starting import PAUSE, Forked, Started, start, wait

NAMES = {"cpus": "cpus_per_task", "gpus": "gpus_per_node", "memory": "mem", "name": "job_name"}
"""Short names of options, besides those of sbatch."""
GENERAL = {"timeout_min": "time", "name": "job_name", "cpus_per_task": "cpus_per_task"}
"""Options of sbatch that submitit has to know of; others are passed on."""
LIMIT = 240
"""Minutes of a job, where no time is given. A run that needs more goes on in the queue."""
CONTINUATIONS = 1000
"""How often a job may run out of time and go on."""
LOOK = 20.0
"""Seconds between questions to Slurm what became of jobs that have left no result."""
HURRY = 2.0
"""The same, when jobs are to end."""
LATE = 15.0
"""Seconds in which the result of a job that has ended may still appear on a shared file system."""
GRACE = 120.0
"""Seconds after SIGTERM in which Slurm ends a job, or has put it into its queue again."""


class OnSlurm:
    """A Slurm cluster, of which this machine can submit jobs.

    Args:
        root: of the store; submitit's files go to slurm/ in it.
        parameters: options of sbatch by their long names, or by those of `NAMES`.
        processes: that train a run together, on one machine.
        slots: jobs at a time.
        threads: of each process. Default: the job's CPUs, shared among its processes.
        cluster: "local" has submitit start processes of this machine instead.
    """

    def __init__(
        self,
        root: Path,
        parameters: Mapping[str, str],
        processes: int = 1,
        slots: int = 1,
        threads: int | None = None,
        cluster: str = "slurm",
    ) -> None:
        self.slots = slots
        self._parameters = {NAMES.get(key, key).replace("-", "_"): _value(key, value) for key, value in parameters.items()}
        cpus = self._parameters.get("cpus_per_task")
        if threads is None and isinstance(cpus, int):
            threads = max(cpus // processes, 1)
        self.options = [*thread_options(threads), *process_options(processes)]
        self._root, self._cluster = root.resolve(), cluster
        self._executor: Any = None
        self._asked = -LOOK
        self._queue: set[str] | None = None

    def __enter__(self) -> Self:
        submitit = _submitit()
        options = {"time": LIMIT, "job_name": "softmatch", **self._parameters}
        given = {name: options.pop(key) for name, key in GENERAL.items() if key in options}
        if "cpus_per_task" in given:
            given["slurm_srun_args"] = [f"--cpus-per-task={given['cpus_per_task']}"]  # which srun does not take from sbatch
        try:
            self._executor = submitit.AutoExecutor(
                self._root / "slurm", cluster=self._cluster, slurm_max_num_timeout=CONTINUATIONS
            )
            self._executor.update_parameters(**given, slurm_additional_parameters=options)
        except RuntimeError as error:
            raise InputError(f"--on slurm needs a machine that can submit jobs: {error}") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._executor = None

    def start(self, arguments: Sequence[str], log: Path) -> Handle:
        try:
            job = self._executor.submit(Task(), list(arguments), log, Path.cwd())
        except (_submitit().core.utils.FailedJobError, _submitit().core.utils.FailedSubmissionError) as error:
            return _Refused(Ended(FAILED, f"could not be submitted: {str(error).strip()}"))
        return _Job(self, job)

    def interrupt(self, job: Any) -> None:
        """Tell a job to save and end; one that waits is taken out of the queue."""
        if self._cluster == "local":
            job.cancel()
            return
        for which in ("--state=PENDING", "--signal=INT"):
            subprocess.run(["scancel", which, job.job_id], check=False, capture_output=True)

    def has_left(self, job: Any, since: float, hurry: bool) -> bool:
        """Whether Slurm does not know a job any more. Accounting (sacct), which many clusters lack, is not asked.

        Args:
            since: when it was submitted, by the monotonic clock.
            hurry: ask more often.
        """
        if self._cluster == "local":
            return bool(job.done())
        if (now := time.monotonic()) > self._asked + (HURRY if hurry else LOOK):
            self._asked = now
            found = subprocess.run(["squeue", "--me", "--noheader", "--format=%A"], check=False, capture_output=True, text=True)
            self._queue = set(found.stdout.split()) if found.returncode == 0 else None  # Slurm itself may be away for a while
        return self._queue is not None and self._asked > since and job.job_id not in self._queue


def _submitit() -> Any:
    try:
        import submitit
    except ImportError as error:
        raise InputError("--on slurm needs submitit, which is not installed: pip install 'softmatch[slurm]'.") from error
    return submitit


def _value(key: str, text: str) -> Any:
    """Of an option; a time in minutes."""
    if key == "time":
        return _minutes(text)
    return int(text) if text.isdecimal() else text


def _minutes(text: str) -> int:
    """As sbatch reads it: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S. A part of a minute is a whole one."""
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdecimal() for part in (*parts, days if dash else "0")) or len(parts) > 3:
        raise InputError(f"--slurm.time {text}: give minutes, HOURS:MINUTES:SECONDS or DAYS-HOURS.")
    numbers = [int(part) for part in parts]
    if not dash and len(numbers) < 3:
        numbers.insert(0, 0)  # no hours
    hours, minutes, seconds = (*numbers, 0, 0)[:3]
    return (int(days or 0) * 24 + hours) * 60 + minutes + (seconds > 0)


class Task:
    """What a job does. submitit calls `checkpoint` when the job has to end and may go on later."""

    def __init__(self) -> None:
        self._process: Forked | Started | None = None
        self._told = False

    def __call__(self, arguments: Sequence[str], log: Path, folder: Path) -> Ended:
        if not log.parent.is_dir():
            return Ended(WRONG_USE, f"{os.uname().nodename} has no folder {log.parent}: {SHARED}")
        self._process = start(arguments, log, folder=folder, fork=False)  # it is the only one
        # submitit's own for SIGTERM does nothing; an exception of Python's for SIGINT may leave the lock of Popen.poll closed
        signal.signal(signal.SIGTERM, self._ended_by_slurm)
        signal.signal(signal.SIGINT, self._ended_by_the_sweep)
        ended = wait(self._process)
        if ended.code == STOPPED and self._told:
            time.sleep(GRACE)  # Slurm ends this job now; if it has put it into its queue again, it is not over
        return ended

    def checkpoint(self, *given: Any) -> Any:
        """Save and end; what goes on later is the same."""
        if self._process is not None:
            self._process.stop()
            latest = time.monotonic() + GRACE
            while not _is_over(self._process.pid) and time.monotonic() < latest:
                time.sleep(PAUSE)
        return _submitit().helpers.DelayedSubmission(Task(), *given)

    def _ended_by_slurm(self, number: int, frame: FrameType | None) -> None:
        self._told = True
        self._ended_by_the_sweep(number, frame)

    def _ended_by_the_sweep(self, number: int, frame: FrameType | None) -> None:
        if self._process is not None:
            self._process.stop()


def _is_over(pid: int) -> bool:
    """Whether a child has ended. Popen.poll cannot say so in a signal handler that has interrupted Popen.poll."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


class _Job:
    def __init__(self, place: OnSlurm, job: Any) -> None:
        self._place, self._job, self._since = place, job, time.monotonic()
        self._missed: float | None = None
        self._stopping = False

    def poll(self) -> Ended | None:
        job = self._job
        if job.paths.result_pickle.exists():
            try:
                ended: Ended = job.result()
                return ended
            except _submitit().core.utils.UncompletedJobError as error:
                return Ended(FAILED, f"job {job.job_id} failed: {str(error).strip()}")
        if not self._place.has_left(job, self._since, self._stopping):
            self._missed = None
            return None
        now = time.monotonic()
        self._missed = self._missed or now
        if now < self._missed + (0.0 if self._stopping else LATE):
            return None
        return Ended(FAILED, f"job {job.job_id} has left the queue without a result; see {job.paths.stderr}")

    def stop(self) -> None:
        self._stopping = True
        self._place.interrupt(self._job)

    def kill(self) -> None:
        self._job.cancel(check=False)


class _Refused:
    """An attempt that was over before it began."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended

    def poll(self) -> Ended:
        return self._ended

    def stop(self) -> None:
        """It is over."""

    def kill(self) -> None:
        """It is over."""
