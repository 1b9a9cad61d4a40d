"""All runs of some sheets, made: a place, a sweep there, and what it says on the way and at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from softmatch.cli.display import say
from softmatch.errors import InputError
from softmatch.experiments.places import Where, open_place
from softmatch.experiments.progress import Progress
from softmatch.experiments.results.collect import read_result
from softmatch.experiments.sheet import Sheet
from softmatch.experiments.store import Store
from softmatch.experiments.sweep import Outcome, sweep


def make_runs(
    sheets: Sequence[Sheet],
    store: Store,
    where: Where,
    *,
    data: Mapping[str, Path] | None = None,
    also: Sequence[str] = (),
    command: str = "the same command",
    console: Console | None = None,
) -> list[Outcome]:
    """Make what is missing of all sheets, with a live table; at the end all failures are printed.

    A run whose result is damaged counts as one that failed.

    Args:
        data: where the files of a source are, by its name.
        also: options of `softmatch train` for all runs, which say where and how they are computed.
        command: that goes on after an interruption, for the message.

    Raises:
        Stopped: see `softmatch.experiments.sweep.sweep`.
    """
    console = console or Console(emoji=False)
    runs = list({run.key: run for sheet in sheets for run in sheet.runs()}.values())
    if all(store.is_finished(run) for run in runs):
        outcomes = [Outcome(run, "done", 0) for run in runs]
    else:
        with open_place(where, store.root) as place, Progress(sheets, store, console) as progress:
            outcomes = sweep(runs, store, place, retries=where.retries, also=also, data=data, listener=progress, command=command)
    outcomes = [_readable(outcome, store) for outcome in outcomes]
    for outcome in outcomes:
        if outcome.state != "done":
            say(console, f"\n{outcome.run.name} {outcome.state}: {outcome.message}", style="red")
            say(console, f"Its log: {store.log(outcome.run)}", style="red")
    return outcomes


def _readable(outcome: Outcome, store: Store) -> Outcome:
    """The outcome itself; failed where the run is done and its result is damaged."""
    try:
        read_result(outcome.run, store)
    except InputError as error:
        return Outcome(outcome.run, "failed", outcome.attempts, str(error))
    return outcome
