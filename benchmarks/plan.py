"""Are the figures of `softmatch plan` true? Predictions beside measurements on this machine.

python benchmarks/plan.py > benchmarks/results/plan.md
python benchmarks/plan.py flops memory
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

import softmatch
from softmatch.methods import METHODS
from softmatch.planning.costs import (
    PHASES,
    Data,
    Setting,
    named_setting,
    own_setting,
    planned_method,
    probe_task,
    random_job,
    state_bytes,
)
from softmatch.planning.gpus import DEVICES
from softmatch.planning.plans import HIDDEN, KEPT, checkpoint_bytes, count, device_memory, run_storage
from softmatch.state import StepCount
from softmatch.training.arithmetic import keep_freed_memory
from softmatch.training.setup import build_method, make_trainer, prepare_job
from softmatch.training.task import Task

MB = 1e6
JOINT, SEPARATE = {"batch_statistics": "joint"}, {"batch_statistics": "separate"}
HOUR, DAY = 3600.0, 86_400.0
STATED: Sequence[tuple[str, Mapping[str, Any], float]] = (
    ("cifar10", {}, 3 * DAY),
    ("svhn", {}, 3 * DAY),
    ("cifar100", {}, 7 * DAY),
    ("stl10", {}, 7 * DAY),
    ("cifar10", {"imbalance": 100}, DAY),
    ("cifar100", {"imbalance": 100}, DAY),
)
"""Times of the paper's appendix, all on NVIDIA V100."""


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print(f"\n## {title}\n\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)


def small(model: str, shape: tuple[int, ...], options: Mapping[str, Any]) -> Setting:
    """A setting of random data on this machine."""
    data = Data("image" if len(shape) == 3 else "vector", shape, 10, 4096, 4096, 2)
    return own_setting(data, "cpu", {"network": model, "threads": 1, **options})


def random_task(setting: Setting) -> Task:
    return prepare_job(random_job(setting, setting.data.shape, "cpu"))


def paper() -> None:
    rows = []
    for source, options, seconds in STATED:
        setting = named_setting(source, "cuda", {"recipe": "paper", "baseline": False, **options})
        found = count(setting)
        flops = setting.config.steps * found.step_flops(found.passes)
        share = flops / seconds / DEVICES["v100"].float32
        cells = (f"{flops / 1e18:.3g}", f"{flops / seconds / 1e12:.3g}", f"{100 * share:.0f} %")
        name, steps = source + ", long-tailed" * bool(options), setting.config.steps
        rows.append((name, f"{seconds / HOUR:.0f}", f"{steps:,}", *cells, f"{1e3 * seconds / steps:.0f}"))
    heads = ("source", "hours, the paper", "steps, our recipe", "EFLOP", "TFLOP/s of a V100", "of its float32 peak", "ms a step")
    table("What the paper's times make of a V100", heads, rows)
    v100 = DEVICES["v100"]
    print(f"\nIts peak is {v100.float32 / 1e12:g} TFLOP/s in float32 and {v100.half / 1e12:g} on tensor cores.")


def flops() -> None:
    rows = []
    for name in METHODS:
        setting = small("wrn-10-1", (3, 16, 16), {"labeled_batch": 8, "unlabeled_batch": 16, "method": name, "steps": 1000})
        found, task = count(setting), random_task(setting)
        trainer = make_trainer(task, build_method(task, name))
        counted, counters = [], [module for module in trainer.method.modules() if isinstance(module, StepCount)]
        for position in range(PHASES if counters else 1):
            for module in counters:
                module.steps = int((position + 0.5) / PHASES * setting.config.steps)
            with FlopCounterMode(display=False) as counter:
                trainer.advance()
            trainer.step = 0
            counted.append(counter.get_total_flops())
        predicted, real = found.step_flops(found.passes), statistics.mean(counted)
        rows.append((name, f"{predicted / 1e9:.4f}", f"{real / 1e9:.4f}", f"{predicted / real:.3f}"))
    title = "FLOPs of a step of every method (wrn-10-1, 16×16, 8 + 16; of those that count steps, ten moments of a run)"
    table(title, ("method", "predicted G", "counted G", "ratio"), rows)


def run_memory(model: str, side: int, options: Mapping[str, Any]) -> None:
    """In a process of its own: its peak before and after a few steps."""
    torch.set_num_threads(1)
    keep_freed_memory()
    task = random_task(small(model, (3, side, side), options))
    before = _peak()
    trainer = make_trainer(task, build_method(task, "softmatch"))
    for _ in range(3):
        trainer.advance()
    print(json.dumps([before, _peak()]))


def _peak() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def memory() -> None:
    rows: list[tuple[str, ...]] = []
    for model, side, options in (
        ("small-conv-8", 32, {"labeled_batch": 2, "unlabeled_batch": 2, **JOINT}),
        ("wrn-28-2", 32, {"labeled_batch": 16, "unlabeled_batch": 112, **JOINT}),
        ("wrn-28-2", 32, {"labeled_batch": 16, "unlabeled_batch": 112, **SEPARATE}),
        ("resnet-50", 96, {"labeled_batch": 4, "unlabeled_batch": 12, "optimizer": "adam", **JOINT}),
    ):
        parts = device_memory(count(small(model, (3, side, side), options)))
        predicted = sum(value for name, value in parts.items() if name != "data")
        command = [sys.executable, __file__, "--memory", json.dumps([model, side, options])]
        before, peak = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        batches = f"{options['labeled_batch']} + {options['unlabeled_batch']}, {options['batch_statistics']}"
        cells = (f"{value / MB:.0f}" for value in (parts["activations"], predicted, peak - before))
        rows.append((f"{model}, {side}×{side}, {batches}", *cells, f"{predicted / (peak - before):.2f}", f"{before / MB:.0f}"))
    heads = ("setting", "activations MB", "all parts, predicted MB", "gained by the process MB", "ratio", "process before MB")
    table("Peak memory", heads, rows)
    print("\nOn a CPU the libraries of convolutions keep work space of their own, and freed memory stays with the process.")


def files() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for method in ("softmatch", "temporal_ensembling", "comatch"):
            options: dict[str, Any] = {"method": method, "steps": 40, "baseline": False, "threads": 1, "seed": 0}
            out = Path(folder) / method
            softmatch.train("digits", out=out, **options)
            found = count(named_setting("digits", "cpu", options))
            for name, predicted, path in (
                ("last checkpoint", checkpoint_bytes(found), max(out.glob("checkpoints/*"))),
                ("model/model.safetensors", found.cost.state, out / "model/model.safetensors"),
                ("split.json", run_storage(found)["split.json"], out / "split.json"),
            ):
                written = path.stat().st_size
                rows.append((f"digits, {method}: {name}", f"{predicted:,.0f}", f"{written:,}", f"{predicted / written:.2f}"))
            kept = len(list(out.glob("checkpoints/*")))
            rows.append((f"digits, {method}: checkpoints kept", f"{KEPT}", f"{kept}", f"{KEPT / kept:.2f}"))
    table("Files of real runs (40 steps on digits)", ("file", "predicted", "written", "ratio"), rows)
    print("\nThree checkpoints are kept at most: the best may be one of the newest two.")


def _sized(name: str) -> Setting:
    return small("small-conv", (3, 32, 32), {"steps": 2**20, "unlabeled_batch": 448, "labeled_batch": 64, "method": name})


def state() -> None:
    sizes, rows = (10**4, 10**5, 10**6, 10**7, 10**8), []
    for name in METHODS:
        task, cells = probe_task(_sized(name), HIDDEN), list[str]()
        for size in sizes:
            predicted = state_bytes(planned_method(task, size))
            shown = f"{predicted / MB:,.2f}"
            if predicted <= 1e9:
                many = torch.zeros(1, dtype=torch.int64).expand(size)
                real = state_bytes(build_method(replace(task, split=replace(task.split, unlabeled=many)), name))
                shown = shown if real == predicted else f"**{shown} ≠ {real / MB:,.2f}**"
            cells.append(shown if predicted <= 1e9 else f"{shown}, not built")
        if cells[0] != cells[-1]:
            rows.append((name, *cells))
    title = "State of methods, MB: predicted, and really built where it is less than a gigabyte"
    table(title, ("method", *(f"{size:,}" for size in sizes)), rows)
    others = len(METHODS) - len(rows)
    print(f"\nThe other {others} methods have the same state at every size, predicted and built. Bold: the two differ.")


PARTS: tuple[Callable[[], None], ...] = (paper, flops, memory, files, state)


def main() -> None:
    if sys.argv[1:2] == ["--memory"]:
        run_memory(*json.loads(sys.argv[2]))
        return
    torch.set_num_threads(1)
    print("# The plan, checked\n\n`python benchmarks/plan.py`: predictions of `softmatch plan` beside measurements. One thread,")
    print(f"torch {torch.__version__}. Ratios are predicted to measured.")
    for part in PARTS:
        if part.__name__ in (sys.argv[1:] or [part.__name__]):
            part()


if __name__ == "__main__":
    main()
