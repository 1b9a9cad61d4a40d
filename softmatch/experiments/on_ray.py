"""Runs as tasks of a Ray cluster (extra `ray`). A task starts our own entry point in a process that ends with its worker.

Ray itself tries nothing again: a worker that is lost is a lost attempt of the run, and the sweep counts and reports it.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from uuid import uuid4

from softmatch.distributed.launching import free_port
from softmatch.errors import STOPPED, InputError, TrainingError
from softmatch.experiments.child import LONGEST_SAVING
from softmatch.experiments.places import FAILED, SHARED, Ended, Handle, thread_options
from softmatch.experiments.starting import execute

PASSED = ("HF_", "HUGGINGFACE_", "TRANSFORMERS_", "SOFTMATCH_", "XDG_CACHE_HOME")
"""Beginnings of variables that say where caches are and whether the hub may be asked: runs see them as this process does."""
LONGEST_CONNECTING = 10.0
"""Seconds in which the head of a cluster must answer; Ray itself would go on trying for minutes."""
ADVICE = "Give --address HOST:PORT; without it, and without RAY_ADDRESS, a cluster of this machine is started."
QUIET: Mapping[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
SMALLEST_STORE = 80 * 2**20
"""Bytes of Ray's store of objects, of which nothing here makes use: the least that Ray takes."""
ATTEMPTS = 2
"""To start a cluster of this machine: one that is busy may be late for the first."""
LONGEST_CHECK = 60.0
"""Seconds in which every machine must have looked for the store."""


class OnRay:
    """A cluster that is there, or one of this machine that is started and ended here.

    Args:
        root: of the store.
        address: of a cluster. Default: RAY_ADDRESS, then a new cluster of this machine. One that this process is connected to
            already is used as it is.
        cpus, gpus: of each process of a run. Default: a GPU where the cluster has any.
        ranks: processes that train a run together, each a task, wherever there is room.
        slots: runs that the cluster is given at a time.
        threads: of each process. Default: its CPUs.
    """

    def __init__(
        self,
        root: Path,
        address: str | None = None,
        cpus: float = 1.0,
        gpus: float | None = None,
        ranks: int = 1,
        slots: int = 1,
        threads: int | None = None,
    ) -> None:
        self.slots = slots
        self.options = thread_options(threads or max(int(cpus), 1))
        self._root, self._address, self._ranks = root.resolve(), address, ranks
        self._needs: dict[str, Any] = {"num_cpus": cpus, "num_gpus": gpus, "max_retries": 0}
        self._started = False

    def __enter__(self) -> Self:
        ray = _ray()
        if not ray.is_initialized():
            _connect(self._address or os.environ.get("RAY_ADDRESS") or "local")
            self._started = True
        if self._needs["num_gpus"] is None:
            self._needs["num_gpus"] = float(ray.cluster_resources().get("GPU", 0) > 0)
        try:
            self._check()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._started:
            _ray().shutdown()
            self._started = False

    def start(self, arguments: Sequence[str], log: Path) -> Handle:
        if self._ranks > 1:
            return _Ranks(self._ranks, self._needs, arguments, log)
        task = _ray().remote(**self._needs)(execute)
        return _Task(task.options(name=log.stem).remote(list(arguments), log, _passed(), Path.cwd()))

    def _check(self) -> None:
        """Raise InputError where a machine cannot hold a run, or does not see the store."""
        ray, nodes = _ray(), [node for node in _ray().nodes() if node["Alive"]]
        cpus, gpus = self._needs["num_cpus"], self._needs["num_gpus"]
        room = sum(_room(node, cpus, gpus) for node in nodes)
        if room < self._ranks:
            asked = "a run asks for one process" if self._ranks == 1 else f"a run asks for {self._ranks} processes"
            raise InputError(
                f"{asked} with {cpus:g} CPUs and {gpus:g} GPUs each, and this Ray cluster has room for {room:g}: "
                "lower --processes-per-run, --cpus-per-run or --gpus-per-run, or take a larger cluster."
            )
        self._root.mkdir(parents=True, exist_ok=True)
        marker = self._root / f".shared-{uuid4().hex}"
        marker.touch()
        try:
            looking = {_on(node["NodeID"], 0)(_answer).remote(marker): node["NodeManagerAddress"] for node in nodes}
            ready, late = ray.wait(list(looking), num_returns=len(looking), timeout=LONGEST_CHECK)
            try:
                blind = [looking[each] for each in ready if not _came(ray.get(each))] + [looking[each] for each in late]
            except ray.exceptions.RayError as error:
                raise InputError(
                    f"a machine of the Ray cluster cannot run softmatch: {_reason(error)} Install the same on all of them."
                ) from error
            if blind:
                raise InputError(f"{', '.join(blind)} of the Ray cluster cannot read and write {self._root}: {SHARED}")
        finally:
            marker.unlink()


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InputError("--on ray needs Ray, which is not installed: pip install 'softmatch[ray]'.") from error
    return ray


def _passed() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key.startswith(PASSED)}


def _refuse_silent(address: str) -> None:
    """Raise InputError where nobody listens at HOST:PORT."""
    host, colon, port = address.rpartition(":")
    if not colon or "/" in address or not port.isdecimal():
        return  # auto, or ray://…
    try:
        socket.create_connection((host.strip("[]"), int(port)), LONGEST_CONNECTING).close()
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"there is no Ray cluster at {address}: {reason}. {ADVICE}") from error


def _connect(address: str) -> None:
    if address == "local":
        _begin_local()
        return
    _refuse_silent(address)
    try:
        _ray().init(address, **QUIET)
    except Exception as error:  # Ray raises many kinds, also Exception itself
        raise InputError(f"there is no Ray cluster at {address}: {_reason(error)} {ADVICE}") from error


def _begin_local() -> None:
    """Start a cluster of this machine."""
    ray = _ray()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere unless the user asks for it
    for attempt in range(1, ATTEMPTS + 1):
        try:
            ray.init("local", include_dashboard=False, object_store_memory=SMALLEST_STORE, **QUIET)
            return
        except Exception as error:  # Ray raises many kinds, also Exception itself
            ray.shutdown()  # what was begun
            if attempt == ATTEMPTS:
                raise TrainingError(
                    f"no Ray cluster of this machine could be started, in {ATTEMPTS} attempts: {_reason(error)} The machine may "
                    "be too busy, or short of memory or room in /tmp: give the same command again later, or leave --on ray out."
                ) from error


def _room(node: dict[str, Any], cpus: float, gpus: float) -> float:
    """How many processes fit on a machine."""
    there: dict[str, float] = node["Resources"]
    fitting = [there.get(name, 0.0) / needed for name, needed in (("CPU", cpus), ("GPU", gpus)) if needed]
    return math.floor(min(fitting) + 1e-9) if fitting else math.inf


def _on(node: str, cpus: float) -> Callable[[Any], Any]:
    """What makes a task of a function that is run on that machine."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node, soft=False)
    make: Callable[[Any], Any] = _ray().remote(num_cpus=cpus, max_retries=0, scheduling_strategy=there)
    return make


def _answer(marker: Path) -> Path | None:
    """On another machine: write beside the marker, if it is there."""
    answer = marker.with_name(f"{marker.name}-{uuid4().hex}")
    try:
        if marker.is_file():
            answer.touch()
            return answer
    except OSError:
        pass
    return None


def _came(answer: Path | None) -> bool:
    """Whether an answer is here too; it is removed."""
    if answer is None or not answer.is_file():
        return False
    answer.unlink()
    return True


class _Task:
    """A run in one task."""

    def __init__(self, task: Any) -> None:
        self._task = task

    def poll(self) -> Ended | None:
        ray = _ray()
        if not ray.wait([self._task], timeout=0)[0]:
            return None
        try:
            ended: Ended = ray.get(self._task)
            return ended
        except ray.exceptions.TaskCancelledError:
            return Ended(STOPPED)
        except ray.exceptions.RayError as error:
            return Ended(FAILED, f"its worker was lost: {_reason(error)}")

    def stop(self) -> None:
        _ray().cancel(self._task)

    def kill(self) -> None:
        _ray().cancel(self._task, force=True)


def _reason(error: Exception) -> str:
    """The first line of what Ray says that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


class _Spot(NamedTuple):
    """Where a rank is: machine, address, a free port, GPUs."""

    node: str
    address: str
    port: int
    gpus: tuple[str, ...]


def _spot() -> _Spot:
    ray = _ray()
    gpus = tuple(str(each) for each in ray.get_gpu_ids())
    return _Spot(ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address(), free_port(), gpus)


def environments(spots: Sequence[_Spot]) -> list[dict[str, str]]:
    """What torchrun would tell each rank about itself and the others.

    A rank sees the GPUs of all ranks of its machine and takes that of its number there, as `distributed.devices` has it.
    """
    found, first = [], spots[0]
    for rank, spot in enumerate(spots):
        together = [position for position, other in enumerate(spots) if other.node == spot.node]
        place = {
            "RANK": rank,
            "WORLD_SIZE": len(spots),
            "LOCAL_RANK": together.index(rank),
            "LOCAL_WORLD_SIZE": len(together),
            "MASTER_ADDR": first.address,
            "MASTER_PORT": first.port,
        }
        if gpus := [gpu for position in together for gpu in spots[position].gpus]:
            place["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        found.append({key: str(value) for key, value in place.items()})
    return found


class _Ranks:
    """A run in several tasks, which have their room at the same time or not at all. When one is lost, all are ended."""

    def __init__(self, number: int, needs: dict[str, Any], arguments: Sequence[str], log: Path) -> None:
        from ray.util.placement_group import placement_group

        self._needs, self._arguments, self._log, self._folder = needs, list(arguments), log, Path.cwd()
        self._room = placement_group([{"CPU": needs["num_cpus"], "GPU": needs["num_gpus"]}] * number, strategy="PACK")
        self._spots = [self._task(rank, _spot).remote() for rank in range(number)]
        self._ranks: list[_Task] = []
        self._ended: dict[int, Ended] = {}
        self._kill_at: float | None = None
        self._bad: Ended | None = None

    def _task(self, rank: int, function: Callable[..., Any]) -> Any:
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        there = PlacementGroupSchedulingStrategy(self._room, rank)
        return _ray().remote(**self._needs)(function).options(name=f"{self._log.stem}, rank {rank}", scheduling_strategy=there)

    def poll(self) -> Ended | None:
        if not self._ranks and self._bad is None and not self._begin():
            return None
        for rank, task in enumerate(self._ranks):
            if rank not in self._ended and (ended := task.poll()) is not None:
                self._ended[rank] = ended
                if ended.code and self._bad is None:
                    self._bad = ended
                    self.stop()
        if len(self._ended) < len(self._ranks):
            if self._kill_at is not None and time.monotonic() > self._kill_at:
                self._kill_tasks()
            return None
        self._leave_room()
        return self._bad or Ended(0)

    def _begin(self) -> bool:
        """Start all ranks, once it is known where they will be; whether there is something to look at now."""
        ray = _ray()
        if len(ray.wait(self._spots, num_returns=len(self._spots), timeout=0)[0]) < len(self._spots):
            return False
        try:
            spots = ray.get(self._spots)
        except ray.exceptions.RayError as error:
            self._bad = Ended(FAILED, f"its worker was lost: {_reason(error)}")
            return True
        for rank, environment in enumerate(environments(spots)):
            task = self._task(rank, execute).remote(self._arguments, self._log, _passed() | environment, self._folder)
            self._ranks.append(_Task(task))
        return True

    def stop(self) -> None:
        if not self._ranks:
            self._bad = Ended(STOPPED)
        for rank, task in enumerate(self._ranks):
            if rank not in self._ended:
                task.stop()
        self._kill_at = self._kill_at or time.monotonic() + LONGEST_SAVING

    def kill(self) -> None:
        self._kill_tasks()
        self._leave_room()

    def _kill_tasks(self) -> None:
        for rank, task in enumerate(self._ranks):
            if rank not in self._ended:
                task.kill()

    def _leave_room(self) -> None:
        from ray.util.placement_group import remove_placement_group

        remove_placement_group(self._room)
