"""What `softmatch train` shows: what was understood, live progress, and the table at the end."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from softmatch.runs import RunFolder
from softmatch.training.job import Result, Task
from softmatch.training.loop import Record

LINES_WITHOUT_TERMINAL = 10


def percent(fraction: float | None) -> str:
    """'2.6 %', or a dash where nothing can be said."""
    return "–" if fraction is None else f"{100 * fraction:.1f} %"


def points(fraction: float) -> str:
    """A difference in percentage points, with its sign: '−12.8'."""
    return f"{100 * fraction:+.1f}".replace("-", "−")


class Display:
    """Listener of a job. On a terminal a live bar for each network; elsewhere a line now and then."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self._progress = Progress(
            TextColumn("{task.description:<14}"),
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
        config, split = task.config, task.split
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        where = "its own" if task.examples.test is not None else f"{config.test_fraction:.0%} held out"
        batch = f"{config.labeled_batch} + {config.unlabeled_batch} samples"
        samples = f"{len(split.labeled)} labelled, {len(split.unlabeled):,} unlabelled"
        rows = {
            "source": f"{task.source}: {task.examples.describe()}",
            "labels": f"{samples}, {len(task.test[1]):,} for testing ({where})",
            "method": f"{config.method}, {config.steps:,} steps of {batch}, seed {config.seed}",
            "network": f"{task.network}, {task.parameters:,} parameters, on {task.device}, {config.precision}",
            "run folder": str(run.path),
        }
        for key, value in rows.items():
            table.add_row(f"[dim]{key}[/dim]", value)
        self.console.print(table)

    def record(self, role: str, record: Record, steps: int) -> None:
        step = int(record["step"])
        parts = [f"loss {record['loss']:.3f}"]
        if record.get("quantity") is not None:
            parts.append(f"f {record['quantity']:.2f}")
        if record.get("quality") is not None:
            parts.append(f"g {record['quality']:.2f}")
        parts.append(f"error {percent(record['test_error'])}")
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
        self.console.print(f"{role:<14} step {step:>6,}/{steps:,}  {figures}  {left:.0f} s left", highlight=False, soft_wrap=True)


def verdict(result: Result) -> str:
    """Whether the unlabelled data helped, in words, with the interval of the difference."""
    if result.difference is None or result.difference_interval is None:
        return "No twin was trained: whether the unlabelled data helped is not known."
    low, high = result.difference_interval
    interval = f"{points(result.difference)} points (95 % interval {points(low)} to {points(high)})"
    if high < 0:
        return f"The unlabelled data helped: {interval}."
    if low > 0:
        return f"The unlabelled data hurt: {interval}. Consider --method supervised, or more labels."
    return f"No clear difference: {interval} contains zero."


def print_result(result: Result, console: Console | None = None) -> None:
    """The table at the end."""
    console = console or Console()
    table = Table(title=None, box=None, padding=(0, 3, 0, 0))
    table.add_column("")
    table.add_column("test error", justify="right")
    table.add_column("95 % interval", justify="right")
    low, high = result.test_error_interval
    interval = f"{percent(low)} to {percent(high)}"
    table.add_row(f"[bold]{result.method}[/bold]", f"[bold]{percent(result.test_error)}[/bold]", interval)
    if result.supervised_test_error is not None:
        table.add_row("labels alone", percent(result.supervised_test_error), "")
    console.print()
    console.print(table)
    console.print(f"\n{verdict(result)}", highlight=False)
    if result.quantity is not None:
        quality = "" if result.quality is None else f", quality {percent(result.quality)}"
        console.print(f"Pseudo-labels at the end: quantity {percent(result.quantity)}{quality}.", highlight=False)
    console.print(f"{result.test_samples:,} test samples, {result.seconds:.0f} s.", highlight=False)
    console.print(f"Run folder  {result.run}\nReport      {result.run / 'report.html'}", highlight=False, soft_wrap=True)
