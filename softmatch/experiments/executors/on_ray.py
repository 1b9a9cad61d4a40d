"""Runs as tasks on a Ray cluster (extra `ray`). Ray retries nothing: a lost worker is a failed attempt that the sweep counts."""

import math
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from softmatch.errors import STOPPED, InputError, TrainingError
from softmatch.experiments.executors import AT_ONCE, FAILED, Ended, Executor, Job, Where, library
from softmatch.experiments.executors.here import execute

PASSED = ("AWS_", "FSSPEC_", "HF_", "HUGGINGFACE_", "TRANSFORMERS_", "SOFTMATCH_", "XDG_CACHE_HOME")
"""Prefixes of variables that say where caches and files by address are, and how to reach them; workers get them."""
LOCAL = {"include_dashboard": False, "object_store_memory": 80 * 2**20}  # the least that Ray takes
_ray = partial(library, "ray", "ray")


@contextmanager
def opened(where: Where, root: Path) -> Iterator[Executor]:
    """A running cluster, or a new one on this machine that ends with the sweep. A run of several processes is one task."""
    number, cpus = where.processes_per_run, where.cpus_per_run or 1.0
    with connected(where.address) as (ray, machines):
        some = any(has.get("GPU") for has in machines)
        gpus = float(some) if where.gpus_per_run is None else where.gpus_per_run
        _check_room(number, cpus, gpus, machines)
        passed = passed_on()
        all_gpus = gpus * number if gpus * number < 1 else math.ceil(gpus * number)  # Ray takes fractions below one only
        task = ray.remote(max_retries=0, num_cpus=cpus * number, num_gpus=all_gpus)(execute)

        def start(arguments: Sequence[str], log: Path) -> Job:
            run = task.options(name=log.stem).remote(list(arguments), log, passed, Path.cwd())
            return Job(partial(_poll, run), partial(ray.cancel, run), partial(ray.cancel, run, force=True))

        yield Executor(where.processes or AT_ONCE, where.train_options(max(int(cpus), 1)), start)


@contextmanager
def connected(address: str | None) -> Iterator[tuple[Any, list[dict[str, float]]]]:
    """Ray and what each machine of the cluster has: one at the address, or a new one on this machine that ends with the block."""
    ray = _ray()
    own = not ray.is_initialized()
    if own:
        _connect(address or os.environ.get("RAY_ADDRESS") or "local")
    try:
        yield ray, [node["Resources"] for node in ray.nodes() if node["Alive"]]
    finally:
        if own:
            ray.shutdown()


def passed_on() -> dict[str, str]:
    """Variables of this process that workers get too."""
    return {key: value for key, value in os.environ.items() if key.startswith(PASSED)}


def _check_room(number: int, cpus: float, gpus: float, machines: Sequence[Mapping[str, float]]) -> None:
    """Raise InputError if no machine has room for the processes of a run."""
    needs = [(name, needed) for name, needed in (("CPU", cpus), ("GPU", gpus)) if needed]
    most = max(min((math.floor(has.get(name, 0) / needed + 1e-9) for name, needed in needs), default=number) for has in machines)
    if most < number:
        raise InputError(
            f"a run asks for {number} process{'es' * (number > 1)} with {cpus:g} CPUs and {gpus:g} GPUs each, but a machine of "
            f"this Ray cluster has room for {most} at most. Lower --processes-per-run, --cpus-per-run or --gpus-per-run."
        )


def _poll(task: Any) -> Ended | None:
    ray = _ray()
    if not ray.wait([task], timeout=0)[0]:
        return None
    try:
        return Ended(*ray.get(task))
    except ray.exceptions.TaskCancelledError:
        return Ended(STOPPED)
    except ray.exceptions.RayError as error:
        return Ended(FAILED, f"its worker was lost: {reason(error)}")


def _connect(address: str) -> None:
    ray, local = _ray(), address == "local"
    if local:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere unless the user asks for it
    for attempt in (1, 2):  # a busy machine may be late for the first
        try:
            _knock(address)
            ray.init(address, log_to_driver=False, logging_level="ERROR", **(LOCAL if local else {}))
            return
        except Exception as error:  # Ray raises many kinds, also Exception itself
            if not local:
                raise InputError(
                    f"there is no Ray cluster at {address}: {reason(error)} Give --address HOST:PORT, or leave out --address "
                    "and RAY_ADDRESS to start a cluster on this machine."
                ) from error
            ray.shutdown()
            if attempt == 2:
                raise TrainingError(
                    f"cannot start a Ray cluster on this machine, in 2 attempts: {reason(error)} It may be too busy, or short "
                    "of memory or room in /tmp: try the same command again later, or leave out --on ray."
                ) from error


def _knock(address: str) -> None:
    """Raise OSError if nobody listens at HOST:PORT, where Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10.0).close()


def reason(error: Exception) -> str:
    """The first line of what Ray says that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
