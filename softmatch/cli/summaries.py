"""Output at the end of commands: the result of a training, the plan of a dry run, a check and a benchmark."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from softmatch.cli.display import describe, make_console, print_facts, say, say_finding
from softmatch.data.records import Finding
from softmatch.data.shards.shard_source import shards_in
from softmatch.data.sources import SOURCES
from softmatch.formatting import duration, percent, visible_lines
from softmatch.runs.verdict import judge, rests_on
from softmatch.training.activations import Encoding
from softmatch.training.bench import Bench, Measurement, Plan
from softmatch.training.job import Result
from softmatch.training.measure import HURT, KEPT
from softmatch.training.setup import effective
from softmatch.training.task import Task

GIGABYTE = 2**30
PLACES = 5
CLASSES = 20


def verdict(result: Result) -> str:
    """Say whether the unlabelled data helped, with the interval of the difference."""
    if result.test_error is None:
        return f"The error was not measured. {result.evaluation['reason']}"
    if result.difference is None:
        if result.method == "supervised":
            return "Trained on the labels only."
        return "No baseline was trained, so it is not known whether the unlabelled data helped."
    sentence, kind = judge(result.difference, result.difference_interval)
    if kind != "hurt":
        return sentence
    return f"{sentence} {KEPT if result.kept != result.method else 'Consider --method supervised, or more labels.'}"


def _figures(*heads: str) -> Table:
    """A table of names and right-justified figures."""
    return Table(heads[0], *(Column(head, justify="right") for head in heads[1:]), box=None, padding=(0, 2, 0, 0))


def print_result(result: Result, source: str, said: Sequence[str] = (), console: Console | None = None) -> None:
    """Print the errors, the verdict, the files and the next commands."""
    console = console or make_console()
    console.print()
    if result.test_error is not None and result.test_error_interval is not None:
        table = _figures("", "test error", "95 % interval")
        low, high = map(percent, result.test_error_interval)
        table.add_row(f"[bold]{result.method}[/bold]", f"[bold]{percent(result.test_error)}[/bold]", f"{low} to {high}")
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
        if warning not in (HURT, KEPT, *said) and (warning != result.evaluation["reason"] or result.test_error is not None):
            say_finding(console, Finding("warning", warning))
    say(console, f"Total time: {duration(result.seconds)}.\n")
    say(console, f"Run folder  {result.run}\nReport      {result.run / 'report.html'}")
    if (result.run / "held_out.csv").exists():
        say(console, f"Mistakes    {result.run / 'held_out.csv'}")
    run = shlex.quote(str(result.run))
    following = f"softmatch predict {run} NEW-DATA", f"softmatch suggest {run}"
    if source in SOURCES:
        following = "softmatch check YOUR-DATA", f"softmatch compare {source} --methods supervised,fixmatch,softmatch"
    elif shards_in(source) is not None:  # which `suggest` refuses
        following = following[0], f"softmatch export {run} --to onnx"
    say(console, f"Next        {following[0]}\n            {following[1]}")


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
    number, every = f"{result.test_samples:,}", "the " if result.measured_on == "all" else ""
    folds = result.evaluation["folds"] or 1
    left = f"{result.labels - result.test_samples // folds:,}"
    how = {
        "test": f"Measured on {number} test samples.",
        "holdout": f"Measured on {number} held-out samples, which were not trained on.",
        "crossfit": f"Measured on {every}{number} labelled samples, each left out once ({folds} folds). "
        f"The saved model is trained on all {result.labels:,} labels, the measured models on about {left}: its own error is "
        "probably lower.",
        "none": "",
    }[result.evaluation["kind"]]
    return f"{how} {rests_on('random', result.test_samples)}" if result.measured_on == "random" else how


def memory(found: Measurement) -> str:
    """Format memory: '2.31 GiB at the peak, 0.42 before the first step'."""
    return f"{found.memory / GIGABYTE:.2f} GiB at the peak, {found.memory_before / GIGABYTE:.2f} before the first step"


def print_settings(task: Task, console: Console) -> None:
    """Print all effective settings."""
    console.print()
    print_facts(console, {key: "–" if value is None or value == {} else str(value) for key, value in effective(task).items()})


def print_plan(plan: Plan, console: Console) -> None:
    """Print what a run would do and cost."""
    describe(plan.task, console, "none: this is a dry run, nothing is written")
    print_settings(plan.task, console)
    console.print()
    measured, config = plan.measurement, plan.task.config
    speed = f"{measured.images / measured.seconds:,.0f} images/s"
    rows = {
        **({} if plan.encoding is None else {"activations": _activations(plan.encoding)}),
        "step": f"{duration(measured.seconds)}, {speed}, median of {len(measured.step)}",
        "step of the baseline": "no baseline" if plan.baseline is None else duration(plan.baseline),
        "evaluation": f"{duration(plan.evaluation[0])}, {plan.evaluations} times per network",
        "whole run": f"about {duration(plan.seconds)} for {config.steps:,} steps, at the current load of the machine",
        "memory": memory(measured),
    }
    print_facts(console, rows)


def _activations(cost: Encoding) -> str:
    """Format the cost of activations: 'about 2 min and 0.24 GB in …, once'."""
    if not cost.size:
        return f"cached in {cost.folder}"
    return f"about {duration(cost.seconds)} and {max(cost.size / 1e9, 0.01):.2f} GB in {cost.folder}, once"


def print_estimate(plan: Plan, console: Console) -> None:
    """Print what a run that trains an encoder will cost, before it starts."""
    steps = f"{plan.task.config.steps:,} steps of {duration(plan.measurement.seconds)}"
    say(console, f"Estimated: about {duration(plan.seconds)} in all, {steps}; memory {memory(plan.measurement)}.")
    if plan.encoding is not None:
        say(console, f"Activations of the encoder: {_activations(plan.encoding)}.")


def print_bench(bench: Bench) -> None:
    """Print the figures of `softmatch bench`."""
    console = make_console()
    setting, found = bench.setting, bench.measurement
    micro = f", up to {setting['micro_batch']} at a time" if setting["micro_batch"] else ""
    console.print(
        f"{setting['network']} ({setting['parameters']:,} parameters), {setting['method']}, "
        f"{setting['labeled_batch']} + {setting['unlabeled_batch']} images of {setting['image']}, "
        f"{setting['batch_statistics']} batch statistics{micro}, {setting['precision']}, "
        f"{setting['device']}, {setting['threads']} threads, torch {setting['torch']}"
    )
    table = _figures("part of a step", "seconds", "share")
    total = sum(found.parts.values())
    for name, seconds in found.parts.items():
        table.add_row(name, f"{seconds:.4f}", f"{seconds / total:.1%}")
    table.add_row("[bold]step[/bold]", f"[bold]{found.seconds:.4f}[/bold]", "")
    console.print(table)
    figures = found.as_dict()
    cost = figures["gflop_per_unlabeled_image"]
    per_image = "" if cost is None else f"arithmetic per unlabelled image: {cost:,.3g} GFLOP\n"
    console.print(
        f"step: median of {len(found.step)}, {min(found.step):.4f} to {max(found.step):.4f} s\n"
        f"processor time: {figures['cpu_seconds_per_step']:.4f} s per step\n"
        f"images through the network: {figures['images_per_second']:,.0f} per second\n"
        f"arithmetic: {figures['gflop_per_step']:,.1f} GFLOP per step, {figures['gflops']:,.0f} GFLOP/s, "
        f"{figures['share_of_matmul']:.0%} of a matrix product in {setting['precision']} "
        f"({figures['matmul_gflops']:,.0f} GFLOP/s)\n{per_image}"
        f"memory: {memory(found)}"
    )


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
    if plan.baseline is not None:
        trainings.append(f"{folds} baselines" if folds else "its baseline")
    say(
        console,
        f"\nTraining would take about {duration(plan.seconds)} here: {', '.join(trainings)}; {task.config.steps:,} steps each. "
        "Start it with softmatch train and the same arguments.",
    )
    if plan.encoding is not None:
        say(console, f"Activations of the encoder: {_activations(plan.encoding)}.")
    if plan.task.config.tune != "head":
        say(console, f"Memory: {memory(plan.measurement)}.")


def check_facts(plan: Plan, findings: Sequence[Finding]) -> dict[str, Any]:
    """Result of `softmatch check`, for JSON."""
    task = plan.task
    counts, unlabeled = _count_labels(task)
    return {
        "source": task.source,
        "kind": task.examples.kind,
        "samples": task.examples.number,
        "classes": dict(zip(task.examples.classes, counts, strict=True)),
        "unlabeled": unlabeled,
        "evaluation": {"kind": task.evaluation.kind, "folds": len(task.evaluation.folds) or None},
        "network": task.network_name,
        "parameters": task.parameters,
        "seconds": plan.seconds,
        "memory_bytes": plan.measurement.memory,
        "activations": None if plan.encoding is None else asdict(plan.encoding),
        "settings": effective(task),
        "findings": [asdict(finding) for finding in findings],
    }


def _count_labels(task: Task) -> tuple[list[int], int]:
    """Number of labels of each class, and of samples that are unlabelled or whose label is hidden."""
    labels = task.examples.labels
    if task.config.labels is not None:
        labels = labels[task.split.labeled]
    counts = torch.bincount(labels[labels >= 0], minlength=len(task.examples.classes)).tolist()
    return counts, task.examples.number - sum(counts)


def _print_classes(task: Task, console: Console) -> None:
    (counts, unlabeled), test = _count_labels(task), task.examples.test
    table = _figures("class", "labelled", *([] if test is None else ["test"]))
    columns = [counts] if test is None else [counts, torch.bincount(test.labels, minlength=len(counts)).tolist()]
    rows = sorted(zip(task.examples.classes, *columns, strict=True), key=lambda row: row[1])
    shown = rows if len(rows) <= CLASSES else [*rows[: CLASSES // 2], *rows[-CLASSES // 2 :]]
    for name, *numbers in shown:
        table.add_row(Text(visible_lines(name)), *(f"{number:,}" for number in numbers))
    table.add_row("unlabelled", f"{unlabeled:,}")
    console.print(table)
    if len(rows) > len(shown):
        say(console, f"({len(rows):,} classes: the {CLASSES // 2} with the fewest labels and the {CLASSES // 2} with the most)")
