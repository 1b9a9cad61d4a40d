"""Every table of docs/scale.md that comes from `softmatch plan`, and the numbers that its text derives from them.

python benchmarks/plan_tables.py             # two minutes; nothing is measured
python benchmarks/plan_tables.py runs scaling
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from softmatch.experiments.paper import EXPERIMENTS
from softmatch.methods import METHODS
from softmatch.planning.devices import DEVICES, Range
from softmatch.planning.experiments import Share, plan_experiments
from softmatch.planning.plans import Plan, count, make_plan
from softmatch.planning.pool import Growth, method_growth, other_growth, together
from softmatch.planning.setting import Own, named_setting, own_setting
from softmatch.planning.shown import FORGETTING, between, number, size
from softmatch.planning.timing import ARITHMETIC, gpu_speed
from softmatch.planning.views import READ_SECONDS, count_view_operations

WHERE = "docs/scale.md"
SOURCES: Mapping[str, str] = {
    "cifar10": "CIFAR-10",
    "svhn": "SVHN",
    "stl10": "STL-10",
    "cifar100": "CIFAR-100",
    "imagenet": "ImageNet",
    "agnews": "AG News",
    "imdb": "IMDb, at 512 tokens",
}
GPUS = ("v100", "a100", "h100", "rtx-4090", "l4", "t4")
TITLES: Mapping[str, str] = {"v100": "V100", "a100": "A100 80 GB", "h100": "H100", "rtx-4090": "RTX 4090", "l4": "L4", "t4": "T4"}
SIZES = (10**4, 10**6, 10**9)
HOUR, DAY = 3600.0, 86_400.0


@cache
def plan(source: str, device: str, gpus: int = 1, method: str = "softmatch") -> Plan:
    """The paper's run on a source."""
    setting = named_setting(source, ({"recipe": "paper", "method": method},), "cuda", WHERE)
    counted = count(setting, gpus)
    return make_plan(counted, gpus, DEVICES[device], gpu_speed(DEVICES[device], counted.cost.work, setting.config.precision))


def experiments() -> Iterator[str]:
    """The paper's experiments in GPU-hours."""
    columns: dict[str, list[Share]] = {name: plan_experiments("paper", DEVICES[name]) for name in ("v100", "a100", "h100")}
    yield row(["experiment", "runs", "EFLOP", *(TITLES[name] for name in columns), "files, GB"])
    yield line(7)
    for shares in zip(*columns.values(), strict=True):
        first = shares[0]
        name = "**all**" if first.name == "all" else f"`{first.name}`"
        hours = [between(share.gpu_hours) for share in shares]
        yield row([name, f"{first.runs:,}", number(first.flops / 1e18), *hours, number(first.storage / 1e9)])


def runs() -> Iterator[str]:
    """One run each, in GPU-hours."""
    yield row(["", *(TITLES[name] for name in GPUS), "memory, GB"])
    yield line(8)
    for source, title in SOURCES.items():
        yield run_row(source, title)


def run_row(source: str, title: str) -> str:
    """A source on every GPU."""
    memory = sum(plan(source, "v100").memory.values()) / 1e9
    return row([title, *(between(plan(source, name).gpu_hours) for name in GPUS), number(memory)])


SCALING = (("cifar10", "v100"), ("imagenet", "a100"))


def scaling() -> Iterator[str]:
    """From 1 GPU to 8 to 64."""
    yield row(["", "CIFAR-10, 1 V100", "8", "64", "ImageNet, 1 A100", "8", "64"])
    yield line(7)
    for name, cell in SCALING_ROWS.items():
        yield scaling_row(name, cell)


def scaling_row(name: str, cell: Callable[[Plan], str]) -> str:
    """A figure at every number of GPUs."""
    return row([name, *(cell(plan(source, device, gpus)) for source, device in SCALING for gpus in (1, 8, 64))])


def _hours(part: str) -> Callable[[Plan], str]:
    def cell(found: Plan) -> str:
        return "–" if part not in found.time.parts else between(found.time.parts[part] * (1 / HOUR))

    return cell


def _memory(*parts: str) -> Callable[[Plan], str]:
    return lambda found: size(sum(found.memory.get(part, 0.0) for part in parts))


def _sent(part: str) -> Callable[[Plan], str]:
    return lambda found: size(found.traffic.parts[part]) if found.traffic.parts else "–"


SCALING_ROWS: Mapping[str, Callable[[Plan], str]] = {
    "a step, ms": lambda found: between(found.time.step * 1e3),
    "a run, hours": lambda found: between(found.time.total * (1 / HOUR)),
    "… arithmetic of the steps": _hours(ARITHMETIC),
    "… the host, in between": _hours("the host, in between"),
    "… traffic": _hours("traffic"),
    "… the supervised twin": _hours("the supervised twin"),
    "overhead, %": lambda found: between(found.time.overhead * 100),
    "**GPU-hours**": lambda found: f"**{between(found.gpu_hours)}**",
    "memory of a GPU": lambda found: size(sum(found.memory.values())),
    "… activations, work, views": _memory("activations", "work on the largest layer", "views of the batch"),
    "… weights, gradients, optimiser, average": _memory(
        "weights", "gradients", "optimiser", "averaged weights", "gradients as one message"
    ),
    "… data": _memory("data"),
    "sent by a GPU in a step": lambda found: size(found.traffic.sent) if found.traffic.parts else "–",
    "… gradients": _sent("gradients"),
    "… batch statistics": _sent("batch statistics"),
    "… predictions": _sent("predictions and features"),
    "… messages": lambda found: f"{found.traffic.number:.0f}",
    "files of a run": lambda found: size(sum(found.storage.values())),
}


@cache
def states(classes: int = 10) -> list[Growth]:
    """Of every method."""
    setting = own_setting(Own("image", 100_000, (3, 32, 32), classes), ({},), "cuda", WHERE)
    return method_growth(setting, tuple(METHODS), SIZES)


def state() -> Iterator[str]:
    """State of the methods, from 10⁴ to 10⁹ samples."""
    yield row(["method", "bytes a sample", "other bytes", "10⁴", "10⁶", "10⁹", "at 10⁹"])
    yield line(7)
    for growth in states():
        if growth.per_sample:
            yield state_row(growth)
    steady = [growth for growth in states() if not growth.per_sample]
    few = [growth for growth in steady if growth.constant <= FORGETTING]
    most, same = max(growth.constant for growth in few), ["the same"] * 3
    yield row([", ".join(growth.name for growth in few), "0", f"at most {most:.0f}", *same, "fits"])
    more = [f"{growth.name} ({size(growth.constant)})" for growth in steady if growth.constant > FORGETTING]
    yield row([", ".join(more), "0", "as said", *same, "fits"])


def state_row(growth: Growth) -> str:
    """A method that remembers something of every sample."""
    cells = [growth.name, f"{growth.per_sample:.0f}", f"{growth.constant:.0f}", *map(size, growth.bytes)]
    return row([*cells, growth.verdict(DEVICES["a100"])])


def others() -> Iterator[str]:
    """Everything else with a row for every sample."""
    yield row(["else", "where", "bytes a sample", "10⁴", "10⁶", "10⁹", "at 10⁹"])
    yield line(7)
    setting = own_setting(Own("image", 1000, (3, 32, 32), 10), ({},), "cuda", WHERE)
    found = other_growth(setting, SIZES)
    for growth in (*found, together(found, "device"), together(found, "host")):
        verdict = "–" if growth.where == "disk" else growth.verdict(DEVICES["a100"])
        each = f"{growth.per_sample:,.0f}" if growth.per_sample >= 100 else f"{growth.per_sample:.3g}"
        yield row([growth.name, growth.where, each, *map(size, growth.bytes), verdict])


def derived() -> Iterator[str]:
    """Numbers in the text."""
    for source, device in SCALING:
        found = plan(source, device, 8).counted
        names = [name for name, _ in found.rows]
        made = count_view_operations(found.setting, names)
        every = found.work.operations
        yield f"- {source}: {every:,.0f} operations in a step, {made / every:.0%} of them for views"
    eight, many = plan("imagenet", "a100", 8), plan("imagenet", "a100", 64)
    gain = Range(eight.time.total.low / many.time.total.low, eight.time.total.high / many.time.total.high)
    yield f"- imagenet on 64 A100 instead of 8: {between(gain)} times as fast"
    second = Range(1 / eight.time.step.high, 1 / eight.time.step.low) * eight.counted.samples
    yield f"- imagenet on 8 A100: {between(second)} images a second, {between(second * READ_SECONDS)} cores"
    yield f"- cifar100 on one V100: {between(plan('cifar100', 'v100').time.total * (1 / DAY))} days"
    adsh = plan("cifar10", "v100", 1, "adsh").counted.work
    surveyed = adsh.surveys * adsh.survey / (adsh.steps * adsh.step)
    yield f"- adsh, predictions of the whole set: {surveyed:.1%} of the arithmetic of the steps"
    flops: dict[str, float] = {}
    planned: dict[str, float] = {}
    for sheet in EXPERIMENTS["table-main"].sheets["paper"]:
        for run in sheet.runs():
            key = repr((run.source, {name: value for name, value in run.settings.items() if name not in ("seed", "labels")}))
            if key not in planned:
                planned[key] = count(named_setting(run.source, (run.settings,), "cuda", WHERE)).work.total
            flops[run.source] = flops.get(run.source, 0.0) + planned[key]
    yield f"- of the main table, CIFAR-100 is {flops['cifar100'] / sum(flops.values()):.0%} of the arithmetic"
    kept = {growth.name: growth.per_sample for growth in states(1000) if growth.per_sample}
    yield "- with 1,000 classes, bytes a sample: " + ", ".join(f"{name} {value:,.0f}" for name, value in kept.items())


def row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |".replace("|  |", "| |")


def line(columns: int) -> str:
    return f"|{'---|' * columns}"


TABLES: Mapping[str, Callable[[], Iterator[str]]] = {
    "experiments": experiments,
    "runs": runs,
    "scaling": scaling,
    "state": state,
    "others": others,
    "derived": derived,
}


def main() -> None:
    for name in sys.argv[1:] or TABLES:
        print(f"\n## {TABLES[name].__doc__}\n")
        for text in TABLES[name]():
            print(text, flush=True)


if __name__ == "__main__":
    main()
