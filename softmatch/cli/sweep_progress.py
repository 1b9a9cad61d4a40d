"""Sweeps on the command line: run them, with a live table in a terminal or a line per event elsewhere, and print failures."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from softmatch.cli.display import say
from softmatch.config import read_file
from softmatch.errors import InputError
from softmatch.experiments.executors import Where, open_executor
from softmatch.experiments.sheet import Run, Sheet
from softmatch.experiments.store import Store
from softmatch.experiments.sweep import Listener, Outcome, Sweep
from softmatch.formatting import duration
from softmatch.report.run_contents import number
from softmatch.runs.folder import read_record

EVERY = 1.0
"""Seconds between two looks at the files of runs."""
Cells = Mapping[tuple[str, str], Sequence[str]]
"""Keys of the runs of each cell, by the name of its row and the title of its column."""
TAIL = 2**18
"""Bytes at the end of metrics.jsonl that hold its last line."""


def run_sheets(
    sheets: Sequence[Sheet],
    store: Store,
    where: Where,
    console: Console,
    *,
    data: Mapping[str, Path] | None = None,
    also: Sequence[str] = (),
    command: str = "the same command",
) -> list[Outcome]:
    """Train all runs of some sheets that are not finished, and print the failures; see `softmatch.experiments.sweep.Sweep`."""
    runs = list({run.key: run for sheet in sheets for run in sheet.runs()}.values())
    executor = open_executor(where, store.root)
    with Progress(sheets, store, console) as progress:
        outcomes = Sweep(store, executor, where.retries, also, data or {}, progress, command).run(runs)
    for outcome in outcomes:
        if outcome.state != "done":
            say(console, f"\n{outcome.run.name} {outcome.state}: {outcome.message}", style="red")
            say(console, f"Its log: {store.log(outcome.run)}", style="red")
    return outcomes


class Progress(Listener):
    """Shows how far the runs of some sheets are."""

    def __init__(self, sheets: Sequence[Sheet], store: Store, console: Console) -> None:
        self._console, self._store = console, store
        self._runs = {run.key: run for sheet in sheets for run in sheet.runs()}
        self._sheets = [(sheet, _cells(sheet)) for sheet in sheets]
        self._known: dict[str, tuple[float | None, float | None]] = {}  # error and seconds of finished runs, by key
        self._waiting: set[str] = set()  # also those that run
        self._running: dict[str, Run] = {}
        self._failed: set[str] = set()
        self._steps: dict[str, int] = {}
        self._next = 0.0
        self._live: Live | None = None

    def __enter__(self) -> "Progress":
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, get_renderable=self.table)
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def begins(self, waiting: Sequence[Run]) -> None:
        self._waiting = {run.key for run in waiting}
        for run in self._runs.values():
            if run.key not in self._waiting:
                self._note(run)
        if self._live is not None:
            self._live.start()

    def started(self, run: Run) -> None:
        self._running[run.key] = run

    def retried(self, run: Run, attempt: int, message: str) -> None:
        self._running.pop(run.key, None)
        say(self._console, f"{run.name} {_first(message)} Retrying (attempt {attempt + 1}).", "yellow")

    def elsewhere(self, run: Run) -> None:
        self._running.pop(run.key, None)
        say(self._console, f"{run.name} is being trained by another process.", "dim")

    def ended(self, outcome: Outcome) -> None:
        run = outcome.run
        self._waiting.discard(run.key)
        self._running.pop(run.key, None)
        if outcome.state != "done":
            self._failed.add(run.key)
            times = f"{outcome.attempts} attempt{'s' * (outcome.attempts != 1)}"
            say(self._console, f"{self._count()} {run.name} {outcome.state} after {times}: {_first(outcome.message)}", "red")
            return
        error, seconds = self._note(run)
        if self._live is None:
            took = "" if seconds is None else f", {duration(seconds)}"
            figure = "no error measured" if error is None else f"error {100 * error:.2f} %"
            say(self._console, f"{self._count()} {run.name}: {figure}{took}")

    def look(self) -> None:
        if self._live is not None and time.monotonic() >= self._next:
            self._live.refresh()
            self._next = time.monotonic() + EVERY

    def table(self) -> Group:
        """The cells of all sheets, and a line of totals."""
        progress = {key: self._progress(run) for key, run in self._running.items()}
        tables = [self._sheet(sheet, cells, progress) for sheet, cells in self._sheets]
        waiting, running = len(self._waiting) - len(self._running), len(self._running)
        parts = [f"{len(self._known)} of {len(self._runs)} finished", f"{running} running", f"{waiting} waiting"]
        if self._failed:
            parts.append(f"{len(self._failed)} failed")
        if (left := self._seconds_left(progress)) is not None:
            parts.append(f"about {duration(left)} left")
        return Group(*tables, Text(" · ".join(parts)))

    def _sheet(self, sheet: Sheet, cells: Cells, progress: dict[str, float]) -> Table:
        table = Table(title=Text(sheet.title), title_justify="left", box=None, padding=(0, 2, 0, 0))
        table.add_column("")
        for column in sheet.columns:
            table.add_column(Text(column.title), justify="right")
        for row in sheet.rows:
            found = [cells[row.name, column.title] for column in sheet.columns]
            table.add_row(Text(row.name), *(self._cell(keys, progress) for keys in found))
        return table

    def _cell(self, keys: Sequence[str], progress: dict[str, float]) -> str:
        """'3/5 · 12.3 ± 0.4 · running 45 %'."""
        finished = [self._known[key] for key in keys if key in self._known]
        parts = [f"{len(finished)}/{len(keys)}"]
        errors = [100 * error for error, _ in finished if error is not None]
        if errors:
            parts.append(f"{fmean(errors):.1f}" + (f" ± {stdev(errors):.1f}" if len(errors) > 1 else ""))
        running = [progress[key] for key in keys if key in progress]
        if running:
            parts.append(f"{'' if len(running) == 1 else f'{len(running)} '}running {100 * fmean(running):.0f} %")
        if failed := sum(key in self._failed for key in keys):
            parts.append(f"{failed} failed")
        return " · ".join(parts)

    def _note(self, run: Run) -> tuple[float | None, float | None]:
        """Keep error and seconds of a finished run; a result that cannot be read has neither."""
        try:
            result = self._store.result(run) or {}
        except InputError:
            result = {}
        self._known[run.key] = number(result.get("test_error")), number(result.get("seconds"))
        return self._known[run.key]

    def _count(self) -> str:
        return f"[{len(self._known) + len(self._failed)}/{len(self._runs)}]"

    def _progress(self, run: Run) -> float:
        """Fraction of a run's steps at its last record."""
        folder = self._store.folder(run)
        if run.key not in self._steps and (folder / "config.yaml").is_file():
            try:
                self._steps[run.key] = int(read_file(folder / "config.yaml")["steps"])
            except (InputError, KeyError):  # it is just being written
                return 0.0
        step = last_step(folder / "metrics.jsonl")
        return min(step / self._steps[run.key], 1.0) if run.key in self._steps else 0.0

    def _seconds_left(self, progress: dict[str, float]) -> float | None:
        """Estimated from the finished runs of the same cell, else of the same column, else of all."""
        groups: dict[str, list[object]] = {}
        for place, (_, cells) in enumerate(self._sheets):
            for (row, column), keys in cells.items():
                groups |= {key: [(place, row, column), (place, column), None] for key in keys}
        taken: dict[object, list[float]] = {}
        for key, (_, seconds) in self._known.items():
            if seconds is not None:
                for group in groups[key]:
                    taken.setdefault(group, []).append(seconds)
        if not taken:
            return None
        usual = {key: next(fmean(taken[group]) for group in groups[key] if group in taken) for key in self._waiting}
        left = sum(seconds * (1 - progress.get(key, 0.0)) for key, seconds in usual.items())
        return left / max(len(self._running), 1)


def _cells(sheet: Sheet) -> Cells:
    return {(row.name, column.title): [sheet.run(row, column, seed).key for seed in sheet.seeds] for row, column in sheet.cells()}


def last_step(path: Path) -> int:
    """The step of the last whole record of a metrics.jsonl; 0 without any."""
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - TAIL, 0))
            lines = file.read().decode("utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return 0
    found = next((record for line in reversed(lines) if (record := read_record(line)) is not None), None)
    return 0 if found is None else int(found["step"])


def _first(message: str) -> str:
    """The first line of a message, which says how an attempt ended, and the last, which says why."""
    lines = message.splitlines()
    return lines[0] if len(lines) < 2 else f"{lines[0]} {lines[-1]}"
