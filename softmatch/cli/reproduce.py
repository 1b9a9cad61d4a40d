"""The command that reproduces the paper: list its tables and figures, run one at a scale, write it. torch is imported late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from softmatch.errors import InputError, TrainingError, nearest
from softmatch.experiments.paper.scales import Scale
from softmatch.experiments.places import Where
from softmatch.experiments.store import Store

if TYPE_CHECKING:
    from rich.console import Console

    from softmatch.experiments.reproduce import Reproduction
    from softmatch.experiments.sweep import Outcome

ALL = "all"
ENCODER_SIZES: Mapping[Scale, tuple[int, int]] = {"laptop": (6, 384), "paper": (12, 768)}
"""Layers and width of all-MiniLM-L6-v2 and BERT-Base."""


def reproduce(
    name: str | None = None,
    /,
    *,
    scale: Scale = "laptop",
    data: dict[str, Path] | None = None,
    encoder: Path | None = None,
    seeds: int | None = None,
    where: Annotated[Where | None, Parameter(name="*")] = None,
    out: Path = Path("reproduced"),
    publish: Path | None = None,
    dry_run: bool = False,
) -> None:
    """Reproduce a table or figure of the paper; without a name, list them with the time that they take.

    At laptop scale an experiment is small enough for two cores: small networks, 300 to 1,000 steps, five seeds, on the embedded
    digits and two moons and on those of CIFAR-10, Fashion-MNIST and AG News whose files are given (--data.cifar10 PATH) or can be
    fetched; a column whose data are not here is left out, which is said. At paper scale every setting is the paper's: a GPU and
    days for each run (`softmatch plan` tells how many). The paper's numbers stand beside the measured ones, and each of its
    claims is tested over the seeds.

    Runs are kept in reproduced/runs and shared by all tables and figures; none is made twice, and the same command goes on after
    an interruption. Results are in reproduced/NAME-SCALE: a document, tables as Markdown, LaTeX and CSV, figures as PNG and PDF
    (extra plots), and a page with all curves.

    Examples:

    - softmatch reproduce
    - softmatch reproduce fig-two-moons
    - softmatch reproduce table-main --data.cifar10 cifar10.npz --data.fashion-mnist fashion_mnist.npz
    - softmatch reproduce table-text --data.agnews agnews/ --encoder all-MiniLM-L6-v2/
    - softmatch reproduce all --processes 2 --publish docs/results
    - softmatch reproduce table-longtail --scale paper --data.cifar10 cifar-10-python.tar.gz --on slurm --slurm.gpus 1

    Parameters
    ----------
    name:
        Of the table or figure, or all.
    scale:
        laptop: minutes to an hour on two cores. paper: the paper's own settings.
    data:
        Where the files of a source are, as --data of `softmatch train`: --data.cifar10 PATH, --data.agnews FOLDER.
    encoder:
        Folder that holds the encoder of texts: all-MiniLM-L6-v2, at paper scale BERT-Base. Default: the hub's copy of it.
    seeds:
        How many, in the place of the scale's own number.
    where:
        Where runs are executed.
    out:
        Folder of runs and results.
    publish:
        Folder in which a folder of the scale gets the documents, their pictures and the figures of every run; of all, an
        overview of what became of each claim too.
    dry_run:
        Say what would be run and how long it takes, and stop.
    """
    from rich.console import Console

    from softmatch.experiments.paper import EXPERIMENTS

    console, store = Console(emoji=False), Store(out)
    if name is None:
        _list(console)
        return
    if name not in (*EXPERIMENTS, ALL):
        raise InputError(f"the paper has no table or figure {name!r}. {nearest(name, [*EXPERIMENTS, ALL])}")
    if seeds is not None and seeds < 1:
        raise InputError(f"--seeds {seeds}: one or more are needed.")
    _refuse_unknown(data or {})
    if encoder is not None:
        _refuse_other(encoder, scale)
    from softmatch.experiments.reproduce import plan

    plans = []
    for each in EXPERIMENTS if name == ALL else [name]:
        try:
            plans.append(plan(EXPERIMENTS[each], scale, data or {}, None if seeds is None else range(seeds), encoder))
        except InputError as error:
            if name != ALL:
                raise
            console.print(f"{each} is left out: {error}", highlight=False, markup=False, soft_wrap=True, style="yellow")
    failed = [
        number for plan in plans if (number := _one(plan, store, where or Where(), data, encoder, publish, dry_run, console))
    ]
    if name == ALL and publish is not None and not dry_run:
        from softmatch.cli.app import command_line
        from softmatch.cli.display import say
        from softmatch.experiments.results.publish import write_overview

        say(console, str(write_overview(plans, store, publish / scale, command_line())))
    if failed:
        raise TrainingError(f"{sum(failed)} runs failed; what they printed last stands above. The same command tries them again.")


def _one(
    plan: Reproduction,
    store: Store,
    where: Where,
    data: dict[str, Path] | None,
    encoder: Path | None,
    publish: Path | None,
    dry_run: bool,
    console: Console,
) -> int:
    """Run and write one experiment; gives the number of runs that failed."""
    from softmatch.cli.app import command_line
    from softmatch.cli.display import say
    from softmatch.experiments.checking import check
    from softmatch.experiments.making import make_runs
    from softmatch.experiments.results.collect import collect
    from softmatch.experiments.results.layout import Layout
    from softmatch.experiments.results.publish import copy_results, findings, require_matplotlib, write
    from softmatch.experiments.results.write import summary_table

    say(console, f"\n{plan.experiment.name}: {plan.experiment.title}", style="bold")
    for note in plan.notes():
        say(console, note, style="yellow" if note in plan.left_out else None)
    say(console, describe(plan, store, where))
    if dry_run:
        return 0
    for sheet in plan.sheets:
        check(sheet, store, data, None if where.on == "here" else "cpu", encoder)
    if plan.experiment.figure:
        require_matplotlib()
    also = [] if encoder is None or not has_texts(plan) else ["--encoder", str(encoder.resolve())]
    outcomes: Sequence[Outcome] = make_runs(
        plan.sheets, store, where, data=data, command=command_line(), console=console, also=also
    )
    paths = write(plan, store, outcomes, [command_of(plan, data or {})])
    for sheet in plan.sheets:
        console.print(summary_table(Layout(collect(sheet, store))))
    for finding in findings(plan, store):
        say(console, f"{finding.claim.text}; {finding.column}: {finding.verdict} ({finding.figures})")
    for path in paths:
        say(console, str(path))
    if publish is not None:
        for path in copy_results(plan, store, paths, publish / plan.scale):
            say(console, str(path))
    return sum(outcome.state != "done" for outcome in outcomes)


def has_texts(plan: Reproduction) -> bool:
    from softmatch.data.sources import SOURCES

    return any(SOURCES[run.source].texts for run in plan.runs())


def command_of(plan: Reproduction, data: Mapping[str, Path]) -> str:
    """What makes this experiment alone again: what was typed, without the data of others."""
    from softmatch.cli.app import arguments, command_line, without_option

    words = [plan.experiment.name if word == ALL else word for word in arguments()]
    needed = {run.source for run in plan.runs()}
    others = [f"--data.{source}" for source in data if source not in needed]
    for option in [*others, *([] if has_texts(plan) else ["--encoder"])]:
        words = without_option(words, option)
    return command_line(words)


def describe(plan: Reproduction, store: Store, where: Where) -> str:
    """How many runs are to be made, and how long that takes where it is known."""
    from softmatch.distributed.launching import usable_cpus
    from softmatch.formatting import duration

    runs = plan.runs()
    missing = [run for run in runs if not store.is_finished(run)]
    if not runs:
        return "Nothing is trained for it."
    if not missing:
        return f"All {len(runs)} runs are finished."
    processes = where.processes or usable_cpus()
    seconds = plan.seconds(store, processes)
    said = "" if seconds is None else f", about {duration(seconds)} with {processes} at a time"
    done = f" ({len(runs) - len(missing)} of {len(runs)} are finished)" if len(missing) < len(runs) else ""
    days = " Each takes a GPU for a day or more: softmatch plan tells how long." if seconds is None else ""
    return f"{len(missing)} runs are to be made{done}{said}.{days}"


def _list(console: Console) -> None:
    """Names, what they are, and what they take."""
    from rich.table import Table
    from rich.text import Text

    from softmatch.experiments.paper import EXPERIMENTS
    from softmatch.experiments.paper.scales import EMBEDDED, seconds
    from softmatch.formatting import duration

    table = Table(box=None, padding=(0, 2, 1, 0), show_header=False)
    for each in EXPERIMENTS.values():
        runs = {run.key: run for sheet in each.sheets["laptop"] for run in sheet.runs()}
        took = duration(sum(map(seconds, runs.values())) / 2)
        number = len({run.key for sheet in each.sheets["paper"] for run in sheet.runs()})
        files = [source for source in dict.fromkeys(run.source for run in runs.values()) if source not in EMBEDDED]
        needs = f" (with --data.{' --data.'.join(files)})" if files else ""
        cost = f"laptop: {len(runs)} runs, {took} on two cores{needs}; paper: {number} runs" if runs else "nothing is trained"
        table.add_row(Text(each.name, style="bold"), Text.assemble(f"{each.where}. {each.title}\n", (cost, "dim")))
    console.print(table)
    console.print(
        "Tables and figures share runs: all of them together take less than the sum. Columns whose data are not given and cannot"
        " be fetched are left out; table-text has no others, and needs --encoder where the hub is out of reach.",
        style="dim",
    )


def _refuse_other(encoder: Path, scale: Scale) -> None:
    """Raise InputError unless the folder has an encoder of the size that the scale's experiments are of."""
    from softmatch.files.untrusted import parse_json, read_text

    path = encoder / "config.json"
    if not path.is_file():
        raise InputError(f"--encoder {encoder}: there is no such folder with the config.json of an encoder.")
    found = parse_json(read_text(path), path)
    size = (found.get("num_hidden_layers"), found.get("hidden_size")) if isinstance(found, dict) else (None, None)
    if size != ENCODER_SIZES[scale]:
        wanted = "{} layers of {}".format(*ENCODER_SIZES[scale])
        raise InputError(f"--encoder {encoder}: at {scale} scale it is one of {wanted}; this one has {size[0]} of {size[1]}.")


def _refuse_unknown(data: dict[str, Path]) -> None:
    from softmatch.data.sources import SOURCES

    for source, path in data.items():
        if source not in SOURCES:
            raise InputError(f"--data.{source}: there is no source {source!r}. {nearest(source, SOURCES)}")
        if not path.expanduser().exists():
            raise InputError(f"--data.{source} {path}: there is no such file or folder.")
