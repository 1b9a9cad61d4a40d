"""Shared by the programs of benchmarks/plan.py: settings of random data, tables, processor time."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from softmatch.planning.setting import Own, Setting, own_setting

MB = 1e6
JOINT, SEPARATE = {"batch_statistics": "joint"}, {"batch_statistics": "separate"}
WHERE = "the benchmark"


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print(f"\n## {title}\n\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")
    sys.stdout.flush()


def small(model: str, shape: tuple[int, ...], options: Mapping[str, Any]) -> Setting:
    """A setting of random data on this machine."""
    own = Own("image" if len(shape) == 3 else "vector", 4096, shape, 10, 2)
    return own_setting(own, ({"network": model, "threads": 1, **options},), "cpu", "the benchmark")


def taken(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def median(call: Callable[[], object], repeats: int) -> float:
    return statistics.median(taken(call) for _ in range(repeats))
