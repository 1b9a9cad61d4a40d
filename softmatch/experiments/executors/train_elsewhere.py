"""`softmatch train --on ray` and `--on slurm`: the same command, executed by a cluster, resumed after failures."""

import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from softmatch.distributed.launching import free_port
from softmatch.errors import INTERRUPTED, STOPPED, InputError
from softmatch.experiments.executors import (
    FAILED,
    HEADING,
    SHARED,
    WRONG_USE,
    Executor,
    Where,
    library,
    open_executor,
    refuse_unread,
)
from softmatch.experiments.executors.here import start_child
from softmatch.experiments.executors.on_ray import connected, passed_on, reason

PAUSE = 0.2
"""Seconds between two looks at a job and its log."""
RESUME = ("--resume", "auto")


def train_elsewhere(where: Where, arguments: Sequence[str]) -> int:
    """Run `softmatch` with these arguments on a cluster, and show what its first process prints; the exit code.

    Args:
        where: the cluster; `processes_per_run` is the number of processes that train together.
        arguments: of `softmatch train`. The run is resumed from its last checkpoint after a failure, `where.retries` times.
    """
    refuse_unread(where)
    resumed = [*arguments] if any(word.partition("=")[0] == "--resume" for word in arguments) else [*arguments, *RESUME]
    folder = Path(mkdtemp(prefix=".softmatch-", dir=Path.cwd()))  # which all machines share, as they do the run
    run = _on_ray if where.on == "ray" else _as_job
    try:
        return run(where, resumed, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _as_job(where: Where, arguments: Sequence[str], folder: Path) -> int:
    """One job of an executor, which starts the processes on one machine."""
    log, code = folder / "log", FAILED
    with open_executor(where, folder) as executor, _shown(log):
        for _ in range(where.retries + 1):
            code = _wait(executor, [*arguments, *executor.options], log)
            if code in (0, WRONG_USE, STOPPED, INTERRUPTED):
                break
    return code


def _wait(executor: Executor, arguments: Sequence[str], log: Path) -> int:
    job = executor.start(arguments, log)
    try:
        while (ended := job.poll()) is None:
            time.sleep(PAUSE)
    except KeyboardInterrupt:
        job.stop()  # it saves, and ends
        raise
    if ended.message:
        print(f"softmatch: {ended.describe()}", file=sys.stderr)
    return ended.code


def _on_ray(where: Where, arguments: Sequence[str], folder: Path) -> int:
    """A group of workers of Ray Train, on as many machines as it takes; each executes the command as torchrun would."""
    library("ray.train", "ray")
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    ended, log = folder / "ended", folder / "log-0"
    with connected(where.address) as (ray, machines), _shown(log):
        cpus = where.cpus_per_run or 1.0
        has_gpus = any(machine.get("GPU") for machine in machines)
        gpus = float(has_gpus) if where.gpus_per_run is None else where.gpus_per_run
        resources = {name: needed for name, needed in (("CPU", cpus), ("GPU", gpus)) if needed}
        for name, needed in resources.items():
            if (there := sum(machine.get(name, 0.0) // needed for machine in machines)) < where.processes_per_run:
                raise InputError(
                    f"--processes {where.processes_per_run}: this Ray cluster has room for {there:.0f}, with {needed:g} {name} "
                    "each."
                )
        given = {"arguments": [*arguments], "folder": str(folder), "environment": passed_on(), "home": str(Path.cwd())}
        trainer = TorchTrainer(
            work,
            train_loop_config=given,
            torch_config=TorchConfig(backend="gloo"),  # of the workers, which only say where their processes meet
            scaling_config=ScalingConfig(
                num_workers=where.processes_per_run, use_gpu=gpus > 0, resources_per_worker=resources, placement_strategy="PACK"
            ),
            run_config=RunConfig(
                name="train", storage_path=str(folder / "ray"), failure_config=FailureConfig(max_failures=where.retries)
            ),
        )
        try:
            trainer.fit()
        except (ray.train.TrainingFailedError, ray.exceptions.RayError) as error:
            print(f"softmatch: {reason(error)}", file=sys.stderr)
            return FAILED
        return int(ended.read_text())


def work(given: Mapping[str, Any]) -> None:
    """A worker of Ray Train: one of the processes that train together, as a child with the variables that torchrun sets.

    Raises:
        RuntimeError: the process failed, so that Ray Train starts the group again. Wrong use is no reason for that.
    """
    import ray.train
    import torch.distributed as dist

    context, folder = ray.train.get_context(), Path(given["folder"])
    rank = context.get_world_rank()
    if not folder.is_dir():
        raise RuntimeError(f"{socket.gethostname()} has no folder {folder}: {SHARED}")
    port: list[int] = [free_port()]
    dist.broadcast_object_list(port, 0)  # Ray's own group uses the one in MASTER_PORT
    numbers = {
        "RANK": rank,
        "WORLD_SIZE": context.get_world_size(),
        "LOCAL_RANK": context.get_local_rank(),
        "LOCAL_WORLD_SIZE": context.get_local_world_size(),
        "MASTER_PORT": port[0],
    }
    environment = {**given["environment"], **{name: str(number) for name, number in numbers.items()}}
    # A worker that ends takes its process with it at once: the next attempt needs the lock of the run.
    child = start_child(given["arguments"], folder / f"log-{rank}", environment, Path(given["home"]), ending=signal.SIGKILL)
    code = child.wait()
    if rank == 0:
        (folder / "ended").write_text(str(code))
    if code not in (0, WRONG_USE, STOPPED):
        log = (folder / f"log-{rank}").read_text(errors="replace").splitlines()
        raise RuntimeError(f"process {rank + 1} ended with code {code}: {log[-1] if log else ''}")


@contextmanager
def _shown(log: Path) -> Iterator[None]:
    """Print what is appended to a log, from now until the end of the block."""
    over = threading.Event()
    thread = threading.Thread(target=partial(_follow, log, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _follow(log: Path, over: threading.Event) -> None:
    place = 0
    while True:
        last = over.is_set()
        if log.exists():
            with log.open("rb") as file:
                file.seek(place)
                lines = file.read().splitlines(keepends=True)
            whole = lines if last else [line for line in lines if line.endswith(b"\n")]
            place += sum(map(len, whole))
            shown = [line for line in whole if not line.startswith(HEADING.encode())]
            sys.stdout.write(b"".join(shown).decode(errors="replace"))
            sys.stdout.flush()
        if last:
            return
        over.wait(PAUSE)
