"""Of benchmarks/plan.py: files of runs, state of methods, the sampler."""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from plan_shared import MB, WHERE, small, table

import softmatch
from softmatch.data import Split
from softmatch.data.batches import Sampler
from softmatch.methods import METHODS
from softmatch.planning.methods import planned_method, planned_task, state_of
from softmatch.planning.plans import HIDDEN, count
from softmatch.planning.probe import Tally, Trained
from softmatch.planning.setting import named_setting
from softmatch.planning.storage import KEPT, REPORT, checkpoint_bytes, metrics_bytes, split_bytes
from softmatch.runs.folder import RunFolder
from softmatch.training.setup import build_method


def files() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for method in ("softmatch", "temporal_ensembling", "comatch"):
            options: dict[str, Any] = {"method": method, "steps": 40, "baseline": method == "softmatch", "threads": 1, "seed": 0}
            out = Path(folder) / method
            softmatch.train("digits", out=out, **options)
            setting = named_setting("digits", (options,), "cpu", WHERE)
            counted = count(setting)
            data, config = setting.data, setting.config
            whole = checkpoint_bytes(setting, counted.cost, counted.tally, counted.state, counted.tensors)
            written = {
                "last checkpoint": (whole, max(out.glob("checkpoints/*")).stat().st_size),
                "metrics.jsonl": (metrics_bytes(config, data.classes, counted.tally), (out / "metrics.jsonl").stat().st_size),
                "model/model.safetensors": (counted.cost.state, (out / "model/model.safetensors").stat().st_size),
                "split.json": (split_bytes(data), (out / "split.json").stat().st_size),
            }
            if config.baseline:
                alone = checkpoint_bytes(setting, counted.cost, None, None, counted.tensors)
                written["last checkpoint of the twin"] = alone, max(out.glob("twin/checkpoints/*")).stat().st_size
                lines = metrics_bytes(config, data.classes, None)
                written["metrics.jsonl of the twin"] = lines, (out / "twin/metrics.jsonl").stat().st_size
            written["report.html"] = REPORT, (out / "report.html").stat().st_size
            kept = len(list(out.glob("checkpoints/*")))
            written["checkpoints kept"] = KEPT, kept
            rows += [_sizes(f"digits, {method}: {name}", *pair) for name, pair in written.items()]
        for source, more in (("cifar10", {"labels": 250}), ("svhn", {"labels": 1000}), ("cifar10", {"imbalance": 100})):
            data = named_setting(source, ({"recipe": "paper", **more},), "cuda", WHERE).data
            random_ = torch.Generator().manual_seed(0)
            drawn = torch.randperm(data.train, generator=random_)
            pool = torch.arange(data.train) if data.whole else drawn[: data.unlabeled].sort().values
            split = Split(drawn[: data.labeled].sort().values, pool, pool[:0], seed=0)
            run = RunFolder(Path(folder))
            about = {"data": "0" * 64, "content": "0" * 64, "device": "cuda"}
            run.write_json("split.json", {**split.as_dict(), **about})
            rows.append(_sizes(f"{source} {more}: split.json", split_bytes(data), (run.path / "split.json").stat().st_size))
    table("Files of real runs (40 steps on digits), and of splits", ("file", "predicted", "written", "ratio"), rows)
    print(
        "\nHistograms of so few steps have short numbers, so metrics.jsonl is smaller than predicted. Three checkpoints are kept "
        "at most: the best may be one of the newest two."
    )


def _sizes(name: str, predicted: float, written: float) -> tuple[str, str, str, str]:
    return name, f"{predicted:,.0f}", f"{written:,.0f}", f"{predicted / written:.2f}"


def method_states() -> None:
    sizes = (10**4, 10**5, 10**6, 10**7, 10**8)
    setting = small("small-conv", (3, 32, 32), {"steps": 2**20, "unlabeled_batch": 448, "labeled_batch": 64})
    rows = []
    for name in METHODS:
        cells: list[str] = []
        for size in sizes:
            sized = replace(setting, config=setting.config.model_copy(update={"method": name}))
            sized = replace(sized, data=replace(setting.data, unlabeled=size))
            predicted = state_of(planned_method(sized, name, HIDDEN)).saved
            if predicted > 1e9:
                cells.append(f"{predicted / MB:,.2f}, not built")
                continue
            method = build_method(planned_task(sized, HIDDEN), name)
            real = sum(value.nbytes for value in method.state_dict().values())
            cells.append(f"{predicted / MB:,.2f}" if real == predicted else f"**{predicted / MB:,.2f} ≠ {real / MB:,.2f}**")
            del method
        if cells[0] != cells[-1]:
            rows.append((name, *cells))
    same = len(METHODS) - len(rows)
    table(
        "State of methods, MB: predicted, and really built where it is less than a gigabyte",
        ("method", *(f"{s:,}" for s in sizes)),
        rows,
    )
    print(f"\nThe other {same} methods have the same state at every size, predicted and built. Bold: the two differ.")


def step_growth(repeats: int) -> None:
    """Does a step take longer with a larger pool? Beside the network, which counts and does nothing."""
    sizes, rows = (10**4, 10**6), []
    setting = small("small-conv", (3, 32, 32), {"steps": 2**20, "unlabeled_batch": 448, "labeled_batch": 64})
    for name in METHODS:
        found = []
        for size in sizes:
            sized = replace(setting, config=setting.config.model_copy(update={"method": name}))
            method = build_method(planned_task(sized, HIDDEN, unlabeled=size), name)
            trained = Trained(method, sized, HIDDEN, 0, Tally())
            times = []
            for position in range(repeats):
                started = time.process_time()
                trained.step(2**19 + 2 + position * 10)  # where DARP refines, which it does at every tenth step
                times.append(time.process_time() - started)
            found.append(statistics.median(times))
        if found[1] > 3 * found[0]:  # what a busy machine does not explain
            rows.append((name, *(f"{1e3 * value:.1f}" for value in found), f"{found[1] / found[0]:.1f}"))
    table("Methods whose step grows with the unlabelled set", ("method", *(f"ms at {size:,}" for size in sizes), "times"), rows)
    print(
        "\nBeside the network; DARP at the steps at which it refines, which are every tenth after its warm-up. Shown are those "
        "that take more than three times as long: a busy machine was seen to double the time of methods without a memory."
    )


def samplers() -> None:
    rows = []
    for size in (10**4, 10**5, 10**6, 10**7):
        sampler = Sampler(size, 448, seed=0)
        started = time.process_time()
        sampler(0)
        shuffled = time.process_time() - started
        sampler(size // 448)  # the batch that ends one epoch and begins the next
        held = sum(order.nbytes for order in sampler._epochs.values())
        rows.append((f"{size:,}", f"{16 * size:,}", f"{held:,}", f"{16 * size / held:.2f}", f"{1e9 * shuffled / size:.1f}"))
    table("The sampler", ("samples", "bytes predicted", "held", "ratio", "ns to shuffle a sample"), rows)
