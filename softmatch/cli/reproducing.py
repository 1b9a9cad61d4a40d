"""The work of `softmatch reproduce`: what can be run, with what, and how long it takes; then run, write, print. Imports torch."""

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from softmatch.cli.display import make_console, say
from softmatch.cli.options import Talk, arguments, command_line, without_option
from softmatch.cli.sweep_progress import run_sheets
from softmatch.data.sources import SOURCES
from softmatch.distributed.launching import usable_cpus
from softmatch.errors import InputError, TrainingError, nearest
from softmatch.experiments.checking import check
from softmatch.experiments.executors import Where
from softmatch.experiments.paper import EXPERIMENTS
from softmatch.experiments.paper.experiment import EMBEDDED, Scale, seconds
from softmatch.experiments.reproduction import (
    Reproduction,
    copy_results,
    findings,
    plan,
    require_matplotlib,
    write,
    write_overview,
)
from softmatch.experiments.results.collect import collect
from softmatch.experiments.results.layout import Layout
from softmatch.experiments.results.tables import summary_table
from softmatch.experiments.store import Store
from softmatch.files.untrusted import parse_json, read_text
from softmatch.formatting import duration

ALL = "all"
ENCODER_SIZES: Mapping[Scale, tuple[int, int]] = {"laptop": (6, 384), "paper": (12, 768)}
"""Layers and width of all-MiniLM-L6-v2 and BERT-Base."""


def run_reproduce(
    name: str | None,
    scale: Scale,
    data: Mapping[str, Path],
    encoder: Path | None,
    seeds: int | None,
    out: Path,
    publish: Path | None,
    dry_run: bool,
    talk: Talk,
    where: Where,
) -> None:
    """See `softmatch.cli.reproduce.reproduce`."""
    console, store = make_console(talk), Store(out)
    if name is None:
        _list(console)
        return
    if name not in (*EXPERIMENTS, ALL):
        raise InputError(f"the paper has no table or figure {name!r}. {nearest(name, [*EXPERIMENTS, ALL])}")
    if seeds is not None and seeds < 1:
        raise InputError(f"--seeds {seeds}: give 1 or more.")
    _refuse_unknown(data)
    if encoder is not None:
        _refuse_other(encoder, scale)
    plans = []
    for each in EXPERIMENTS if name == ALL else [name]:
        try:
            plans.append(plan(EXPERIMENTS[each], scale, data, None if seeds is None else range(seeds), encoder))
        except InputError as error:
            if name != ALL:
                raise
            say(console, f"{each} is left out: {error}", style="yellow")
    failed = sum(_one(each, store, where, data, encoder, publish, dry_run, console) for each in plans)
    if name == ALL and publish is not None and not dry_run:
        say(console, str(write_overview(plans, store, publish / scale, command_line())))
    if failed:
        raise TrainingError(f"{failed} runs failed; the last lines they printed are above. The same command tries them again.")


def _one(
    plan: Reproduction,
    store: Store,
    where: Where,
    data: Mapping[str, Path],
    encoder: Path | None,
    publish: Path | None,
    dry_run: bool,
    console: Console,
) -> int:
    """Run and write one experiment; returns the number of failed runs."""
    say(console, f"\n{plan.experiment.name}: {plan.experiment.title}", style="bold")
    for note in plan.notes():
        say(console, note, style="yellow" if note in plan.left_out else None)
    say(console, describe(plan, store, where))
    if dry_run:
        return 0
    for sheet in plan.sheets:
        check(sheet, store, data, None if where.on == "here" else "cpu", encoder)
    if plan.experiment.is_figure:
        require_matplotlib()
    also = [] if encoder is None or not has_texts(plan) else ["--encoder", str(encoder.resolve())]
    outcomes = run_sheets(plan.sheets, store, where, console, data=data, command=command_line(), also=also)
    paths = write(plan, store, outcomes, [command_of(plan, data)])
    for sheet in plan.sheets:
        console.print(summary_table(Layout(collect(sheet, store))))
    for finding in findings(plan, store):
        say(console, f"{finding.claim.text}; {finding.column}: {finding.verdict} ({finding.figures})")
    copied = [] if publish is None else copy_results(plan, store, paths, publish / plan.scale)
    for path in [*paths, *copied]:
        say(console, str(path))
    return sum(outcome.state != "done" for outcome in outcomes)


def has_texts(plan: Reproduction) -> bool:
    return any(SOURCES[run.source].texts for run in plan.runs())


def command_of(plan: Reproduction, data: Mapping[str, Path]) -> str:
    """Command that repeats this experiment alone: what was typed, without the data of others."""
    words = [plan.experiment.name if word == ALL else word for word in arguments()]
    needed = {run.source for run in plan.runs()}
    others = [f"--data.{source}" for source in data if source not in needed]
    for option in [*others, *([] if has_texts(plan) else ["--encoder"])]:
        words = without_option(words, option)
    return command_line(words)


def describe(plan: Reproduction, store: Store, where: Where) -> str:
    """Say how many runs are missing, and how long they take where that is known."""
    runs = plan.runs()
    missing = [run for run in runs if not store.is_finished(run)]
    if not runs:
        return "It needs no training."
    if not missing:
        return f"All {len(runs)} runs are finished."
    processes = where.processes or usable_cpus()
    seconds = plan.seconds(store, processes)
    said = "" if seconds is None else f", about {duration(seconds)} with {processes} in parallel"
    done = f" ({len(runs) - len(missing)} of {len(runs)} are finished)" if len(missing) < len(runs) else ""
    days = " Each takes a GPU for a day or more; softmatch plan says how long." if seconds is None else ""
    return f"{len(missing)} runs are missing{done}{said}.{days}"


def _list(console: Console) -> None:
    """List the experiments with title and cost."""
    table = Table(box=None, padding=(0, 2, 1, 0), show_header=False)
    for each in EXPERIMENTS.values():
        runs = {run.key: run for sheet in each.sheets["laptop"] for run in sheet.runs()}
        took = duration(sum(map(seconds, runs.values())) / 2)
        number = len({run.key for sheet in each.sheets["paper"] for run in sheet.runs()})
        files = [source for source in dict.fromkeys(run.source for run in runs.values()) if source not in EMBEDDED]
        needs = f" (with --data.{' --data.'.join(files)})" if files else ""
        cost = f"laptop: {len(runs)} runs, {took} on two cores{needs}; paper: {number} runs" if runs else "no training"
        table.add_row(Text(each.name, style="bold"), Text.assemble(f"{each.where}. {each.title}\n", (cost, "dim")))
    console.print(table)
    console.print(
        "Tables and figures share runs: all of them together take less than the sum. Columns whose data are not given and cannot"
        " be downloaded are left out; table-text needs --encoder if the Hugging Face hub cannot be reached.",
        style="dim",
    )


def _refuse_other(encoder: Path, scale: Scale) -> None:
    """Raise InputError unless the folder has an encoder of the size that the scale's experiments are of."""
    path = encoder / "config.json"
    if not path.is_file():
        raise InputError(f"--encoder {encoder}: there is no folder of an encoder, with a config.json.")
    found = parse_json(read_text(path), path)
    size = (found.get("num_hidden_layers"), found.get("hidden_size")) if isinstance(found, dict) else (None, None)
    if size != ENCODER_SIZES[scale]:
        wanted = "{} layers of {}".format(*ENCODER_SIZES[scale])
        raise InputError(f"--encoder {encoder}: at {scale} scale, the encoder has {wanted}; this one has {size[0]} of {size[1]}.")


def _refuse_unknown(data: Mapping[str, Path]) -> None:
    for source, path in data.items():
        if source not in SOURCES:
            raise InputError(f"--data.{source}: there is no dataset {source!r}. {nearest(source, SOURCES)}")
        if not path.expanduser().exists():
            raise InputError(f"--data.{source} {path}: there is no such file or folder.")
