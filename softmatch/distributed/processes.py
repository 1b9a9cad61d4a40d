"""Several processes that train one network: each runs it on its share of a batch, and all gather the results.

`share` cuts a batch into shares. The network sees its process's share. Methods that learn from sums over the batch get these
(`summed`), in a message whose size does not depend on the batch; for all others logits and features are gathered
(`gather_rows`). Either way every process keeps the same method state without sending it, and has the gradient of its own rows;
their sum over the processes (`sum_gradients`) is the gradient of the loss of the whole batch.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from softmatch.errors import InputError, ProcessLost
from softmatch.seeds import derive

LONGEST_MEETING = timedelta(minutes=10)
"""Time limit for all processes to join."""
LONGEST_STEP = timedelta(minutes=30)
"""Time limit of one step, evaluation or file. A process that dies is noticed at once, a machine that loses power after this."""
LONGEST_PREPARATION = timedelta(hours=6)
"""Time limit for reading and preparing data, which one process per machine does while the others wait."""
LOST = ("gloo/transport", "connection closed by peer", "connection reset", "nccl", "tcpstore", "socket")
"""Parts of the messages of errors that mean another process cannot be reached."""


@dataclass(frozen=True)
class World:
    """Number of this process, and number of all processes."""

    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        """True for the process that writes files and prints."""
        return self.rank == 0


def world() -> World:
    """The present process group; a single process if there is none."""
    if not (dist.is_available() and dist.is_initialized()):
        return World()
    return World(dist.get_rank(), dist.get_world_size())


def local_rank() -> int:
    """Number of this process on its machine."""
    return from_environment("LOCAL_RANK", 0)


def from_environment(name: str, default: int) -> int:
    """A number set by torchrun or `--processes`."""
    text = os.environ.get(name, str(default))
    if not text.isdecimal():
        raise InputError(f"the environment variable {name} is {text!r}, which is not a number as set by torchrun. Unset it.")
    return int(text)


@contextmanager
def joined() -> Iterator[World]:
    """Join the processes that torchrun or `--processes` describes in the environment, if any."""
    if from_environment("WORLD_SIZE", 1) < 2 or dist.is_initialized():
        yield world()
        return
    _join()
    try:
        yield world()
    except RuntimeError as error:
        if isinstance(error, ProcessLost) or not is_lost_process(error):
            raise
        raise ProcessLost(f"another of the {world().size} processes has ended: {str(error).splitlines()[0]}") from error
    finally:
        _preparation.clear()
        dist.destroy_process_group()


_preparation: list[dist.ProcessGroup] = []
"""The same processes in a group with a longer time limit."""


def _join() -> None:
    if torch.cuda.is_available() and local_rank() < torch.cuda.device_count():
        torch.cuda.set_device(local_rank())
    try:
        store, rank, size = next(rendezvous("env://", timeout=LONGEST_MEETING))
        meeting = PrefixStore(_meeting(store, rank, size), store)
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=meeting, rank=rank, world_size=size, timeout=LONGEST_STEP)
        _preparation.append(dist.new_group(backend="gloo", timeout=LONGEST_PREPARATION))
    except (ValueError, RuntimeError) as error:  # torch raises RuntimeError when processes cannot meet
        where = ", ".join(f"{key}={os.environ.get(key)}" for key in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))
        raise InputError(
            f"the training processes cannot reach each other ({where}): {str(error).strip().splitlines()[0]}"
        ) from error


def _meeting(store: Store, rank: int, size: int) -> str:
    """A name for this meeting of processes, on which all agree.

    After a failure torchrun restarts the processes with a store that still has the addresses of the dead ones. So the first
    process publishes a new name, and the others ask its owner for an answer, which a dead process does not give.
    """
    own, until = uuid4().hex, time.monotonic() + LONGEST_MEETING.total_seconds()
    if rank == 0:
        store.set("meeting", own)
        for other in range(1, size):
            store.wait([f"{own}/asks/{other}"], LONGEST_MEETING)
            store.set(f"{own}/answer/{other}", str(store.get(f"{own}/asks/{other}"), "ascii"))
        return own
    while time.monotonic() < until:
        if store.check(["meeting"]):
            name = str(store.get("meeting"), "ascii")
            store.set(f"{name}/asks/{rank}", own)
            answer = f"{name}/answer/{rank}"
            for _ in range(20):
                if store.check([answer]) and store.get(answer).decode() == own:
                    return name
                time.sleep(0.05)
        else:
            time.sleep(0.05)
    raise RuntimeError("the first process did not answer")


def is_lost_process(error: BaseException) -> bool:
    """True if an error means that another process can no longer be reached."""
    text = str(error).lower()
    return world().size > 1 and isinstance(error, RuntimeError) and any(words in text for words in LOST)


def share(number: int, among: World | None = None) -> slice:
    """This process's rows of a batch of `number`: shares differ by at most one row, as in `torch.tensor_split`."""
    of = among or world()
    size, more = divmod(number, of.size)
    start = of.rank * size + min(of.rank, more)
    return slice(start, start + size + (of.rank < more))


def numbers_of_rows(own: Sequence[int], device: torch.device | None = None) -> list[list[int]]:
    """Number of rows of every process, for each of several tensors of which this process has `own` rows.

    Args:
        device: where the numbers are exchanged, for a process group that serves only one kind of device; by default the host.
    """
    if world().size == 1:
        return [[number] for number in own]
    mine = torch.tensor(own, dtype=torch.int64, device=device)
    found = [torch.empty_like(mine) for _ in range(world().size)]
    dist.all_gather(found, mine)
    return torch.stack(found).T.tolist()


def gather_rows(value: Tensor, numbers: Sequence[int]) -> Tensor:
    """Concatenate the rows of all processes, which have `numbers` of them.

    The gradient reaches this process's own rows, because every process computes the same loss.
    """
    if len(numbers) == 1:
        return value
    own, longest = value.detach(), max(numbers)
    padded = torch.cat([own, own.new_zeros((longest - len(own), *own.shape[1:]))]) if len(own) < longest else own.contiguous()
    parts = [torch.empty_like(padded) for _ in numbers]
    dist.all_gather(parts, padded)
    rows = [part[:number] for part, number in zip(parts, numbers, strict=True)]
    rows[world().rank] = value
    return torch.cat(rows)


def sum_gradients(module: nn.Module) -> None:
    """Replace each gradient by its sum over the processes, in one message. All have gradients of the same parameters."""
    sum_in_place([parameter.grad for parameter in module.parameters() if parameter.grad is not None])


class _Summed(torch.autograd.Function):
    """The sum over the processes, each of which has the gradient of its own part: all compute the same of the sum."""

    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:
        whole = own.clone()
        dist.all_reduce(whole)
        return whole

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0]


def summed(own: Tensor) -> Tensor:
    """The sum of a tensor over the processes, the same in all of them; the gradient reaches this process's part."""
    if world().size == 1:
        return own
    whole: Tensor = _Summed.apply(own)  # type: ignore[no-untyped-call]  # torch's own signature
    return whole


def average_running_statistics(module: nn.Module) -> None:
    """Replace the running statistics of unsynchronised batch normalisation by their mean over the processes."""
    norms = [each for each in module.modules() if isinstance(each, nn.modules.batchnorm._BatchNorm) and each.track_running_stats]
    apart = [norm for norm in norms if not isinstance(norm, nn.SyncBatchNorm) and not getattr(norm, "synchronised", False)]
    buffers = [buffer for norm in apart for buffer in (norm.running_mean, norm.running_var) if buffer is not None]
    sum_in_place(buffers)
    for buffer in buffers:
        buffer /= world().size


def sum_in_place(tensors: Sequence[Tensor]) -> None:
    """Replace tensors by their sums over the processes, in one message."""
    if world().size == 1 or not tensors:
        return
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    dist.all_reduce(flat)
    for tensor, part in zip(tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(part.view_as(tensor))


def largest(value: int) -> int:
    """The largest value of all processes, exchanged on the host so that no device is waited for."""
    if world().size == 1:
        return value
    found = torch.tensor([value])
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return int(found)


def tell(text: str | None) -> str:
    """Broadcast a text from the main process; the others pass None."""
    if world().size == 1:
        return text or ""
    content = torch.tensor(list((text or "").encode()), dtype=torch.uint8)
    length = torch.tensor([len(content)])
    dist.broadcast(length, 0)
    if not world().is_main:
        content = torch.empty(int(length), dtype=torch.uint8)
    dist.broadcast(content, 0)
    return bytes(content.tolist()).decode()


def main_says(make: Callable[[], str]) -> str:
    """Run `make` in the main process only and return its text everywhere; its InputError is raised everywhere."""
    if world().size == 1:
        return make()
    said, wrong = "", None
    if world().is_main:
        try:
            said = make()
        except InputError as error:
            wrong = str(error)
    heard = json.loads(tell(json.dumps([said, wrong]) if world().is_main else None))
    if heard[1] is not None:
        raise InputError(heard[1])
    return str(heard[0])


def tell_tensors(tensors: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
    """Broadcast named host tensors from the main process, without a shared file system; the others pass None."""
    if world().size == 1:
        return dict(tensors or {})
    mine = {name: value.detach().cpu().contiguous() for name, value in (tensors or {}).items()}
    about = [[name, str(value.dtype).removeprefix("torch."), list(value.shape)] for name, value in mine.items()]
    found: dict[str, Tensor] = {}
    for name, dtype, shape in json.loads(tell(json.dumps(about) if world().is_main else None)):
        value = mine[name] if world().is_main else torch.empty(shape, dtype=getattr(torch, dtype))
        if value.numel():
            dist.broadcast(value.reshape(-1).view(torch.uint8), 0)
        found[name] = value
    return found


@contextmanager
def first_of_machine() -> Iterator[None]:
    """Run the body in one process of each machine first, then in the others, which find its results in caches."""
    if world().size == 1:
        yield
        return
    ahead = local_rank() == 0
    patient = _preparation[0] if _preparation else None
    if not ahead:
        dist.barrier(patient)
    try:
        yield
    finally:
        if ahead:
            dist.barrier(patient)


class _OwnRows(torch.autograd.Function):
    """This process's rows; the gradient is that of all rows, because all processes have the whole tensor."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor) -> Tensor:
        ctx.number = len(whole)
        return whole[share(len(whole))].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        size = world().size
        cuts = [share(ctx.number, World(rank, size)) for rank in range(size)]
        return gather_rows(gradients[0], [cut.stop - cut.start for cut in cuts])


def own_rows(whole: Tensor) -> Tensor:
    """This process's rows of a tensor that all processes have."""
    if not (whole.requires_grad and torch.is_grad_enabled()):
        return whole[share(len(whole))]
    rows: Tensor = _OwnRows.apply(whole)  # type: ignore[no-untyped-call]  # torch's own signature
    return rows


class Draws:
    """Random numbers inside the network (dropout), which each process draws for its share only.

    They depend on the step, the number of the pass within it, and the process. torch's generators, from which methods draw for
    the whole batch, are restored: they stay equal on all processes, whatever the sizes of the shares.
    """

    def __init__(self) -> None:
        self._step = self._passes = 0

    def begin(self, step: int) -> None:
        """Start a step, by its number."""
        self._step, self._passes = step, 0

    @contextmanager
    def own(self, device: torch.device) -> Iterator[None]:
        """One pass of a network on this device."""
        seed = derive(torch.initial_seed(), "pass", self._step, self._passes, world().rank)
        self._passes += 1
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.default_generator.manual_seed(seed)
            if device.type == "cuda":
                torch.cuda.manual_seed(seed)
            yield
