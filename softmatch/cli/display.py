"""Output of commands while they run: consoles, lines, progress bars, and what was understood of the data."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from softmatch.cli.options import Talk, TalkOrJson
from softmatch.data.records import Finding
from softmatch.formatting import percent, visible_lines
from softmatch.networks import ENCODER
from softmatch.runs.folder import RunFolder
from softmatch.training.arithmetic import describe_machine
from softmatch.training.loop import Record
from softmatch.training.task import Task
from softmatch.views import OwnViews

LINES_WITHOUT_TERMINAL = 10
BASELINE = "baseline"


def make_console(talk: Talk | None = None) -> Console:
    """Console of a command: silent with --quiet; on standard error with --json, whose result has standard output to itself."""
    return Console(stderr=isinstance(talk, TalkOrJson) and talk.as_json, quiet=talk is not None and talk.quiet, emoji=False)


def say(console: Console, text: str, style: str | None = None) -> None:
    """Print a line as it is: without markup, highlights and control characters; a terminal breaks it between words."""
    if text:
        long = any(len(word) >= console.width for word in text.split())  # a path, which must not be broken
        soft = long or not console.is_terminal
        console.print(visible_lines(text), highlight=False, soft_wrap=soft, markup=False, emoji=False, style=style)


def say_finding(console: Console, finding: Finding) -> None:
    """Print a warning or a note about the data; --quiet does not hide warnings."""
    warning = finding.level == "warning"
    to = Console(stderr=True, emoji=False) if console.quiet and warning else console
    say(to, f"{finding.level.capitalize()}: {finding.text}", style="yellow" if warning else "dim")


def print_facts(console: Console, rows: Mapping[str, str]) -> None:
    """Print names with their values."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for key, value in rows.items():
        table.add_row(f"[dim]{key}[/dim]", Text(visible_lines(value)))
    console.print(table)


class _Bars(Progress):
    """Progress bars on a terminal; nothing elsewhere. They start with the first figures, after the bars of a download."""

    def __init__(self, console: Console, columns: Sequence[ProgressColumn], transient: bool = False) -> None:
        hidden = console.quiet or not console.is_terminal
        super().__init__(*columns, TimeRemainingColumn(compact=True), console=console, disable=hidden, transient=transient)
        self._bars: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        return self

    def _show(self, name: str, done: int, total: int | None, figures: str) -> None:
        if not self.live.is_started:
            self.start()
        if name not in self._bars:
            self._bars[name] = self.add_task(name, total=total, figures="")
        self.update(self._bars[name], completed=done, total=total, figures=figures)


class Display(_Bars):
    """Watcher of a job: a live bar for each network on a terminal, and some `lines` for each elsewhere."""

    def __init__(self, console: Console, lines: int = LINES_WITHOUT_TERMINAL) -> None:
        self._lines = lines
        name, steps = TextColumn("{task.description:<12}"), TextColumn("{task.completed}/{task.total}")
        super().__init__(console, (name, BarColumn(bar_width=10), steps, TextColumn("{task.fields[figures]}")))
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
        shares = {"f": record.get("quantity"), "g": record.get("quality")}
        parts += [f"{symbol} {share:.2f}" for symbol, share in shares.items() if share is not None]
        if record.get("test_error") is not None:
            whose = f" on {record['test_error_of']}" if record.get("test_error_of") else ""
            parts.append(f"error{whose} {percent(record['test_error'])}")
        figures = "  ".join(parts)
        if self.console.is_terminal:
            self._show(name, step, steps, figures)
            return
        if step < self._next_line and step < steps:
            return
        self._next_line = 0 if step == steps else step + steps // self._lines
        left = record["seconds"] / step * (steps - step)
        say(self.console, f"{name:<12} step {step:>6,}/{steps:,}  {figures}  {left:.0f} s left")


class Reading(_Bars):
    """Shows how many samples have been read or predicted, on a terminal."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("samples"), BarColumn(bar_width=20), TextColumn("{task.completed:,.0f}{task.fields[figures]}"))
        super().__init__(console, columns, transient=True)

    def __call__(self, done: int, total: int | None = None) -> None:
        """Show the number of samples that are done, and of all samples where that is known."""
        self._show("", done, total, "" if total is None else f"/{total:,}")


def progress_of(talk: Talk) -> Reading:
    """Progress of a command that reads or predicts, on standard error."""
    return Reading(Console(stderr=True, quiet=talk.quiet, emoji=False))


def describe(task: Task, console: Console, run: str) -> None:
    """Print what was understood, before anything is trained."""
    config, split = task.config, task.split
    recipe = "" if config.recipe is None else f" by the recipe {config.recipe!r}"
    alone = config.method == "supervised"
    batch = f"{config.labeled_batch} samples" if alone else f"{config.labeled_batch} + {config.unlabeled_batch} samples"
    unlabeled = task.pool_size - int(torch.isin(split.unlabeled, split.labeled).sum())
    name = task.network_name
    if name.startswith(ENCODER):  # without its folder
        name = f"encoder {Path(name.removeprefix(ENCODER)).name}"
    trained = "" if task.trained in (None, task.parameters) else f", {task.trained:,} of them trained"
    prepared = "" if task.examples.preparation is None else f" ({task.examples.preparation.describe()})"
    rows = {
        "source": f"{task.source}: {task.examples.describe()}{prepared}",
        "labels": f"{len(split.labeled):,} labelled, {unlabeled:,} unlabelled",
        "error": _evaluation(task),
        "method": f"{config.method}{recipe}, {config.steps:,} steps of {batch}, seed {config.seed}",
        "network": f"{name}, {task.parameters:,} parameters{trained}",
        **({"views": task.views.describe()} if isinstance(task.views, OwnViews) else {}),
        "machine": describe_machine(task.device, config.precision),
        "run folder": run,
    }
    print_facts(console, rows)
    for finding in task.findings:
        say_finding(console, finding)


def _evaluation(task: Task) -> str:
    """Say how the error will be measured."""
    evaluation = task.evaluation
    if evaluation.kind == "none":
        return f"not measured. {evaluation.reason}"
    if evaluation.kind == "crossfit":
        number, folds = sum(len(fold.test) for fold in evaluation.folds), len(evaluation.folds)
        kind = "random labelled" if evaluation.measured_on == "random" else "labelled"
        return f"measured on {number:,} {kind} samples, each left out once ({folds} folds); then a model on all labels"
    return f"measured on {len(task.test[1]):,} {'test' if evaluation.kind == 'test' else 'held-out'} samples"
