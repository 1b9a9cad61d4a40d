"""Every table of docs/scale.md that comes from `softmatch plan`, and the numbers that its text derives from them.

python benchmarks/plan_tables.py             # nothing is measured
python benchmarks/plan_tables.py runs scaling
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import ceil
from typing import Any, NamedTuple

from softmatch.cli.plan import number, shown_as
from softmatch.methods import METHODS
from softmatch.planning.costs import Data, Setting, named_setting, own_setting, planned_method, probe_task, state_bytes
from softmatch.planning.gpus import DEVICES, Range
from softmatch.planning.plans import HIDDEN, count, gpu_plan, plan_experiments

SOURCES: Mapping[str, str] = {
    "cifar10": "CIFAR-10",
    "svhn": "SVHN",
    "stl10": "STL-10",
    "cifar100": "CIFAR-100",
    "imagenet": "ImageNet",
}
TITLES: Mapping[str, str] = {"v100": "V100", "a100": "A100 80 GB", "h100": "H100", "rtx-4090": "RTX 4090", "l4": "L4", "t4": "T4"}
SIZES, FORGETTING = (10**4, 10**6, 10**9), 1000
"""Unlabelled samples; bytes of a method's own numbers that are not worth a line."""
USABLE = 0.5
"""Share of a memory that what grows may take."""
HOUR, DAY = 3600.0, 86_400.0


@cache
def plan(source: str, device: str, gpus: int = 1) -> dict[str, Any]:
    """The paper's run on a source."""
    return gpu_plan(count(named_setting(source, "cuda", {"recipe": "paper"}), gpus), DEVICES[device], gpus)


def between(value: Range) -> str:
    return shown_as("", value)


def size(value: float) -> str:
    return shown_as("bytes", value)


def row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |".replace("|  |", "| |")


def line(columns: int) -> str:
    return f"|{'---|' * columns}"


def experiments() -> Iterator[str]:
    """The paper's experiments in GPU-hours."""
    columns = {name: plan_experiments("paper", DEVICES[name]) for name in ("v100", "a100", "h100")}
    yield row(["experiment", "runs", "EFLOP", *(TITLES[name] for name in columns), "files, GB"])
    yield line(7)
    for shares in zip(*columns.values(), strict=True):
        first = shares[0]
        name = "**all**" if first["name"] == "all" else f"`{first['name']}`"
        hours = [between(share["gpu_hours"]) for share in shares]
        yield row([name, f"{first['runs']:,}", number(first["flops"] / 1e18), *hours, number(first["storage_bytes"] / 1e9)])


def runs() -> Iterator[str]:
    """One run each, in GPU-hours."""
    yield row(["", *TITLES.values(), "memory, GB"])
    yield line(8)
    for source, title in SOURCES.items():
        yield run_row(source, title)


def run_row(source: str, title: str) -> str:
    """A source on every GPU."""
    hours = (between(plan(source, name)["gpu_hours"]) for name in TITLES)
    return row([title, *hours, number(sum(plan(source, "v100")["memory_bytes"].values()) / 1e9)])


SCALING = (("cifar10", "v100"), ("imagenet", "a100"))


def scaling() -> Iterator[str]:
    """From 1 GPU to 8 to 64."""
    yield row(["", "CIFAR-10, 1 V100", "8", "64", "ImageNet, 1 A100", "8", "64"])
    yield line(7)
    for name in SCALING_ROWS:
        yield scaling_row(name)


def scaling_row(name: str) -> str:
    """A figure at every number of GPUs."""
    cell = SCALING_ROWS[name]
    return row([name, *(cell(plan(source, device, gpus)) for source, device in SCALING for gpus in (1, 8, 64))])


def _memory(*parts: str) -> Callable[[dict[str, Any]], str]:
    return lambda found: size(sum(value for name, value in found["memory_bytes"].items() if name in parts))


SCALING_ROWS: Mapping[str, Callable[[dict[str, Any]], str]] = {
    "a step, ms": lambda found: between(found["step_seconds"] * 1e3),
    "a run, hours": lambda found: between(found["seconds"] * (1 / HOUR)),
    "… the supervised baseline": lambda found: between(found["seconds_by_part"]["the supervised baseline"] * (1 / HOUR)),
    "**GPU-hours**": lambda found: f"**{between(found['gpu_hours'])}**",
    "memory of a GPU": lambda found: shown_as("bytes", found["memory_bytes"]),
    "… activations, work, views": _memory("activations", "work on the largest layer", "views of the batch"),
    "… weights, gradients, optimiser, average": _memory("weights", "gradients", "optimiser", "averaged weights"),
    "… data": _memory("data"),
    "files of a run": lambda found: shown_as("bytes", found["storage_bytes"]),
}


class Growth(NamedTuple):
    """Bytes of one thing at each of SIZES, and of one sample more."""

    name: str
    sizes: tuple[int, ...]
    per_sample: int

    @property
    def constant(self) -> int:
        return self.sizes[-1] - self.per_sample * SIZES[-1]


@cache
def states(classes: int = 10) -> list[Growth]:
    """The state of every method."""

    def held(setting: Setting, samples: int) -> int:
        return state_bytes(planned_method(probe_task(setting, HIDDEN), samples))

    found = []
    for name in METHODS:
        setting = own_setting(Data("image", (3, 32, 32), classes, 100_000, 100_000, 1), "cuda", {"method": name})
        setting = setting._replace(data=replace(setting.data, train=4 * classes + 1000))
        sizes = tuple(held(setting, samples) for samples in SIZES)
        found.append(Growth(name, sizes, held(setting, SIZES[-1] + 1) - sizes[-1]))
    return found


def verdict(held: float, room: float) -> str:
    return "fits" if held <= USABLE * room else f"shard over {ceil(held / (USABLE * room)):,}"


def state() -> Iterator[str]:
    """State of the methods, from 10⁴ to 10⁹ samples."""
    yield row(["method", "bytes a sample", "other bytes", "10⁴", "10⁶", "10⁹", "at 10⁹"])
    yield line(7)
    for growth in states():
        if growth.per_sample:
            fits = verdict(growth.sizes[-1], DEVICES["a100"].memory)
            yield row([growth.name, growth.per_sample, growth.constant, *map(size, growth.sizes), fits])
    steady = [growth for growth in states() if not growth.per_sample]
    few, same = [growth for growth in steady if growth.constant <= FORGETTING], ["the same"] * 3
    most = max(growth.constant for growth in few)
    yield row([", ".join(growth.name for growth in few), "0", f"up to {most}", *same, "fits"])
    more = [f"{growth.name} ({size(growth.constant)})" for growth in steady if growth.constant > FORGETTING]
    yield row([", ".join(more), "0", "in brackets", *same, "fits"])


def derived() -> Iterator[str]:
    """Numbers in the text."""
    eight, many = plan("imagenet", "a100", 8)["seconds"], plan("imagenet", "a100", 64)["seconds"]
    yield f"- imagenet on 64 A100 instead of 8: {between(Range(eight.low / many.low, eight.high / many.high))} times as fast"
    yield f"- cifar100 on one V100: {between(plan('cifar100', 'v100')['seconds'] * (1 / DAY))} days"
    adsh = count(named_setting("cifar10", "cuda", {"recipe": "paper", "method": "adsh"}))
    surveyed = adsh.surveys * adsh.unlabeled * adsh.cost.forward / (adsh.setting.config.steps * adsh.step_flops(adsh.passes))
    yield f"- adsh, predictions of the whole set: {surveyed:.1%} of the arithmetic of the steps"
    kept = {growth.name: growth.per_sample for growth in states(1000) if growth.per_sample}
    yield "- with 1,000 classes, bytes a sample: " + ", ".join(f"{name} {value:,}" for name, value in kept.items())


TABLES: Mapping[str, Callable[[], Iterator[str]]] = {
    "experiments": experiments,
    "runs": runs,
    "scaling": scaling,
    "state": state,
    "derived": derived,
}


def main() -> None:
    for name in sys.argv[1:] or TABLES:
        print(f"\n## {TABLES[name].__doc__}\n")
        for text in TABLES[name]():
            print(text, flush=True)


if __name__ == "__main__":
    main()
