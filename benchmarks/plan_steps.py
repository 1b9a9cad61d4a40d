"""Of benchmarks/plan.py: time, arithmetic and memory of steps."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from plan_shared import JOINT, MB, SEPARATE, small, table, taken
from torch.utils.flop_counter import FlopCounterMode

from softmatch.methods import METHODS
from softmatch.planning.measured import random_task
from softmatch.planning.memory import device_memory
from softmatch.planning.plans import count, make_plan
from softmatch.planning.probe import PHASES
from softmatch.planning.timing import CPU_OPERATION, cpu_speed
from softmatch.state import StepCount
from softmatch.training.bench import measure
from softmatch.training.memory import keep_freed_memory
from softmatch.training.setup import build_method, make_trainer

STEPS: Sequence[tuple[str, tuple[int, ...], Mapping[str, Any]]] = (
    ("wrn-10-2", (3, 32, 32), {"labeled_batch": 8, "unlabeled_batch": 24, **JOINT}),
    ("wrn-10-1", (3, 32, 32), {"labeled_batch": 16, "unlabeled_batch": 48, **JOINT}),
    ("wrn-10-1", (3, 32, 32), {"labeled_batch": 16, "unlabeled_batch": 112, **SEPARATE}),
    ("wrn-28-2", (3, 32, 32), {"labeled_batch": 4, "unlabeled_batch": 12, **JOINT}),
    ("resnet-50", (3, 96, 96), {"labeled_batch": 2, "unlabeled_batch": 4, **JOINT}),
    ("small-conv", (1, 8, 8), {"labeled_batch": 40, "unlabeled_batch": 96, **JOINT}),
    ("mlp-256", (256,), {"labeled_batch": 40, "unlabeled_batch": 256}),
)
"""The first is what the speed is calibrated on."""
MOSTLY = 0.3
"""Share of a step beside the network above which its arithmetic cannot be told from the rest."""


def step_times(repeats: int) -> None:
    a, b = torch.randn(2, 2048, 2048)
    rows: list[tuple[str, ...]] = []
    rate, matrix = None, 2.0 * 2048**3 / min(taken(lambda: a @ b) for _ in range(repeats))
    for model, shape, options in STEPS:
        setting = small(model, shape, options)
        counted, task = count(setting), random_task(setting, "cpu")
        work = counted.work
        found = measure(make_trainer(task, build_method(task, setting.config.method)), repeats)
        seconds = statistics.median(found.cpu)
        beside = CPU_OPERATION * work.operations + work.views
        if rate is None:
            rate = work.step / (seconds - beside)
        predicted = work.step / rate + beside
        estimate = make_plan(counted, 1, None, cpu_speed(matrix)).time.step
        rows.append(
            (
                f"{model}, {'×'.join(map(str, shape))}, {setting.config.labeled_batch} + {setting.config.unlabeled_batch}",
                f"{work.step / 1e9:.3g}",
                f"{found.flops / 1e9:.3g}",
                f"{1e3 * seconds:.3g}",
                f"{1e3 * predicted:.3g}",
                f"{predicted / seconds:.2f}" + (" (calibrated)" if len(rows) == 0 else ""),
                f"{work.step / (seconds - beside) / matrix:.2f}" if beside < MOSTLY * seconds else "–",
                f"{1e3 * estimate.low:.3g} – {1e3 * estimate.high:.3g}",
            )
        )
    heads = (
        "network, items, batch",
        "GFLOP predicted",
        "counted",
        "ms measured",
        "predicted",
        "ratio",
        "share of matrix product",
    )
    table("Time of a step", (*heads, "ms by `softmatch plan`, uncalibrated"), rows)
    print(
        f"\nA matrix product of 2048³ had {matrix / 1e9:.0f} GFLOP/s. One speed for all networks is what misses: convolutions of "
        "few channels (wrn-10-1) and of 1×1 on small batches (resnet-50) get less of it than 3×3 ones of many (wrn-28-2): "
        "that is why the plan gives a range."
    )


def method_flops() -> None:
    """FLOPs of a step of every method: passes by probing, and what torch counts of a real step."""
    rows = []
    for name in METHODS:
        setting = small("wrn-10-1", (3, 16, 16), {"labeled_batch": 8, "unlabeled_batch": 16, "method": name, "steps": 1000})
        counted, task = count(setting), random_task(setting, "cpu")
        method = build_method(task, name)
        trainer = make_trainer(task, method)
        flops, counters = [], [module for module in method.modules() if isinstance(module, StepCount)]
        for position in range(PHASES if counters else 1):
            for module in counters:
                module.steps = int((position + 0.5) / PHASES * setting.config.steps)
            with FlopCounterMode(display=False) as counter:
                trainer.advance()
            flops.append(counter.get_total_flops())
        measured = statistics.mean(flops)
        rows.append((name, f"{counted.work.step / 1e9:.4f}", f"{measured / 1e9:.4f}", f"{counted.work.step / measured:.3f}"))
    table(
        "FLOPs of a step of every method (wrn-10-1, 16×16, 8 + 16; of those that count steps, ten moments of a run)",
        ("method", "predicted G", "counted G", "ratio"),
        rows,
    )


def run_memory(model: str, side: int, options: Mapping[str, Any]) -> None:
    """In a process of its own: peak of the process before and after a few steps."""
    torch.set_num_threads(1)
    keep_freed_memory()
    setting = small(model, (3, side, side), options)
    task = random_task(setting, "cpu")
    before = _held()
    trainer = make_trainer(task, build_method(task, setting.config.method))
    for _ in range(3):
        trainer.advance()
    print(json.dumps([before, _held()]))


def _held() -> int:
    """The peak of this process so far, as the system has it; getrusage would tell that of the process which started it."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("this system does not tell the peak of a process")


def peak_memory() -> None:
    cases: Sequence[tuple[str, int, Mapping[str, Any]]] = (
        ("small-conv-8", 32, {"labeled_batch": 2, "unlabeled_batch": 2, **JOINT}),
        ("wrn-28-2", 32, {"labeled_batch": 16, "unlabeled_batch": 112, **JOINT}),
        ("wrn-28-2", 32, {"labeled_batch": 16, "unlabeled_batch": 112, **SEPARATE}),
        ("resnet-50", 96, {"labeled_batch": 4, "unlabeled_batch": 12, "optimizer": "adam", **JOINT}),
    )
    rows: list[tuple[str, ...]] = []
    base = None  # what a process gains in its first step whatever the network: code that is loaded, threads, buffers of libraries
    for model, side, options in cases:
        setting = small(model, (3, side, side), options)
        counted = count(setting)
        parts = device_memory(setting.config, setting.data, counted.cost, counted.tally, counted.state, counted.views)
        predicted = sum(value for name, value in parts.items() if name != "data")
        command = [sys.executable, __file__, json.dumps([model, side, options])]
        before, peak = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        gained = peak - before
        base = gained - predicted if base is None else base
        batches = f"{options['labeled_batch']} + {options['unlabeled_batch']}, {options['batch_statistics']}"
        rows.append(
            (
                f"{model}, {side}×{side}, {batches}",
                f"{parts['activations'] / MB:.0f}",
                f"{predicted / MB:.0f}",
                f"{gained / MB:.0f}",
                f"{predicted / (gained - base):.2f}",
                f"{predicted / gained:.2f}",
                f"{before / MB:.0f}",
            )
        )
    heads = ("setting", "activations MB", "all parts, predicted MB", "gained by the process MB")
    more = ("ratio, less what the first gains beyond its parts", "ratio", "process before MB")
    table("Peak memory", (*heads, *more), rows)
    print(
        "\nOn a CPU the convolutions' library keeps copies and work space of its own, and freed memory stays with the process in "
        "pieces; neither is in the plan, nor is what CUDA takes for the same purposes."
    )


if __name__ == "__main__":
    run_memory(*json.loads(sys.argv[1]))
