"""Runs as jobs on a Slurm cluster, through submitit (extra `slurm`).

A job that is preempted or runs out of time saves, and Slurm requeues it: that is not a failed attempt.
"""

import math
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from softmatch.errors import STOPPED, InputError
from softmatch.experiments.executors import AT_ONCE, FAILED, Ended, Executor, Job, Where, library
from softmatch.experiments.executors.here import start_child

NAMES = {"cpus": "cpus_per_task", "gpus": "gpus_per_node", "memory": "mem", "name": "job_name"}
"""Short names of options of sbatch."""
TIME = re.compile(r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}")
LIMIT, CONTINUATIONS = 240, 1000
"""Default time limit of a job in minutes, and how often a job may run out of time and continue."""
LOOK, HURRY = 20.0, 2.0
"""Seconds between two looks at Slurm's queue; and while the sweep is stopping."""
LATE, GRACE = 15.0, 120.0
"""Seconds in which the result of a job may still appear on a shared file system, and in which Slurm ends or requeues one."""
_submitit = partial(library, "submitit", "slurm")


@contextmanager
def opened(where: Where, root: Path) -> Iterator[Executor]:
    """Jobs submitted from this machine; submitit's files are in slurm/ of the store. A run of several processes is one job."""
    given = {NAMES.get(key, key).replace("-", "_"): value for key, value in where.slurm.items()}
    sbatch = {"job_name": "softmatch", "time": f"{LIMIT}", **given}
    if not TIME.fullmatch(sbatch["time"]):
        raise InputError(f"--slurm.time {sbatch['time']}: give minutes, HOURS:MINUTES:SECONDS or DAYS-HOURS.")
    cpus, submitit, queue = given.get("cpus_per_task", ""), _submitit(), _Queue()
    srun = [f"--cpus-per-task={cpus}"] if cpus else []  # which srun does not take from sbatch
    try:
        executor = submitit.AutoExecutor(root / "slurm", cluster="slurm", slurm_max_num_timeout=CONTINUATIONS)
        executor.update_parameters(timeout_min=LIMIT, slurm_additional_parameters=sbatch, slurm_srun_args=srun)
    except RuntimeError as error:
        raise InputError(f"--on slurm needs a machine that can submit jobs: {error}") from error

    def start(arguments: Sequence[str], log: Path) -> Job:
        try:
            job = _Job(queue, executor.submit(Task(), list(arguments), log, Path.cwd()))
            return Job(job.poll, job.stop, job.kill)
        except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError) as error:
            raise OSError(str(error).strip()) from error

    threads = max(int(cpus) // where.processes_per_run, 1) if cpus.isdecimal() else None
    yield Executor(where.processes or AT_ONCE, where.train_options(threads), start)


class _Queue:
    """The jobs that Slurm has, asked for now and then. Accounting (sacct), which many clusters lack, is not asked."""

    def __init__(self) -> None:
        self.look, self._asked = LOOK, -math.inf
        self._jobs: set[str] | None = None

    def has_lost(self, job: str, submitted: float) -> bool:
        """True if a job submitted at that time is no longer there."""
        if (now := time.monotonic()) > self._asked + self.look:
            self._asked = now
            found = subprocess.run(["squeue", "--me", "--noheader", "--format=%A"], check=False, capture_output=True, text=True)
            self._jobs = set(found.stdout.split()) if found.returncode == 0 else None  # Slurm itself may be away for a while
        return self._jobs is not None and self._asked > submitted and job not in self._jobs


class _Job:
    """A run on the cluster."""

    def __init__(self, queue: _Queue, job: Any) -> None:
        self._queue, self._job, self._late = queue, job, LATE
        self._submitted = self._seen = time.monotonic()

    def poll(self) -> Ended | None:
        job, now = self._job, time.monotonic()
        if job.paths.result_pickle.exists():
            try:
                ended: Ended = job.result()
                return ended
            except _submitit().core.utils.UncompletedJobError as error:
                return Ended(FAILED, f"job {job.job_id} failed: {str(error).strip()}")
        if not self._queue.has_lost(job.job_id, self._submitted):
            self._seen = now
        if now <= self._seen + self._late:
            return None
        return Ended(FAILED, f"job {job.job_id} has left the queue without a result; see {job.paths.stderr}")

    def stop(self) -> None:
        self._late, self._queue.look = 0.0, HURRY
        for which in ("--state=PENDING", "--signal=INT"):  # a job that waits is taken out of the queue
            subprocess.run(["scancel", which, self._job.job_id], check=False, capture_output=True)

    def kill(self) -> None:
        self._job.cancel(check=False)


class Task:
    """Function of a job; submitit calls `checkpoint` when Slurm is about to end it."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._by_slurm = False

    def __call__(self, arguments: Sequence[str], log: Path, folder: Path) -> Ended:
        requeue = signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # inherited by the child: Slurm sends it to all processes
        self._child = start_child(arguments, log, folder=folder)
        signal.signal(signal.SIGUSR2, requeue)
        for number in (signal.SIGTERM, signal.SIGINT):  # from Slurm, and from the sweep
            signal.signal(number, self._stop)
        code = self._child.wait()
        if code == STOPPED and self._by_slurm:
            time.sleep(GRACE)  # Slurm ends this job now; if it has requeued it, it is not over
        return Ended(code)

    def checkpoint(self, *given: Any) -> Any:
        """Let the run save and end, and give what Slurm requeues."""
        if self._child is not None:
            self._child.terminate()
            with suppress(ChildProcessError):  # this may have interrupted Popen.wait, which cannot be called again then
                os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOWAIT)
        return _submitit().helpers.DelayedSubmission(Task(), *given)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._by_slurm |= number == signal.SIGTERM
        if self._child is not None:
            self._child.terminate()
