"""What the commands show: consoles, progress bars, and the tables of train, check and bench. Imports torch."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from softmatch.cli.options import Talk, TalkOrJson
from softmatch.data.records import Finding
from softmatch.data.sources import SOURCES
from softmatch.formatting import duration, percent, printable
from softmatch.networks import ENCODER
from softmatch.runs.folder import RunFolder
from softmatch.runs.verdict import judge
from softmatch.training.bench import Bench, Measurement, Plan
from softmatch.training.job import Result
from softmatch.training.loop import Record
from softmatch.training.measure import HURT
from softmatch.training.setup import Task, effective

LINES_WITHOUT_TERMINAL = 10
GIGABYTE = 2**30
PLACES = 5
CLASSES = 20
BASELINE = "baseline"


def make_console(talk: Talk | None = None) -> Console:
    """Console of a command: silent with --quiet; on standard error with --json, whose result has standard output to itself."""
    return Console(stderr=isinstance(talk, TalkOrJson) and talk.as_json, quiet=talk is not None and talk.quiet, emoji=False)


def say(console: Console, text: str, style: str | None = None) -> None:
    """Print a line as it is: without markup, highlights and control characters; a terminal breaks it between words."""
    if text:
        long = any(len(word) >= console.width for word in text.split())  # a path, which must not be broken
        soft = long or not console.is_terminal
        console.print(printable(text), highlight=False, soft_wrap=soft, markup=False, emoji=False, style=style)


def say_finding(console: Console, finding: Finding) -> None:
    """Print a warning or a note about the data; --quiet does not hide warnings."""
    warning = finding.level == "warning"
    to = Console(stderr=True, emoji=False) if console.quiet and warning else console
    say(to, f"{finding.level.capitalize()}: {finding.text}", style="yellow" if warning else "dim")


class _Bars:
    """Progress bars on a terminal; nothing elsewhere."""

    def __init__(self, console: Console, columns: Sequence[ProgressColumn], transient: bool = False) -> None:
        self.console = console
        shown = console.is_terminal and not console.quiet
        columns = (*columns, TimeRemainingColumn(compact=True))
        self._progress = Progress(*columns, console=console, disable=not shown, transient=transient)
        self._bars: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def _show(self, name: str, done: int, total: int | None, figures: str) -> None:
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, total=total, figures="")
        self._progress.update(self._bars[name], completed=done, total=total, figures=figures)


class Display(_Bars):
    """Listener of a job: a live bar for each network on a terminal, and a line now and then elsewhere."""

    def __init__(self, console: Console | None = None) -> None:
        columns = (
            TextColumn("{task.description:<12}"),
            BarColumn(bar_width=10),
            TextColumn("{task.completed}/{task.total}"),
            TextColumn("{task.fields[figures]}"),
        )
        super().__init__(console or make_console(), columns)
        self._method = ""
        self._next_line = 0

    def understood(self, task: Task, run: RunFolder) -> None:
        self._method = task.config.method
        describe(task, self.console, str(run.path))

    def note(self, text: str) -> None:
        say(self.console, text, style="dim")

    def record(self, role: str, record: Record, steps: int) -> None:
        step = int(record["step"])
        name = role if role == self._method else role.replace("supervised", BASELINE).replace("labels", BASELINE)
        parts = [f"loss {record['loss']:.3f}"]
        if record.get("quantity") is not None:
            parts.append(f"f {record['quantity']:.2f}")
        if record.get("quality") is not None:
            parts.append(f"g {record['quality']:.2f}")
        if record.get("test_error") is not None:
            whose = "" if record.get("test_error_of") is None else f" of {record['test_error_of']}"
            parts.append(f"error{whose} {percent(record['test_error'])}")
        figures = "  ".join(parts)
        if self.console.is_terminal:
            self._show(name, step, steps, figures)
            return
        if step < self._next_line and step < steps:
            return
        self._next_line = 0 if step == steps else step + steps // LINES_WITHOUT_TERMINAL
        left = record["seconds"] / step * (steps - step)
        say(self.console, f"{name:<12} step {step:>6,}/{steps:,}  {figures}  {left:.0f} s left")


class Reading(_Bars):
    """Shows how many samples have been read or predicted, on a terminal."""

    def __init__(self, console: Console | None = None) -> None:
        columns = (TextColumn("samples"), BarColumn(bar_width=20), TextColumn("{task.completed:,.0f}{task.fields[figures]}"))
        super().__init__(console or Console(stderr=True, emoji=False), columns, transient=True)

    def __call__(self, done: int, total: int | None = None) -> None:
        """Show the number of samples that are done, and of all samples where that is known."""
        self._show("", done, total, "" if total is None else f"/{total:,}")


def verdict(result: Result) -> str:
    """Say whether the unlabelled data helped, with the interval of the difference."""
    if result.test_error is None:
        return f"The error was not measured. {result.evaluation['reason']}"
    if result.difference is None:
        if result.method == "supervised":
            return "Trained on the labels only."
        return "No baseline was trained, so it is not known whether the unlabelled data helped."
    sentence, kind = judge(result.difference, result.difference_interval)
    return f"{sentence} Consider --method supervised, or more labels." if kind == "hurt" else sentence


def print_result(result: Result, source: str, said: Sequence[str] = (), console: Console | None = None) -> None:
    """Print the errors, the verdict, the files and the next commands.

    Args:
        source: data that were trained on.
        said: warnings that were printed before.
    """
    console = console or make_console()
    console.print()
    if result.test_error is not None and result.test_error_interval is not None:
        table = Table(title=None, box=None, padding=(0, 3, 0, 0))
        table.add_column("")
        table.add_column("test error", justify="right")
        table.add_column("95 % interval", justify="right")
        low, high = result.test_error_interval
        interval = f"{percent(low)} to {percent(high)}"
        table.add_row(f"[bold]{result.method}[/bold]", f"[bold]{percent(result.test_error)}[/bold]", interval)
        if result.supervised_test_error is not None:
            table.add_row("baseline (labels only)", percent(result.supervised_test_error), "")
        console.print(table)
        console.print()
    say(console, verdict(result))
    say(console, measured_how(result))
    if result.quantity is not None:
        quality = "" if result.quality is None else f", quality {percent(result.quality)}"
        say(console, f"Pseudo-labels at the end: quantity {percent(result.quantity)}{quality}.")
    if result.calibration is not None:
        say(console, _confidence(result.calibration))
    for warning in result.warnings:
        if warning != HURT and warning not in said and (warning != result.evaluation["reason"] or result.test_error is not None):
            say_finding(console, Finding("warning", warning))
    say(console, f"Total time: {duration(result.seconds)}.\n")
    say(console, f"Run folder  {result.run}\nReport      {result.run / 'report.html'}")
    if (result.run / "held_out.csv").exists():
        say(console, f"Mistakes    {result.run / 'held_out.csv'}")
    first, second = next_commands(result, source)
    say(console, f"Next        {first}\n            {second}")


def next_commands(result: Result, source: str) -> tuple[str, str]:
    """The two most useful commands after training."""
    run = shlex.quote(str(result.run))
    if source in SOURCES:
        return "softmatch check YOUR-DATA", f"softmatch compare {source} --methods supervised,fixmatch,softmatch"
    return f"softmatch predict {run} NEW-DATA", f"softmatch suggest {run}"


def _confidence(found: dict[str, Any]) -> str:
    """Say how far confidence and accuracy are apart; nothing where it is not known."""
    if found["ece"] is None:
        return ""
    off = f"Confidence is off by {100 * found['ece']:.1f} points on average ({100 * found['ece_by_chance']:.1f} by chance alone)"
    if found["temperature"] in (None, 1.0) or found["ece_scaled"] is None:
        return f"{off}."
    scaled = f"{100 * found['ece_scaled']:.1f} after scaling by the temperature {found['temperature']:.2f}"
    return f"{off}, {scaled}, which the saved model uses."


def measured_how(result: Result) -> str:
    """Say what the error was measured on; nothing where it was not measured."""
    number = f"{result.test_samples:,}"
    return {
        "test": f"Measured on {number} test samples.",
        "holdout": f"Measured on {number} held-out samples, which were not trained on.",
        "crossfit": f"Measured on the {number} labelled samples, each left out once ({result.evaluation['folds']} folds). "
        "The saved model is trained on all labels.",
        "none": "",
    }[result.evaluation["kind"]]


def describe(task: Task, console: Console, run: str) -> None:
    """Print what was understood, before anything is trained."""
    config, split = task.config, task.split
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    recipe = "" if config.recipe is None else f" by the recipe {config.recipe!r}"
    alone = config.method == "supervised"
    batch = f"{config.labeled_batch} samples" if alone else f"{config.labeled_batch} + {config.unlabeled_batch} samples"
    unlabeled = int((~torch.isin(split.unlabeled, split.labeled)).sum())
    prepared = "" if task.examples.preparation is None else f" ({task.examples.preparation.describe()})"
    rows = {
        "source": f"{task.source}: {task.examples.describe()}{prepared}",
        "labels": f"{len(split.labeled):,} labelled, {unlabeled:,} unlabelled",
        "error": _evaluation(task),
        "method": f"{config.method}{recipe}, {config.steps:,} steps of {batch}, seed {config.seed}",
        "network": f"{_network(task)}, on {task.device}, {config.precision}",
        "run folder": run,
    }
    for key, value in rows.items():
        table.add_row(f"[dim]{key}[/dim]", Text(printable(value)))
    console.print(table)
    for finding in task.findings:
        say_finding(console, finding)


def _network(task: Task) -> str:
    """Name of the network, without the folder of an encoder, and its size."""
    name = task.network_name
    if name.startswith(ENCODER):
        name = f"encoder {Path(name.removeprefix(ENCODER)).name}"
    trained = "" if task.trained in (None, task.parameters) else f", {task.trained:,} of them trained"
    return f"{name}, {task.parameters:,} parameters{trained}"


def _evaluation(task: Task) -> str:
    """Say how the error will be measured."""
    evaluation = task.evaluation
    if evaluation.kind == "test":
        return f"measured on {len(task.test[1]):,} test samples"
    if evaluation.kind == "holdout":
        return f"measured on {len(task.test[1]):,} held-out samples"
    if evaluation.kind == "crossfit":
        number, folds = sum(len(fold.test) for fold in evaluation.folds), len(evaluation.folds)
        return f"measured on {number:,} labelled samples, each left out once ({folds} folds); then a model on all labels"
    return f"not measured. {evaluation.reason}"


def memory(found: Measurement) -> str:
    """Format memory: '2.31 GiB at the peak, 0.42 before the first step'."""
    return f"{found.memory / GIGABYTE:.2f} GiB at the peak, {found.memory_before / GIGABYTE:.2f} before the first step"


def print_settings(task: Task, console: Console) -> None:
    """Print all effective settings."""
    console.print()
    settings = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for key, value in effective(task).items():
        settings.add_row(f"[dim]{key}[/dim]", Text("–" if value is None or value == {} else printable(str(value))))
    console.print(settings)


def print_plan(plan: Plan, console: Console) -> None:
    """Print what a run would do and cost."""
    describe(plan.task, console, "none: this is a dry run, nothing is written")
    print_settings(plan.task, console)
    console.print()
    measured, config = plan.measurement, plan.task.config
    speed = f"{measured.images / measured.seconds:,.0f} images/s"
    cost = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    rows = {
        "step": f"{duration(measured.seconds)}, {speed}, median of {len(measured.step)}",
        "step of the baseline": "no baseline" if plan.twin is None else duration(plan.twin),
        "evaluation": f"{duration(plan.evaluation)}, {plan.evaluations} times per network",
        "whole run": f"about {duration(plan.seconds)} for {config.steps:,} steps, at the current load of the machine",
        "memory": memory(measured),
    }
    for key, value in rows.items():
        cost.add_row(f"[dim]{key}[/dim]", value)
    console.print(cost)


def print_bench(bench: Bench, as_json: bool = False) -> None:
    """Print the figures of `softmatch bench` as a table or as JSON."""
    if as_json:
        print(as_json(bench.as_dict()))
        return
    console = make_console()
    setting, found = bench.setting, bench.measurement
    micro = f", at most {setting['micro_batch']} at a time" if setting["micro_batch"] else ""
    console.print(
        f"{setting['network']} ({setting['parameters']:,} parameters), {setting['method']}, "
        f"{setting['labeled_batch']} + {setting['unlabeled_batch']} images of {setting['image']}, "
        f"{setting['batch_statistics']} batch statistics{micro}, {setting['precision']}, "
        f"{setting['device']}, {setting['threads']} threads, torch {setting['torch']}"
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("part of a step")
    table.add_column("seconds", justify="right")
    table.add_column("share", justify="right")
    total = sum(found.parts.values())
    for name, seconds in found.parts.items():
        table.add_row(name, f"{seconds:.4f}", f"{seconds / total:.1%}")
    table.add_row("[bold]step[/bold]", f"[bold]{found.seconds:.4f}[/bold]", "")
    console.print(table)
    figures = found.as_dict()
    console.print(f"step: median of {len(found.step)}, {min(found.step):.4f} to {max(found.step):.4f} s")
    console.print(f"processor time: {figures['cpu_seconds_per_step']:.4f} s per step")
    console.print(f"images through the network: {figures['images_per_second']:,.0f} per second")
    console.print(
        f"arithmetic: {figures['gflop_per_step']:,.1f} GFLOP per step, {figures['gflops']:,.0f} GFLOP/s, "
        f"{figures['share_of_matmul']:.0%} of a matrix product ({figures['matmul_gflops']:,.0f} GFLOP/s)"
    )
    console.print(f"memory: {memory(found)}")


def print_check(plan: Plan, findings: Sequence[Finding], console: Console, verbose: bool = False) -> None:
    """Print what `softmatch check` understood and found, and what training would do and cost."""
    task = plan.task
    describe(replace(task, findings=()), console, "none: this is a check, nothing is written")
    if verbose:
        print_settings(task, console)
    console.print()
    _print_classes(task, console)
    console.print()
    for finding in sorted(findings, key=lambda finding: finding.level != "warning"):
        say_finding(console, finding)
        for place in finding.places[:PLACES]:
            say(console, f"    {place}", style="dim")
        if len(finding.places) > PLACES:
            say(console, f"    … {len(finding.places) - PLACES:,} more", style="dim")
    if not any(finding.level == "warning" for finding in findings):
        say(console, "No problems were found.")
    folds = len(task.evaluation.folds)
    trainings = ["the model"] if not folds else [f"{folds} folds", "the model on all labels"]
    if plan.twin is not None:
        trainings.append(f"{folds} baselines" if folds else "its baseline")
    say(
        console,
        f"\nTraining would take about {duration(plan.seconds)} here: {', '.join(trainings)}; {task.config.steps:,} steps each. "
        "Start it with softmatch train and the same arguments.",
    )


def check_facts(plan: Plan, findings: Sequence[Finding]) -> dict[str, Any]:
    """What `softmatch check` understood and found, for JSON."""
    task = plan.task
    labels = _visible_labels(task)
    counts = torch.bincount(labels[labels >= 0], minlength=len(task.examples.classes)).tolist()
    return {
        "source": task.source,
        "kind": task.examples.kind,
        "samples": len(task.examples),
        "classes": dict(zip(task.examples.classes, counts, strict=True)),
        "unlabeled": int((labels < 0).sum()),
        "evaluation": {"kind": task.evaluation.kind, "folds": len(task.evaluation.folds) or None},
        "network": task.network_name,
        "parameters": task.parameters,
        "seconds": plan.seconds,
        "memory_bytes": plan.measurement.memory,
        "settings": effective(task),
        "findings": [asdict(finding) for finding in findings],
    }


def _visible_labels(task: Task) -> torch.Tensor:
    """Labels of all samples, −1 for those that are unlabelled or hidden."""
    labels = task.examples.labels.clone()
    if task.config.labels is not None:
        labels[~torch.isin(torch.arange(len(labels)), task.split.labeled)] = -1
    return labels


def _print_classes(task: Task, console: Console) -> None:
    labels = _visible_labels(task)
    counts = torch.bincount(labels[labels >= 0], minlength=len(task.examples.classes)).tolist()
    test = None if task.examples.test is None else task.examples.test.labels
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("class")
    table.add_column("labelled", justify="right")
    tested = [] if test is None else torch.bincount(test, minlength=len(counts)).tolist()
    if test is not None:
        table.add_column("test", justify="right")
    rows = sorted(zip(task.examples.classes, counts, tested or counts, strict=True), key=lambda row: row[1])
    shown = rows if len(rows) <= CLASSES else [*rows[: CLASSES // 2], *rows[-CLASSES // 2 :]]
    for name, count, tests in shown:
        table.add_row(Text(printable(name)), f"{count:,}", *([f"{tests:,}"] if test is not None else []))
    table.add_row("unlabelled", f"{int((labels < 0).sum()):,}")
    console.print(table)
    if len(rows) > len(shown):
        say(console, f"({len(rows):,} classes: the {CLASSES // 2} with the fewest labels and the {CLASSES // 2} with the most)")
