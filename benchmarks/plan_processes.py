"""Run by benchmarks/plan.py: one of some processes that train together, which counts what they tell each other.

    python benchmarks/plan_processes.py SETTINGS.json

Counted are the bytes that each call of torch.distributed brings along, and the bytes that this process's connections have sent,
as the system has it (TCP_INFO), both for one step.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from plan_shared import small
from torch import Tensor
from torch import distributed as dist

from softmatch.distributed.processes import joined, world
from softmatch.planning.measured import random_task
from softmatch.training.setup import build_method, make_trainer
from softmatch.training.stop import Stop

BYTES_ACKNOWLEDGED = 120
"""Where Linux has, in its struct tcp_info, the bytes that were sent and arrived."""
WARM_UP, STEPS = 2, 4


class Counter:
    """Takes the place of the calls of torch.distributed that training makes, and counts."""

    def __init__(self) -> None:
        self.bytes, self.calls = {"sum": 0, "gather": 0}, {"sum": 0, "gather": 0}
        dist.all_reduce = self._counted("sum", dist.all_reduce, 0)
        dist.all_gather = self._counted("gather", dist.all_gather, 1)

    def _counted(self, how: str, call: Callable[..., Any], place: int) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            value: Tensor = arguments[place]
            self.bytes[how] += value.nbytes
            self.calls[how] += 1
            return call(*arguments, **options)

        return counted


def sent() -> int:
    """Bytes that all connections of this process have sent so far."""
    total = 0
    for name in Path("/proc/self/fd").iterdir():
        try:
            if not str(name.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name.name))) as connection:
                if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
                    continue
                about = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
        except OSError:  # closed meanwhile, or no connection
            continue
        if len(about) >= BYTES_ACKNOWLEDGED + 8:
            total += struct.unpack_from("<Q", about, BYTES_ACKNOWLEDGED)[0]
    return total


def main() -> None:
    options = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    torch.set_num_threads(1)
    setting = small("wrn-10-1", (3, 32, 32), options)
    with joined(), Stop() as stop:
        task = random_task(setting, "cpu")
        trainer = make_trainer(task, build_method(task, task.config.method))
        for _ in range(WARM_UP):
            trainer.advance()
            stop.check()
        counter, before = Counter(), sent()
        for _ in range(STEPS):
            trainer.advance()
            stop.check()
        after = sent()
        found = {how: counter.bytes[how] / STEPS for how in counter.bytes}
        calls = {how: counter.calls[how] / STEPS for how in counter.calls}
        dist.barrier()
        if world().is_main:
            print(json.dumps({"bytes": found, "calls": calls, "sent": (after - before) / STEPS}), flush=True)


if __name__ == "__main__":
    main()
