"""Places that execute runs: this machine, a Ray cluster, a Slurm cluster. All of them execute our own entry point."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field

from softmatch.distributed.launching import usable_cpus
from softmatch.errors import InputError

FAILED, WRONG_USE = 1, 2
"""Exit codes of `softmatch train`, besides STOPPED."""
SHARED = "the store must be in a folder that all machines share, at the same path; choose another --out."
AT_ONCE = 200
"""Runs that a cluster is given at a time: it has a queue of its own."""


class Ended(NamedTuple):
    """How an attempt to make a run has ended.

    Attributes:
        code: as of `softmatch train`; −n: signal n has ended it.
        message: what the place says about it, where the log of the run cannot.
    """

    code: int
    message: str = ""

    def describe(self) -> str:
        """'ended with code 1', 'was ended by signal 9 (killed)', or what the place said."""
        if self.message:
            return self.message
        if self.code >= 0:
            return f"ended with code {self.code}"
        return f"was ended by signal {-self.code} ({(signal.strsignal(-self.code) or 'unknown').lower()})"


class Handle(Protocol):
    """An attempt that was started."""

    def poll(self) -> Ended | None:
        """How it has ended; None while it has not. Does not wait."""

    def stop(self) -> None:
        """Tell it to save and end; does not wait."""

    def kill(self) -> None:
        """End it at once."""


class Place(Protocol):
    """Where runs are executed, in a `with` block.

    Attributes:
        slots: attempts that may be started at a time.
        options: of `softmatch train` for every run here.
    """

    @property
    def slots(self) -> int: ...

    @property
    def options(self) -> Sequence[str]: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    def start(self, arguments: Sequence[str], log: Path) -> Handle:
        """Begin an attempt.

        Args:
            arguments: of our entry point.
            log: file that its output is added to; its first line there says that it has begun.
        """


class Where(BaseModel):
    """Where and how runs are executed: nothing here decides about their outcome."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    on: Literal["here", "ray", "slurm"] = Field(
        "here", description="here: processes on this machine. ray: tasks of a Ray cluster. slurm: jobs of a Slurm cluster."
    )
    processes: int | None = Field(
        None, ge=1, description="Runs at a time. Default: one a GPU, else one a core; on a cluster as many as it takes."
    )
    processes_per_run: int = Field(1, ge=1, description="Processes that train a run together, each with a share of every batch.")
    threads: int | None = Field(
        None, ge=1, description="CPU threads of each process. Default: this machine's cores divided by the runs; on Ray its CPUs."
    )
    retries: int = Field(2, ge=0, description="How often a run that failed is tried again, from its last checkpoint.")
    address: str | None = Field(
        None, description="Ray: head of a cluster that is there. Default: RAY_ADDRESS, or else a cluster of this machine alone."
    )
    cpus_per_run: float | None = Field(None, gt=0, description="Ray: CPUs of each process of a run. Default: 1.")
    gpus_per_run: float | None = Field(
        None, ge=0, description="Ray: GPUs of each process of a run. Default: 1 where the cluster has any."
    )
    slurm: dict[str, str] = Field(
        default_factory=dict,
        description="Slurm: options of sbatch, for example --slurm.partition gpu --slurm.time 120 --slurm.gpus 1 --slurm.cpus 4 "
        "--slurm.memory 16GB.",
    )


def open_place(where: Where, root: Path) -> Place:
    """The place of these options, to be entered.

    Args:
        root: of the store, which all machines must share.
    """
    _refuse_misplaced(where)
    number = where.processes_per_run
    if where.on == "ray":
        from softmatch.experiments.on_ray import OnRay

        cpus = where.cpus_per_run or 1.0
        return OnRay(root, where.address, cpus, where.gpus_per_run, number, where.processes or AT_ONCE, where.threads)
    if where.on == "slurm":
        from softmatch.experiments.on_slurm import OnSlurm

        return OnSlurm(root, where.slurm, number, where.processes or AT_ONCE, where.threads)
    from softmatch.experiments.here import Here, gpus

    slots = where.processes or max((len(gpus()) or usable_cpus()) // number, 1)
    return Here(slots, number, where.threads)


def thread_options(threads: int | None) -> list[str]:
    """Of `softmatch train`."""
    return [] if threads is None else ["--threads", str(threads)]


def process_options(processes: int) -> list[str]:
    """Of `softmatch train`."""
    return [] if processes == 1 else ["--processes", str(processes)]


def _refuse_misplaced(where: Where) -> None:
    """Raise InputError for an option of another place."""
    given = {"ray": ("address", "cpus_per_run", "gpus_per_run"), "slurm": ("slurm",)}
    for place, keys in given.items():
        for key in keys:
            if where.on != place and getattr(where, key) not in (None, {}):
                raise InputError(f"--{key.replace('_', '-')} is for --on {place}: give that too, or leave it out.")
