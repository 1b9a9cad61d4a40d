"""Plans as tables on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from softmatch.cli.display import say
from softmatch.formatting import duration, percent
from softmatch.planning.devices import Device, Range
from softmatch.planning.experiments import Share
from softmatch.planning.paper_times import stated_seconds
from softmatch.planning.plans import Plan
from softmatch.planning.pool import HOST_MEMORY, Growth, together
from softmatch.planning.sums import Total
from softmatch.planning.views import READ_FROM, READ_SECONDS

UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")
SMALL = 1e-3


def size(count: float) -> str:
    """'512 bytes', '1.5 MB', '4 TB', by thousands."""
    value, unit = count, 0
    while value >= 999.5 and unit < len(UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.3g} {UNITS[unit]}" if unit else f"{count:.0f} bytes"


def flops(value: float) -> str:
    """'1.23 TFLOP'."""
    for unit, factor in (("EFLOP", 1e18), ("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9)):
        if value >= factor:
            return f"{number(value / factor)} {unit}"
    return f"{number(value / 1e6)} MFLOP"


def number(value: float) -> str:
    """Three digits, or more before the point: '0.0231', '9.4', '1,234'."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def between(value: Range) -> str:
    """'5.1 – 8.7', or one number where both are the same."""
    low, high = number(value.low), number(value.high)
    return low if low == high else f"{low} – {high}"


def span(value: Range) -> str:
    """Seconds: '1.9 days – 3.2 days'."""
    low, high = duration(value.low), duration(value.high)
    return low if low == high else f"{low} – {high}"


def _rows(rows: Mapping[str, str], console: Console, title: str = "") -> None:
    if title:
        console.print(f"\n[bold]{title}[/bold]")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for key, value in rows.items():
        table.add_row(Text(key, style="dim"), Text(value))
    console.print(table)


def _bytes(parts: Mapping[str, float], console: Console, title: str) -> None:
    shown = {name: size(value) for name, value in parts.items() if value}
    _rows({**shown, "together": size(sum(parts.values()))}, console, title)


def print_plan(plan: Plan, total: Total, console: Console | None = None) -> None:
    """One run in every respect, and what all seeds of it cost."""
    console = console or Console(emoji=False)
    counted, setting = plan.counted, plan.counted.setting
    config, data, work = setting.config, setting.data, counted.work
    device = plan.device.title if plan.device is not None else "this machine"
    recipe = "" if config.recipe is None else ", the paper's recipe"
    held = "" if data.files is None else ", which stay in files"
    views = sum(rows for _, rows in counted.rows)
    _rows(
        {
            "setting": f"{setting.source}, {counted.method}{recipe}: {config.steps:,} steps",
            "device": f"{plan.gpus} × {device}, {config.precision}",
            "data": f"{data.classes:,} classes, {data.labeled:,} labelled, {data.unlabeled:,} unlabelled, "
            f"{data.tested:,} tested{held}",
            "network": f"{counted.network}, {counted.cost.parameters + counted.tally.heads:,} parameters",
            "samples": f"{counted.samples:,} in a step as {views:,} views, {config.steps * counted.samples:,} in all, "
            f"{number(counted.epochs)} epochs of the unlabelled set",
            "arithmetic": f"{flops(work.step)} in a step, {flops(work.total)} in all"
            + (f": {work.trainings} trainings, {work.twins} twins" if work.trainings > 1 else ", with the twin" * counted.twin),
        },
        console,
    )
    _print_time(plan, total, console)
    _bytes(plan.memory, console, "Memory of each GPU" if plan.device is not None else "Memory of each process")
    if plan.device is not None:
        used = sum(plan.memory.values()) / plan.device.memory
        short = f", or --precision {plan.device.short}" if config.precision == "float32" else ""
        fit = "" if used < 1 else f": it does not fit. Give smaller batches or more --gpus{short}"
        say(console, f"{percent(used)} of {size(plan.device.memory)}{fit}. CUDA's own part is not counted.", style="dim")
    if plan.speed.peak is not None:
        say(console, f"Measured at the peak: {size(plan.speed.peak)}, with Python and torch.", style="dim")
    _bytes(plan.host, console, "Memory of the host, for each process: what grows with the data")
    if plan.gpus > 1:
        _bytes(plan.traffic.parts, console, "Sent by each GPU in a step")
        hourly = Range(plan.traffic.sent * 3600 / plan.time.step.high, plan.traffic.sent * 3600 / plan.time.step.low)
        say(console, f"{plan.traffic.number:,.0f} messages; {size(hourly.low)} – {size(hourly.high)} an hour.", style="dim")
    if data.files is not None and min(data.shape[1:]) >= READ_FROM:
        _print_reading(plan, console)
    _bytes(plan.storage, console, "Files of a run")
    if plan.shared:
        _bytes(plan.shared, console, "Files that all runs share")
    _notes(plan, console)


def _hours(plan: Plan) -> str:
    """What an hour is one of."""
    return "hours of this machine" if plan.device is None else "GPU-hours"


def _print_time(plan: Plan, total: Total, console: Console) -> None:
    rows = {"a step": span(plan.time.step), **{name: span(part) for name, part in plan.time.parts.items()}}
    rows["a run"] = span(plan.time.total)
    rows["overhead"] = f"{between(plan.time.overhead * 100)} % of it is not the arithmetic of the steps"
    hours = _hours(plan)
    rows[hours] = f"{between(plan.gpu_hours)} a run" + (
        f", {between(total.gpu_hours)} for {total.runs}" if total.runs > 1 else ""
    )
    if total.price is not None:
        rows["price"] = between(total.price)
    _rows(rows, console, "Time")
    say(console, f"{plan.speed.where[0].upper()}{plan.speed.where[1:]}.", style="dim")


def _print_reading(plan: Plan, console: Console) -> None:
    """What the processors have to do so that no GPU waits for images."""
    second = Range(1 / plan.time.step.high, 1 / plan.time.step.low) * plan.counted.samples
    cores = second * READ_SECONDS
    rows = {"images read": f"{between(second)} a second by all GPUs together", "cores": f"{between(cores)} to keep up"}
    _rows(rows, console, "Reading files")
    taken = f"A core takes {1e3 * READ_SECONDS:.0f} ms to decode an image of 500×375 and to make two views of 224×224."
    say(console, taken, style="dim")


def _notes(plan: Plan, console: Console) -> None:
    setting = plan.counted.setting
    config, lengths = setting.config, setting.data.lengths
    if plan.left_out is not None:
        say(console, plan.left_out, style="yellow")
    if lengths is not None and not lengths.known and setting.data.kind == "text":
        say(console, f"Every text is taken to have {lengths.padded:.0f} tokens, an upper bound: give --tokens.", style="yellow")
    said = stated_seconds(setting.source, config.imbalance is not None) if config.recipe is not None else None
    if said is not None:
        say(console, f"The paper says around {duration(said)} on a V100.", style="dim")


def print_plans(plans: Sequence[Plan], total: Total, console: Console | None = None) -> None:
    """Several methods beside each other."""
    console = console or Console(emoji=False)
    first = plans[0]
    setting, device = first.counted.setting, first.device.title if first.device is not None else "this machine"
    say(console, f"{setting.source}: {setting.config.steps:,} steps on {first.gpus} × {device}, {setting.config.precision}")
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("method")
    memory = "memory" if first.device is None else "memory of a GPU"
    for name in ("a step", "a run", f"{_hours(first)}, a run", memory, "sent in a step", "files of a run"):
        table.add_column(name, justify="right")
    for plan in plans:
        table.add_row(
            Text(plan.counted.method),
            flops(plan.counted.work.step),
            span(plan.time.total),
            between(plan.gpu_hours),
            size(sum(plan.memory.values())),
            size(plan.traffic.sent),
            size(sum(plan.storage.values())),
        )
    console.print(table)
    for plan in plans:
        if plan.left_out is not None:
            say(console, plan.left_out, style="yellow")
    price = "" if total.price is None else f", price {between(total.price)}"
    say(console, f"{total.runs} runs: {between(total.gpu_hours)} {_hours(first)}{price}, {size(total.storage)} of files.")
    say(console, f"{first.speed.where[0].upper()}{first.speed.where[1:]}.", style="dim")


def print_experiments(
    shares: Sequence[Share], device: Device, gpus: int, price: float | None, console: Console | None = None
) -> None:
    """The paper's tables and figures."""
    console = console or Console(emoji=False)
    say(console, f"At the paper's scale on {device.title}, {gpus} for each run.")
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("experiment")
    for name in ("runs", "arithmetic", "GPU-hours", *(["price"] if price is not None else []), "files"):
        table.add_column(name, justify="right")
    for share in shares:
        cost = [] if price is None else [between(share.gpu_hours * price)]
        table.add_row(share.name, f"{share.runs:,}", flops(share.flops), between(share.gpu_hours), *cost, size(share.storage))
    console.print(table)
    say(console, f"Estimates: {device.sheet}; texts of unknown length count with the most that is read.", style="dim")


PLACES = {"device": "on every GPU", "host": "on the host, in every process", "disk": "on disk"}
FORGETTING = 1000
"""Bytes of a method's own numbers that are not worth a line."""


def print_pool(
    methods: Sequence[Growth],
    others: Sequence[Growth],
    device: Device,
    unfit: Sequence[str] = (),
    console: Console | None = None,
) -> None:
    """What grows with the unlabelled set.

    Args:
        unfit: methods that cannot serve the setting.
    """
    console = console or Console(emoji=False)
    growing = [growth for growth in methods if growth.per_sample]
    if growing:
        _print_growths("State of the methods, on every GPU", growing, device, console)
    steady = [growth for growth in methods if not growth.per_sample]
    if steady:
        few = max((growth.bytes[-1] for growth in steady if growth.bytes[-1] <= FORGETTING), default=0.0)
        names = (growth.name + f" ({size(growth.bytes[-1])})" * (growth.bytes[-1] > FORGETTING) for growth in steady)
        say(console, f"\nThese remember nothing of single samples (at most {size(few)} unless said): {', '.join(names)}.")
    if unfit:
        say(console, f"Left out, for they cannot train on this: {', '.join(unfit)}.", style="yellow")
    for where, words in PLACES.items():
        there = [growth for growth in others if growth.where == where]
        rows = [*there, together(others, where)] if where != "disk" else there
        _print_growths(f"Everything else {words}", rows, device, console)
        for growth in there:
            if growth.note:
                say(console, f"{growth.name}: {growth.note}.", style="dim")
    say(console, "")
    say(console, "Items are in memory or in files, not both: together is an upper bound.", style="dim")
    say(console, "Networks that a method trains besides, such as a teacher, are in the plan of a run, not here.", style="dim")
    room = f"{size(device.memory)}; of a host, {size(HOST_MEMORY)} for each GPU"
    say(console, f"Fits: at most half of the memory of {device.title} ({room}).", style="dim")


def _print_growths(title: str, growths: Sequence[Growth], device: Device, console: Console) -> None:
    console.print(f"\n[bold]{title}[/bold]")
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    sizes = [f"{samples:.3g}".replace("e+0", "e").replace("e+", "e") for samples in growths[0].sizes]
    for name in ("a sample", *sizes, f"at {sizes[-1]}" if growths[0].where != "disk" else ""):
        table.add_column(name, justify="right", no_wrap=True)
    for growth in growths:
        verdict = growth.verdict(device) if growth.where != "disk" else ""
        each = size(growth.per_sample).replace(" bytes", " B")
        table.add_row(growth.name, each, *(size(value) for value in growth.bytes), verdict)
    console.print(table)
