"""Measure a training step with 1, 2 and 4 processes at a fixed batch, against DistributedDataParallel, and what they exchange.

    python benchmarks/several_processes.py --repeats 5 > benchmarks/results/several_processes.md

A step of SoftMatch: network, loss and update, on random views that are there already. The ways take turns within a round, each
as a group of processes of its own, so that a busy machine slows all of them alike; ratios are within a round.

- "sums" is what `softmatch train --batch-statistics joint` does: sums are exchanged, gradients leave while the backward pass
  computes.
- "gathered" is what it did before, and does for methods that need whole batches: logits are gathered, gradients leave at the end.
- "pieces" is what `softmatch train` does on a CPU: small passes, each with its own batch statistics, which need no messages.
- "DDP" is the same network and method in a plain loop: DistributedDataParallel around the network, one pass over all views.

The others use the same batch normalisation over all processes, since torch's own works on GPUs only. What the processes exchange
is counted: bytes that the first one gives to collective operations in a step, without gradients and without batch normalisation.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from softmatch.distributed.batch_norm import synchronise
from softmatch.distributed.gradients import MESSAGE, GradientSum
from softmatch.distributed.processes import share, world
from softmatch.methods import Forward, softmatch
from softmatch.networks import build_network
from softmatch.step import Batch, whole_batches
from softmatch.training.setup import CPU_MICRO_BATCH

WARMUP, LR = 2, 0.03
GROUPS = ((1, 2), (1, 1), (2, 1), (4, 1))
"""Processes, and threads of each."""
WAYS = ("sums", "gathered", "DDP", "pieces")
ONE_PROCESS = ("sums", "DDP", "pieces")
SIZES = ((128, 10), (512, 10), (128, 1000), (512, 1000))
"""Unlabelled samples and classes for which messages are counted."""

Step = Callable[[], object]


class Collectives:
    """Counts the bytes given to collective operations and the time spent in them, until removed."""

    def __init__(self) -> None:
        self.bytes, self.seconds = 0, 0.0
        for name in ("all_reduce", "all_gather"):
            setattr(dist, name, partial(self._call, getattr(dist, name), name == "all_gather"))

    def _call(self, operation: Any, gathers: bool, *given: Any, **options: Any) -> Any:
        self.bytes += given[int(gathers)].nbytes
        began = time.perf_counter()
        work = operation(*given, **options)
        self.seconds += time.perf_counter() - began
        if work is not None:
            wait = work.wait
            work = type("Waited", (), {"wait": lambda _: self._wait(wait)})()
        return work

    def _wait(self, wait: Callable[[], object]) -> None:
        began = time.perf_counter()
        wait()
        self.seconds += time.perf_counter() - began


def make_step(way: str, network: nn.Module, given: argparse.Namespace) -> Step:
    """One step on this process's share of a fixed batch."""
    generator, sizes = torch.Generator().manual_seed(1), (given.labeled, given.unlabeled, given.unlabeled)
    x, weak, strong = (torch.randn(n, 3, 32, 32, generator=generator)[share(n)] for n in sizes)
    labels, index = torch.arange(given.labeled) % 10, torch.arange(given.unlabeled)
    method, optimizer = softmatch(10), torch.optim.SGD(network.parameters(), LR, momentum=0.9, nesterov=True)
    if way == "DDP":
        model: nn.Module = DistributedDataParallel(network) if world().size > 1 else network
        cuts, own = [len(x), len(weak), len(strong)], (labels[share(len(labels))], index[share(len(index))])

        def plain() -> Tensor:
            on_x, on_weak, on_strong = model(torch.cat([x, weak, strong])).split(cuts)
            loss: Tensor = method(on_x, own[0], on_weak.detach(), on_strong, own[1])
            loss.backward()  # type: ignore[no-untyped-call]  # torch's own signature
            optimizer.step()
            optimizer.zero_grad()
            return loss

        return plain
    statistics: Any = ("separate", CPU_MICRO_BATCH) if way == "pieces" else ("joint",)
    forward = Forward(network, *statistics, sharded=True)
    forward.by_share &= way != "gathered"
    gradients = GradientSum(network, sys.maxsize if way == "gathered" else given.message)
    batch = Batch({"weak": x}, labels, {"weak": weak, "strong": strong}, index)

    def ours() -> None:
        forward.begin(0)
        with whole_batches():
            loss = method.step(forward, batch).loss
        with gradients.during_backward():
            loss.backward()  # type: ignore[no-untyped-call]  # torch's own signature
        gradients.finish()
        optimizer.step()
        optimizer.zero_grad()

    return ours


def member(rank: int, size: int, threads: int, way: str, given: argparse.Namespace, folder: Path) -> None:
    """One process of a group: its times, and the network at the end."""
    torch.set_num_threads(threads)
    if size > 1:
        dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=size)
    torch.manual_seed(0)
    network = build_network(given.network, (3, 32, 32), 10).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    network = network if way == "pieces" else synchronise(network)
    step, collectives, times = make_step(way, network, given), Collectives(), []
    for number in range(WARMUP + given.steps):
        if number == WARMUP:
            cpu, collectives.seconds = time.process_time(), 0.0
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    found = {"time": statistics.median(times[WARMUP:]), "cpu": (time.process_time() - cpu) / given.steps}
    found["share"] = collectives.seconds / sum(times[WARMUP:])
    weights = torch.cat([each.detach().flatten() for each in network.parameters()])
    torch.save({**found, "weights": weights}, folder / f"{rank}.pt")
    if size > 1:
        dist.destroy_process_group()


def exchanged(rank: int, case: tuple[str, int, int], folder: Path) -> None:
    """Bytes of a step's messages with one of two processes, without those of gradients."""
    way, number, classes = case
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    method = softmatch(classes)
    forward = Forward(nn.Linear(4, classes), sharded=True)
    forward.by_share &= way == "sums"
    views = [torch.randn(n, 4)[share(n)] for n in (64, number, number)]
    batch = Batch({"weak": views[0]}, torch.zeros(64, dtype=torch.int64), dict(zip(("weak", "strong"), views[1:], strict=True)),
                  torch.arange(number))  # fmt: skip
    collectives = Collectives()
    with whole_batches():
        method.step(forward, batch)
    torch.save(collectives.bytes, folder / f"{rank}.pt")
    dist.destroy_process_group()


def group(size: int, target: Callable[..., None], *given: Any) -> list[Any]:
    """What each process of a group has found."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        children = [get_context("fork").Process(target=target, args=(rank, *given, folder)) for rank in range(size)]
        for child in children:
            child.start()
        for child in children:
            child.join()
            assert child.exitcode == 0, "a process failed"
        return [torch.load(folder / f"{rank}.pt") for rank in range(size)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--network", default="wrn-10-2")
    parser.add_argument("--labeled", type=int, default=16)
    parser.add_argument("--unlabeled", type=int, default=112)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--message", type=int, default=MESSAGE)
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=WAYS)
    parser.add_argument("--most", type=int, default=4, help="processes at most")
    parser.add_argument("--minutes", type=float, default=60.0, help="no round begins later")
    given = parser.parse_args()
    until = time.monotonic() + 60 * given.minutes
    rounds: list[dict[tuple[str, int, int], list[Any]]] = []
    for repeat in range(given.repeats):
        if rounds and time.monotonic() > until:
            break
        found: dict[tuple[str, int, int], list[Any]] = {}
        for size, threads in (each for each in GROUPS if each[0] <= given.most):
            for way in (each for each in given.ways if size > 1 or each in ONE_PROCESS):
                found[way, size, threads] = group(size, member, size, threads, way, given)
        rounds.append(found)
        print(f"round {repeat + 1} of {given.repeats}", file=sys.stderr, flush=True)
    print("# Several processes\n\n`python benchmarks/several_processes.py`\n")
    parameters = len(rounds[0]["sums", 1, 1][0]["weights"])
    batch = f"{given.labeled} labelled and {given.unlabeled} unlabelled images of 3×32×32"
    steps = f"medians of {len(rounds)} rounds of {given.steps} steps after {WARMUP}"
    print(
        f"SoftMatch, {given.network} ({parameters:,} parameters), {batch}, {os.cpu_count()} cores, gloo, torch "
        f"{torch.__version__}, messages of {given.message / 2**20:g} MiB; {steps}. Load average {os.getloadavg()[2]:.1f} over 15 "
        "minutes: other programs were running, so only ratios and CPU seconds say something. Ratios are within a round, with "
        "their range.\n"
    )
    print("| processes × threads | way | ms per step | speed, times 1 × 2 | CPU s per step | in collectives | from one process |")
    print("|---|---|---|---|---|---|---|")
    one = rounds[0]["sums", 1, 1][0]["weights"]
    for key in rounds[0]:
        way = "pieces" if key[0] == "pieces" else "sums"
        ratios = [each[way, 1, 2][0]["time"] / each[key][0]["time"] for each in rounds]
        cpu = statistics.median(sum(rank["cpu"] for rank in each[key]) for each in rounds)
        spent = statistics.median(each[key][0]["share"] for each in rounds)
        away = max(float((rank["weights"] - one).abs().max()) for rank in rounds[0][key])
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
        milliseconds = 1000 * statistics.median(each[key][0]["time"] for each in rounds)
        print(f"| {key[1]} × {key[2]} | {key[0]} | {milliseconds:,.0f} | {spread} | {cpu:.2f} | {spent:.0%} | {away:.1e} |")
    print("\nTime in collectives contains waiting for others. Last column: largest difference of a weight at the end.\n")
    print(
        "## Bytes of a step\n\nGiven to collective operations by one of two processes, 64 labelled samples, without gradients.\n"
    )
    print("| unlabelled | classes | sums | gathered |\n|---|---|---|---|")
    for number, classes in SIZES:
        counts = Counter({way: group(2, exchanged, (way, number, classes))[0] for way in WAYS[:2]})
        print(f"| {number} | {classes:,} | {counts['sums']:,} | {counts['gathered']:,} |")


if __name__ == "__main__":
    main()
