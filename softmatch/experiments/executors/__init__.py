"""Executors run command lines in child processes somewhere, and report how they ended: here, on Ray or on Slurm."""

import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from softmatch.errors import InputError

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130
"""Exit codes of `softmatch train`, in addition to STOPPED."""
AT_ONCE = 200
"""Default number of jobs that a cluster is given at a time; it has a queue of its own."""
HEADING = "=== "
"""Start of the line in a log that says where and when an attempt began."""
SHARED = "the store must be in a folder that all machines share at the same path; choose another --out."
MODULES = {"here": "here", "ray": "on_ray", "slurm": "on_slurm"}
OWN_OPTIONS = {"address": "ray", "cpus_per_run": "ray", "gpus_per_run": "ray", "slurm": "slurm"}


class Where(BaseModel):
    """Where and how runs are executed; nothing here changes their results."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    on: Literal["here", "ray", "slurm"] = Field("here", description="This machine, a Ray cluster or a Slurm cluster.")
    processes: int | None = Field(None, ge=1, description="Runs at a time. Default: one per GPU or core; 200 on a cluster.")
    processes_per_run: int = Field(1, ge=1, description="Processes that train each run together, on one machine.")
    threads: int | None = Field(None, ge=1, description="CPU threads of each process. Default: its share of the CPUs.")
    retries: int = Field(2, ge=0, description="How often a failed run is retried, from its last checkpoint.")
    address: str | None = Field(None, description="Ray: a running cluster. Default: RAY_ADDRESS, or a new one on this machine.")
    cpus_per_run: float | None = Field(None, gt=0, description="Ray: CPUs for each process of a run. Default: 1.")
    gpus_per_run: float | None = Field(None, ge=0, description="Ray: GPUs for each process of a run. Default: 1, if it has any.")
    slurm: dict[str, str] = Field({}, description="Slurm: options of sbatch, as --slurm.gpus 1 --slurm.cpus 4 --slurm.time 120.")

    def train_options(self, threads: int | None) -> list[str]:
        """Options of `softmatch train` for every run, with the executor's default of threads."""
        number = self.threads or threads
        options = [] if number is None else ["--threads", f"{number}"]
        return options if self.processes_per_run == 1 else [*options, "--processes", f"{self.processes_per_run}"]


class Ended(NamedTuple):
    """How a job ended: the exit code of `softmatch train` (−n if signal n ended it), and what the executor says about it."""

    code: int
    message: str = ""

    def describe(self) -> str:
        """'ended with code 1', 'was ended by signal 9 (killed)', or the executor's message."""
        if self.message or self.code >= 0:
            return self.message or f"ended with code {self.code}"
        return f"was ended by signal {-self.code} ({(signal.strsignal(-self.code) or 'unknown').lower()})"


@dataclass(frozen=True)
class Job:
    """A command line that was started: `poll` says how it ended, or None; `stop` tells it to save and end; none of them waits."""

    poll: Callable[[], Ended | None]
    stop: Callable[[], object]
    kill: Callable[[], object]


@dataclass(frozen=True)
class Executor:
    """A place that runs jobs.

    Attributes:
        options: options of `softmatch train` for all of them.
        start: starts a job from the arguments of `softmatch` and the log that its output is appended to; raises OSError.
    """

    slots: int
    options: Sequence[str]
    start: Callable[[Sequence[str], Path], Job]


def open_executor(where: Where, root: Path) -> AbstractContextManager[Executor]:
    """The executor that the options choose, for a store in this folder."""
    refuse_unread(where)
    opened: AbstractContextManager[Executor] = import_module(f"{__name__}.{MODULES[where.on]}").opened(where, root.resolve())
    return opened


def refuse_unread(where: Where) -> None:
    """Raise InputError for an option of another executor."""
    for key, name in OWN_OPTIONS.items():
        if where.on != name and getattr(where, key) not in (None, {}):
            raise InputError(f"--{key.replace('_', '-')} only works with --on {name}: add that, or leave it out.")


def library(name: str, on: str) -> Any:
    """An optional library that an executor needs."""
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(f"--on {on} needs {name}, which is not installed: pip install 'softmatch[{on}]'.") from error
