"""The command line: parse, call, print. torch is imported only when a command needs it."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter
from pydantic import ValidationError

from softmatch import __version__
from softmatch.cli import augment as cli_augmenting
from softmatch.cli import compare as cli_comparing
from softmatch.cli import plan as cli_planning
from softmatch.cli import reproduce as cli_reproducing
from softmatch.cli import use as cli_using
from softmatch.config import Config
from softmatch.errors import STOPPED, InputError, ProcessLost, SoftmatchError, Stopped, explain
from softmatch.formatting import visible

PATIENCE = 5.0
"""Seconds that a process gives those before it to speak."""
FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130
"""Exit codes, besides STOPPED."""

app = App(
    name="softmatch",
    version=__version__,
    suppress_keyboard_interrupt=False,
    help_format="markdown",
    help="Train a classifier from a handful of labels and a lot of unlabelled data, and know whether the unlabelled data helped.",
    help_epilogue="Start with:  softmatch train        (a minute on a laptop; nothing to download)",
)


@app.command
def train(
    source: str | None = None,
    /,
    *,
    config: Annotated[Config | None, Parameter(name="*")] = None,
    file: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None,
    dry_run: bool = False,
    resume: str | None = None,
    processes: int = 1,
) -> None:
    """Train a classifier, and a supervised twin to compare it with.

    Without arguments: SoftMatch on the embedded digits with 40 labels, about a minute on two cores. With a folder or a table of
    your own, of which a few samples have labels: network, batches and steps by its size, and an error measured on labels that
    were left out. Everything goes to a new run folder: settings, split, metrics, checkpoints, model, result.json and report.html.
    Nothing is overwritten. A run that was interrupted, by whatever it was, goes on where it was with --resume.

    Exit codes: 0 done, 1 training failed, 2 wrong use, 75 stopped by SIGTERM, SIGINT or SIGUSR1 and saved, 130 interrupted.

    Examples:

    - softmatch train
    - softmatch train photos/
    - softmatch train tickets.csv --text message --label category --encoder sentence-transformers/all-MiniLM-L6-v2
    - softmatch train measurements.parquet --features width,height,weight --test test.parquet
    - softmatch train two-moons --method fixmatch
    - softmatch train digits --labels 10 --steps 2000 --seed 3 --out runs/ten
    - softmatch train -c settings.yaml --method mine.py:MyWeighting
    - softmatch train cifar10 --data cifar-10-python.tar.gz --labels 40 --recipe paper --dry-run
    - softmatch train cifar10 --labels 40 --recipe paper --steps 2000 --model wrn-10-2
    - softmatch train cifar10 --imbalance 100 --recipe paper
    - softmatch train tickets.csv --encoder sentence-transformers/all-MiniLM-L6-v2
    - softmatch train agnews --data agnews-de-ru --labels 40 --recipe paper
    - softmatch train --resume runs/digits-softmatch-40-labels-seed-0
    - softmatch train photos/ --out runs/photos --resume auto --processes 2

    Parameters
    ----------
    source:
        What to train on: a folder of images (one folder per class and unlabeled/), a .csv, .tsv, .jsonl, .parquet or .npz file,
        owner/name of the Hugging Face hub; or digits (default), two-moons, cifar10, cifar100, svhn, stl10, imagenet,
        fashion-mnist, agnews, dbpedia, imdb, amazon-5, yelp-5.
    config:
        Settings.
    file:
        YAML file of settings (the names below with _ for -, and `source`). Options on the command line win over it.
    dry_run:
        Print the effective settings, and time and memory estimated from the first few steps. No run folder is made.
    resume:
        A run folder: go on with that run, by its own settings; a source given besides is where its data are now. auto: go on with
        the unfinished run of this very command, if there is one. Without this option a terminal is asked whether to.
    processes:
        Train in so many processes on this machine, each with a share of every batch; one for each GPU, say. For several machines
        start `torchrun … -m softmatch train …`. The batches are the same, so is the result.
    """
    if processes < 1:
        raise InputError(f"--processes {processes}: one or more are needed.")
    if processes > 1 and dry_run:
        raise InputError("--dry-run measures a step in one process: leave out --processes.")
    if processes > 1 and os.environ.get("WORLD_SIZE", "1") not in ("", "1"):
        raise InputError("these processes were started by torchrun: its --nproc-per-node takes the place of --processes.")
    if processes > 1:
        from softmatch.distributed.launching import launch

        code = launch(processes, without_option(_arguments, "--processes"))
        if code:
            raise SystemExit(FAILED if code > 128 and code != INTERRUPTED else code)  # one of them was killed
        return
    from softmatch.cli.train import train_command  # imports torch

    train_command(source, config, file, dry_run, resume)


@app.command
def check(
    source: str,
    /,
    *,
    config: Annotated[Config | None, Parameter(name="*")] = None,
    file: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None,
) -> None:
    """Say what was understood of your data, what is odd about them, what would be trained and how long it would take.

    Nothing is written. `softmatch train` with the same arguments does the same first, and stops on what cannot work.

    Examples:

    - softmatch check photos/
    - softmatch check tickets.csv --text message --label category

    Parameters
    ----------
    source:
        As of `softmatch train`.
    config:
        Settings, as of `softmatch train`.
    file:
        YAML file of settings.
    """
    from softmatch.cli.display import print_check
    from softmatch.cli.train import open_source
    from softmatch.training.bench import plan

    job = open_source(source, config, file)
    print_check(plan(job), job.findings)


@app.command
def bench(
    *,
    config: Annotated[Config | None, Parameter(name="*")] = None,
    side: int = 32,
    channels: int = 3,
    classes: int = 10,
    images: int = 4096,
    repeats: int = 5,
    json: bool = False,
) -> None:
    """Measure a training step on this machine: time of each part, images per second, memory, share of the peak.

    Without options: the size of the paper's CIFAR-10 step, WRN-28-2 on 64 labelled and 448 unlabelled images, in the way that
    softmatch trains by default. The paper's own code shares batch statistics: --batch-statistics joint. The images are random.
    The first steps of a run are measured: a method that begins with labels alone (cgmatch) or does more later (darp, cossl)
    costs more than this.

    Examples:

    - softmatch bench
    - softmatch bench --model wrn-10-2 --labeled-batch 16 --unlabeled-batch 112 --batch-statistics separate --micro-batch 64
    - softmatch bench --model resnet-50 --side 224 --classes 1000 --labeled-batch 8 --unlabeled-batch 8 --json

    Parameters
    ----------
    config:
        Settings, as of `softmatch train`; those that decide about a step matter.
    side, channels:
        Size of the images.
    classes:
        Number of classes.
    images:
        Number of images to draw batches from.
    repeats:
        Measured steps.
    json:
        Print JSON instead of a table.
    """
    from softmatch.cli.display import print_bench
    from softmatch.training.bench import bench as run
    from softmatch.training.memory import keep_freed_memory

    options = {} if config is None else {key: getattr(config, key) for key in config.model_fields_set}
    keep_freed_memory()
    print_bench(run(options, side, channels, classes, images, repeats), json)


@app.command
def methods(name: str | None = None, /) -> None:
    """List the methods, or print the card of one: idea, formula, when to use it, options, differences, measured result.

    Examples:

    - softmatch methods
    - softmatch methods flexmatch
    - softmatch methods flexmatch > flexmatch.md

    Parameters
    ----------
    name:
        Of the method whose card is to be printed.
    """
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.table import Table

    from softmatch.methods import METHODS, read_card

    console = Console()
    if name is not None:
        card = read_card(name)
        if console.is_terminal:
            console.print(Markdown(card))
        else:
            print(card, end="")
        return
    table = Table(box=None, padding=(0, 2, 1, 0), show_header=False)
    for each, entry in METHODS.items():
        table.add_row(f"[bold]{each}[/bold]", f"{entry.summary}\n[dim]{entry.citation}[/dim]")
    console.print(table)
    console.print("[dim]softmatch methods NAME prints the card of one.[/dim]")


@app.command
def report(run: Path) -> None:
    """Write report.html of a run folder again.

    Parameters
    ----------
    run:
        The run folder.
    """
    from softmatch.report import write_report
    from softmatch.runs.folder import RunFolder

    if not (run / "config.yaml").is_file():
        raise InputError(f"{run} is not a run folder: it has no config.yaml.")
    print(write_report(RunFolder(run)))


for command in (
    cli_using.predict,
    cli_using.pseudo_labels,
    cli_using.suggest,
    cli_using.export,
    cli_augmenting.augment,
    cli_comparing.compare,
    cli_reproducing.reproduce,
    cli_planning.plan,
):
    app.command(command)


_arguments: list[str] = []


def arguments() -> list[str]:
    """What was typed after the name of the program."""
    return list(_arguments)


def command_line(arguments: Sequence[str] | None = None) -> str:
    """What was typed, or would be with these arguments."""
    return shlex.join(["softmatch", *(_arguments if arguments is None else arguments)])


def without_option(arguments: Sequence[str], option: str) -> list[str]:
    """The arguments without an option and its value, given as two words or as one with "=" between."""
    kept, skip = [], False
    for word in arguments:
        if skip or word == option:
            skip = not skip
        elif not word.startswith(f"{option}="):
            kept.append(word)
    return kept


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 1 training failed, 2 wrong use, 75 stopped and saved, 130 interrupted."""
    _arguments[:] = sys.argv[1:] if arguments is None else arguments
    try:
        app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        cause = error.__cause__
        _complain(explain(cause) if isinstance(cause, ValidationError) else str(error).strip())
        return WRONG_USE
    except InputError as error:
        _complain(str(error))
        return WRONG_USE
    except ProcessLost as error:
        time.sleep(PATIENCE + 3.0)  # the one that has ended may be about to say why
        _complain(str(error))
        return FAILED
    except SoftmatchError as error:
        _complain(str(error))
        return FAILED
    except Stopped as stopped:
        _complain(str(stopped))
        return STOPPED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except KeyboardInterrupt:
        _complain("interrupted; what a run has written so far is kept in its folder.")
        return INTERRUPTED
    except OSError as error:
        _complain(f"{error.filename or 'file system'}: {error.strerror or error}.")
        return FAILED
    return 0


def _complain(message: str) -> None:
    """To the user. Of several processes the first speaks; if the others have the same to say, they are ended before they do."""
    rank, size, who = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1"), "softmatch"
    if rank.isdecimal() and rank != "0" and size != "1":
        time.sleep(PATIENCE)
        who += f" (process {int(rank) + 1} of {size})"
    shown = "\n".join(map(visible, message.split("\n")))
    print(f"{who}: {shown}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
