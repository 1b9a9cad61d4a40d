"""What `softmatch train` shows: what was understood, live progress, and the table at the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from softmatch.data.records import Finding
from softmatch.formatting import duration, percent
from softmatch.formatting import signed as points
from softmatch.networks import ENCODER
from softmatch.runs.folder import RunFolder
from softmatch.training.bench import Bench, Measurement, Plan
from softmatch.training.job import Result
from softmatch.training.loop import Record
from softmatch.training.measure import HURT
from softmatch.training.setup import effective
from softmatch.training.task import Task

LINES_WITHOUT_TERMINAL = 10
GIGABYTE = 2**30
PLACES = 5
CLASSES = 20


class Display:
    """Listener of a job. On a terminal a live bar for each network; elsewhere a line now and then."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(emoji=False)
        self._progress = Progress(
            TextColumn("{task.description:<16}"),
            BarColumn(bar_width=20),
            TextColumn("{task.completed}/{task.total}"),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(compact=True),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._bars: dict[str, TaskID] = {}
        self._next_line = 0

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def understood(self, task: Task, run: RunFolder) -> None:
        describe(task, self.console, str(run.path))

    def note(self, text: str) -> None:
        say(self.console, text, style="dim")

    def record(self, role: str, record: Record, steps: int) -> None:
        step = int(record["step"])
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
            if role not in self._bars:
                self._bars[role] = self._progress.add_task(role, total=steps, figures="")
            self._progress.update(self._bars[role], completed=step, figures=figures)
            return
        if step < self._next_line and step < steps:
            return
        self._next_line = 0 if step == steps else step + steps // LINES_WITHOUT_TERMINAL
        left = record["seconds"] / step * (steps - step)
        self.console.print(f"{role:<16} step {step:>6,}/{steps:,}  {figures}  {left:.0f} s left", highlight=False, soft_wrap=True)


class Reading:
    """Shows how far the preparing or predicting of data has come, on a terminal."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, emoji=False)
        self._progress = Progress(
            TextColumn("samples"),
            BarColumn(bar_width=20),
            TextColumn("{task.completed:,.0f}{task.description}"),
            TimeRemainingColumn(compact=True),
            console=self.console,
            disable=not self.console.is_terminal,
            transient=True,
        )
        self._bar: TaskID | None = None

    def __enter__(self) -> Reading:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def __call__(self, done: int, total: int | None) -> None:
        """So many are done, of so many where that is known."""
        if self._bar is None:
            self._bar = self._progress.add_task("", total=total)
        self._progress.update(self._bar, completed=done, total=total, description="" if total is None else f"/{total:,}")


def verdict(result: Result) -> str:
    """Whether the unlabelled data helped, in words, with the interval of the difference."""
    if result.test_error is None:
        return f"The error was not measured. {result.evaluation['reason']}"
    if result.difference is None or result.difference_interval is None:
        if result.method == "supervised":
            return "Trained on the labels alone."
        return "No twin was trained: whether the unlabelled data helped is not known."
    low, high = result.difference_interval
    interval = f"{points(result.difference)} points (95 % interval {points(low)} to {points(high)})"
    if high < 0:
        return f"The unlabelled data helped: {interval}."
    if low > 0:
        return f"The unlabelled data hurt: {interval}. Consider --method supervised, or more labels."
    return f"No clear difference: {interval} contains zero."


def print_result(result: Result, said: Sequence[str] = (), console: Console | None = None) -> None:
    """The table at the end.

    Args:
        said: warnings that were printed before.
    """
    console = console or Console(emoji=False)
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
            table.add_row("labels alone", percent(result.supervised_test_error), "")
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
            say(console, f"Warning: {warning}", style="yellow")
    say(console, f"{result.seconds:.0f} s in all.")
    say(console, f"Run folder  {result.run}\nReport      {result.run / 'report.html'}")
    if (result.run / "held_out.csv").exists():
        say(console, f"Mistakes    {result.run / 'held_out.csv'}")


def _confidence(found: dict[str, Any]) -> str:
    """How far confidence and accuracy are apart, in a sentence; nothing where it is not known."""
    if found["ece"] is None:
        return ""
    off = f"Confidence is off by {100 * found['ece']:.1f} points on average ({100 * found['ece_by_chance']:.1f} by chance alone)"
    if found["temperature"] in (None, 1.0) or found["ece_scaled"] is None:
        return f"{off}."
    scaled = f"{100 * found['ece_scaled']:.1f} after scaling by the temperature {found['temperature']:.2f}"
    return f"{off}, {scaled}, which the saved model uses."


def measured_how(result: Result) -> str:
    """What the error was measured on, in a sentence; nothing where it was not."""
    number = f"{result.test_samples:,}"
    return {
        "test": f"Measured on {number} test samples.",
        "holdout": f"Measured on {number} held-out samples, which were not trained on.",
        "crossfit": f"Measured on the {number} labelled samples, each left out once ({result.evaluation['folds']} folds). "
        "The saved model is trained on all labels.",
        "none": "",
    }[result.evaluation["kind"]]


def say(console: Console, text: str, style: str | None = None) -> None:
    """A line as it is: not cut, not coloured by what it looks like, and nothing in it taken as markup."""
    if text:
        console.print(text, highlight=False, soft_wrap=True, markup=False, emoji=False, style=style)


def describe(task: Task, console: Console, run: str) -> None:
    """What was understood, before anything is trained."""
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
        table.add_row(f"[dim]{key}[/dim]", Text(value))
    console.print(table)
    for finding in task.findings:
        say(console, f"{finding.level.capitalize()}: {finding.text}", style="yellow" if finding.level == "warning" else "dim")


def _network(task: Task) -> str:
    """Its name, without the folder of an encoder, and its size."""
    name = task.network_name
    if name.startswith(ENCODER):
        name = f"encoder {Path(name.removeprefix(ENCODER)).name}"
    trained = "" if task.trained in (None, task.parameters) else f", {task.trained:,} of them trained"
    return f"{name}, {task.parameters:,} parameters{trained}"


def _evaluation(task: Task) -> str:
    """How the error will be measured."""
    evaluation = task.evaluation
    if evaluation.kind == "test":
        return f"measured on {len(task.test[1]):,} test samples"
    if evaluation.kind == "holdout":
        return f"measured on {len(task.test[1]):,} held-out samples"
    if evaluation.kind == "crossfit":
        number, folds = sum(len(fold.test) for fold in evaluation.folds), len(evaluation.folds)
        return f"measured on {number:,} labelled samples, each left out once: {folds} folds, then a model of all labels"
    return f"not measured. {evaluation.reason}"


def memory(found: Measurement) -> str:
    """'2.31 GiB at the peak, 0.42 before the first step'."""
    return f"{found.memory / GIGABYTE:.2f} GiB at the peak, {found.memory_before / GIGABYTE:.2f} before the first step"


def print_plan(plan: Plan, console: Console | None = None) -> None:
    """What a run would do and cost."""
    console = console or Console(emoji=False)
    describe(plan.task, console, "none: this is a dry run, nothing is written")
    console.print()
    settings = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for key, value in effective(plan.task).items():
        settings.add_row(f"[dim]{key}[/dim]", "–" if value is None or value == {} else str(value))
    console.print(settings)
    console.print()
    measured, config = plan.measurement, plan.task.config
    speed = f"{measured.images / measured.seconds:,.0f} images/s"
    cost = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    rows = {
        "a step": f"{duration(measured.seconds)}, {speed}, median of {len(measured.step)}",
        "the baseline's step": "no baseline" if plan.baseline is None else duration(plan.baseline),
        "an evaluation": f"{duration(plan.evaluation)}, {plan.evaluations} of them for each network",
        "the whole run": f"about {duration(plan.seconds)} for {config.steps:,} steps, if the machine stays as busy as it is",
        "memory": memory(measured),
    }
    for key, value in rows.items():
        cost.add_row(f"[dim]{key}[/dim]", value)
    console.print(cost)


def print_bench(bench: Bench, as_json: bool = False, console: Console | None = None) -> None:
    """The figures of `softmatch bench`, as a table or as JSON."""
    if as_json:
        print(json.dumps(bench.as_dict(), indent=1, ensure_ascii=False))
        return
    console = console or Console(emoji=False)
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


def print_check(plan: Plan, findings: Sequence[Finding], console: Console | None = None) -> None:
    """What `softmatch check` understood and noticed, and what training would do and cost."""
    console = console or Console(emoji=False)
    task = plan.task
    describe(replace(task, findings=()), console, "none: this is a check, nothing is written")
    console.print()
    _print_classes(task, console)
    console.print()
    for level, style in (("warning", "yellow"), ("note", "dim")):
        for finding in findings:
            if finding.level == level:
                say(console, f"{level.capitalize()}: {finding.text}", style=style)
                for place in finding.places[:PLACES]:
                    say(console, f"    {place}", style="dim")
                if len(finding.places) > PLACES:
                    say(console, f"    … {len(finding.places) - PLACES:,} more", style="dim")
    if not any(finding.level == "warning" for finding in findings):
        say(console, "Nothing to worry about was found.")
    folds = len(task.evaluation.folds)
    trainings = ["the model"] if not folds else [f"{folds} folds", "the model of all labels"]
    if plan.baseline is not None:
        trainings.append(f"{folds} twins on the labels alone" if folds else "its twin on the labels alone")
    say(
        console,
        f"\nTraining would take about {duration(plan.seconds)} here: {', '.join(trainings)}; {task.config.steps:,} steps each. "
        "Start it with softmatch train and the same arguments.",
    )


def _print_classes(task: Task, console: Console) -> None:
    labels = task.examples.labels.clone()
    if task.config.labels is not None:  # the others are hidden
        labels[~torch.isin(torch.arange(len(labels)), task.split.labeled)] = -1
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
        table.add_row(Text(name), f"{count:,}", *([f"{tests:,}"] if test is not None else []))
    table.add_row("unlabelled", f"{int((labels < 0).sum()):,}")
    console.print(table)
    if len(rows) > len(shown):
        say(console, f"({len(rows):,} classes: the {CLASSES // 2} with the fewest labels and the {CLASSES // 2} with the most)")
