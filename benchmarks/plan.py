"""Are the figures of `softmatch plan` true? Predictions beside measurements on this machine.

    python benchmarks/plan.py > benchmarks/results/plan.md
    python benchmarks/plan.py flops memory

Times are processor time of one thread, medians of five, so that a busy machine disturbs them little.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

import softmatch
from softmatch.config import Config
from softmatch.data.batches import Sampler
from softmatch.methods import METHODS
from softmatch.planning.costs import PHASES, count_encoder, count_network, planned_method, probe_task, random_task, state_bytes
from softmatch.planning.counts import KEPT, REPORT, checkpoint_bytes, count, device_memory, metrics_bytes, split_bytes
from softmatch.planning.gpus import DEVICES
from softmatch.planning.setting import ENCODERS, Own, Setting, named_setting, own_setting
from softmatch.state import StepCount
from softmatch.training.bench import measure
from softmatch.training.memory import keep_freed_memory
from softmatch.training.setup import build_method, make_trainer

MB, REPEATS, HIDDEN, MATRICES = 1e6, 5, 16, 12
"""The last: bytes that attention keeps on the meta device for each pair of tokens, head and layer."""
JOINT, SEPARATE = {"batch_statistics": "joint"}, {"batch_statistics": "separate"}
HOUR, DAY = 3600.0, 86_400.0
STATED: Sequence[tuple[str, Mapping[str, Any], float]] = (
    ("cifar10", {}, 3 * DAY),
    ("svhn", {}, 3 * DAY),
    ("cifar100", {}, 7 * DAY),
    ("stl10", {}, 7 * DAY),
    ("cifar10", {"imbalance": 100}, DAY),
    ("cifar100", {"imbalance": 100}, DAY),
    ("agnews", {}, 20 * HOUR),
    ("imdb", {}, 20 * HOUR),
)
"""Times of the paper's appendix, all on NVIDIA V100."""


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print(f"\n## {title}\n\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)


def small(model: str, shape: tuple[int, ...], options: Mapping[str, Any]) -> Setting:
    """A setting of random data on this machine."""
    own = Own("image" if len(shape) == 3 else "vector", 4096, shape, 10, 2)
    return own_setting(own, ({"network": model, "threads": 1, **options},), "cpu", "the benchmark")


def paper() -> None:
    rows = []
    for source, options, seconds in STATED:
        setting = named_setting(source, ({"recipe": "paper", "baseline": False, **options},), "cuda", "the paper")
        found, bound = count(setting), " at most" if source == "imdb" else ""
        flops = setting.config.steps * found.step_flops(found.passes)
        share = flops / seconds / DEVICES["v100"].float32
        cells = (f"{flops / 1e18:.3g}{bound}", f"{flops / seconds / 1e12:.3g}{bound}", f"{100 * share:.0f} %{bound}")
        name, steps = source + ", long-tailed" * bool(options), setting.config.steps
        rows.append((name, f"{seconds / HOUR:.0f}", f"{steps:,}", *cells, f"{1e3 * seconds / steps:.0f}"))
    heads = ("source", "hours, the paper", "steps, our recipe", "EFLOP", "TFLOP/s of a V100", "of its float32 peak", "ms a step")
    table("What the paper's times make of a V100", heads, rows)
    v100 = DEVICES["v100"]
    print(f"\nIts peak is {v100.float32 / 1e12:g} TFLOP/s in float32 and {v100.half / 1e12:g} on tensor cores.")


STEPS: Sequence[tuple[str, tuple[int, ...], Mapping[str, Any]]] = (
    ("wrn-10-2", (3, 32, 32), {"labeled_batch": 8, "unlabeled_batch": 24, **JOINT}),
    ("wrn-10-1", (3, 32, 32), {"labeled_batch": 16, "unlabeled_batch": 48, **JOINT}),
    ("wrn-10-1", (3, 32, 32), {"labeled_batch": 16, "unlabeled_batch": 112, **SEPARATE}),
    ("wrn-28-2", (3, 32, 32), {"labeled_batch": 4, "unlabeled_batch": 12, **JOINT}),
    ("resnet-50", (3, 96, 96), {"labeled_batch": 2, "unlabeled_batch": 4, **JOINT}),
    ("small-conv", (1, 8, 8), {"labeled_batch": 40, "unlabeled_batch": 96, **JOINT}),
    ("mlp-256", (256,), {"labeled_batch": 40, "unlabeled_batch": 256}),
)


def steps() -> None:
    rows: list[tuple[str, ...]] = []
    for model, shape, options in STEPS:
        setting = small(model, shape, options)
        found, task = count(setting), random_task(setting, shape, "cpu")
        measured = measure(make_trainer(task, build_method(task, "softmatch")), REPEATS)
        seconds, flops = statistics.median(measured.cpu), found.step_flops(found.passes)
        name = f"{model}, {'×'.join(map(str, shape))}, {setting.config.labeled_batch} + {setting.config.unlabeled_batch}"
        cells = (flops / 1e9, measured.flops / 1e9, 1e3 * seconds, flops / seconds / 1e9)
        rows.append((name, *(f"{cell:.3g}" for cell in cells)))
    table("Steps", ("network, items, batch", "GFLOP predicted", "counted", "ms measured", "GFLOP/s"), rows)
    print("\nNetworks differ by so much that steps on this machine are timed, not estimated.")


def flops() -> None:
    rows = []
    for name in METHODS:
        setting = small("wrn-10-1", (3, 16, 16), {"labeled_batch": 8, "unlabeled_batch": 16, "method": name, "steps": 1000})
        found, task = count(setting), random_task(setting, (3, 16, 16), "cpu")
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
    task = random_task(small(model, (3, side, side), options), (3, side, side), "cpu")
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
            found = count(named_setting("digits", (options,), "cpu", "the benchmark"))
            for name, predicted, path in (
                ("last checkpoint", checkpoint_bytes(found), max(out.glob("checkpoints/*"))),
                ("metrics.jsonl", metrics_bytes(found), out / "metrics.jsonl"),
                ("model/model.safetensors", found.cost.state, out / "model/model.safetensors"),
                ("split.json", split_bytes(found), out / "split.json"),
                ("report.html", REPORT, out / "report.html"),
            ):
                written = path.stat().st_size
                rows.append((f"digits, {method}: {name}", f"{predicted:,.0f}", f"{written:,}", f"{predicted / written:.2f}"))
            kept = len(list(out.glob("checkpoints/*")))
            rows.append((f"digits, {method}: checkpoints kept", f"{KEPT}", f"{kept}", f"{KEPT / kept:.2f}"))
    table("Files of real runs (40 steps on digits)", ("file", "predicted", "written", "ratio"), rows)
    print("\nmetrics.jsonl is predicted with a weight curve, which not all methods have.", end=" ")
    print("Three checkpoints are kept at most: the best may be one of the newest two.")


def _sized(name: str) -> Setting:
    return small("small-conv", (3, 32, 32), {"steps": 2**20, "unlabeled_batch": 448, "labeled_batch": 64, "method": name})


def state() -> None:
    sizes, rows = (10**4, 10**5, 10**6, 10**7, 10**8), []
    for name in METHODS:
        task, cells = probe_task(_sized(name), HIDDEN), list[str]()
        for size in sizes:
            predicted = state_bytes(planned_method(task, "image", size))
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


def growth() -> None:
    """Does a step take longer with a larger unlabelled set?"""
    sizes, rows = (10**4, 10**6), []
    for name in METHODS:
        found = []
        for size in sizes:
            setting = _sized(name)
            task = probe_task(setting._replace(data=replace(setting.data, train=size, own=False)), HIDDEN)
            trainer = make_trainer(task, build_method(task, name))
            times = []
            for repeat in range(REPEATS):
                for module in trainer.method.modules():
                    if isinstance(module, StepCount):  # where DARP refines, which it does at every tenth step
                        module.steps = 2**19 + 2 + repeat * 10
                started = time.process_time()
                trainer.advance()
                times.append(time.process_time() - started)
                trainer.step = 0
            found.append(statistics.median(times))
        if found[1] > 3 * found[0]:  # what a busy machine does not explain
            rows.append((name, *(f"{1e3 * value:.1f}" for value in found), f"{found[1] / found[0]:.1f}"))
    table("Methods whose step grows with the unlabelled set", ("method", *(f"ms at {size:,}" for size in sizes), "times"), rows)
    print("\nBeside the network; DARP at the steps at which it refines. Shown are those that take more than three times as long.")


def samplers() -> None:
    rows = []
    for size in (10**4, 10**5, 10**6, 10**7):
        sampler, started = Sampler(size, 448, seed=0), time.process_time()
        sampler(0)
        shuffled = time.process_time() - started
        sampler(size // 448)  # the batch that ends one epoch and begins the next
        held = sum(order.nbytes for order in sampler._epochs.values())
        rows.append((f"{size:,}", f"{16 * size:,}", f"{held:,}", f"{16 * size / held:.2f}", f"{1e9 * shuffled / size:.1f}"))
    table("The sampler", ("samples", "bytes predicted", "held", "ratio", "ns to shuffle a sample"), rows)


class _Tokens(torch.nn.Module):
    """An encoder as `count_network` calls it."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: torch.Tensor) -> Any:
        return self.model(input_ids=inputs.long()).last_hidden_state


def encoders() -> None:
    """The formula beside the network of the transformers library, on the meta device."""
    from transformers import BertConfig, BertModel

    rows = []
    for name, tokens in (("google-bert/bert-base-uncased", 128), ("sentence-transformers/all-MiniLM-L6-v2", 64)):
        layers, width, inner, heads, words, _ = sizes = ENCODERS[name]
        config = BertConfig(
            vocab_size=words, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=inner
        )
        config._attn_implementation = "sdpa"
        with torch.device("meta"):
            model: Any = BertModel(config, add_pooling_layer=False)
        real, ours = count_network(_Tokens(model.train()), (tokens,)), count_encoder(sizes, Config(), 4, tokens)
        kept = real.saved - MATRICES * layers * heads * tokens**2
        for what, predicted, counted in (
            ("parameters", ours.parameters - (width + 1) * 4, real.parameters),
            ("forward FLOPs of a text", ours.forward, real.forward),
            ("backward FLOPs of a text", ours.backward, real.backward),
            ("operations forward", ours.forward_operations, real.forward_operations),
            ("operations backward", ours.backward_operations, real.backward_operations),
            ("bytes kept of a text, but attention's matrices", ours.saved, kept),
        ):
            rows.append(
                (f"{name}, {tokens} tokens: {what}", f"{predicted:,.0f}", f"{counted:,.0f}", f"{predicted / counted:.3f}")
            )
    table("Encoders by formula, and as the transformers library builds them", ("what", "formula", "counted", "ratio"), rows)


PARTS: tuple[Callable[[], None], ...] = (paper, steps, flops, memory, files, state, growth, samplers, encoders)


def main() -> None:
    if sys.argv[1:2] == ["--memory"]:
        run_memory(*json.loads(sys.argv[2]))
        return
    torch.set_num_threads(1)
    print("# The plan, checked\n\n`python benchmarks/plan.py`: predictions of `softmatch plan` beside measurements. One thread,")
    print(f"torch {torch.__version__}, processor time, medians of {REPEATS}. Ratios are predicted to measured.")
    for part in PARTS:
        if part.__name__ in (sys.argv[1:] or [part.__name__]):
            part()


if __name__ == "__main__":
    main()
