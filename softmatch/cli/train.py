"""The commands train, check, methods, encoders and bench. They import torch only when they run: help must not wait for it."""

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from pydantic import ValidationError

from softmatch.cli.options import (
    ALOUD,
    ARGUMENTS,
    MACHINE,
    OUTPUT,
    Flag,
    Json,
    SettingsFile,
    TalkOrJson,
    Track,
    TrackGroup,
    arguments,
    given,
    settings_model,
    without_option,
)
from softmatch.config import Config
from softmatch.distributed.launching import launch
from softmatch.encoders.downloads import hub_cache, on_disk
from softmatch.encoders.named import NAMED
from softmatch.errors import FAILED, INTERRUPTED, InputError, explain
from softmatch.experiments.executors import Where
from softmatch.experiments.executors.train_elsewhere import train_elsewhere
from softmatch.formatting import aligned, as_json

STEP = (
    *("recipe", "labels", "method", "method_options", "network", "steps", "seed", "views", "labeled_batch", "unlabeled_batch"),
    *("batch_statistics", "micro_batch", "optimizer", "lr", "schedule", "weight_decay", "decay", "clip", "averages"),
    *("teacher", "neighbours", "strong_share", "small_images"),
    *("statistics_momentum", "model_momentum", "batch_norm_momentum", "precision", "device", "threads", "compile"),
)
"""Settings that decide about a training step of images in memory, which `softmatch bench` reads."""

if TYPE_CHECKING:
    Settings = Config
    StepSettings = Config
else:
    Settings, StepSettings = settings_model(Config.model_fields), settings_model(STEP)

SOURCE = (
    "Data to train on: a folder of images (one folder per class, and unlabeled/), a .csv, .tsv, .jsonl, .parquet, .npz, .ts or "
    ".arff file, or owner/name on the Hugging Face hub. Or a named dataset: digits, two-moons, cifar10, cifar100, svhn, stl10, "
    "imagenet, fashion-mnist, agnews, dbpedia, imdb, amazon-5 or yelp-5."
)
Source = Annotated[str | None, Parameter(help=SOURCE, group=ARGUMENTS, show_default="digits")]


def train(
    source: Source = None,
    /,
    *,
    settings: Annotated[Settings | None, Parameter(name="*")] = None,
    file: SettingsFile = None,
    resume: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    dry_run: Annotated[bool, Flag] = False,
    track: Track = None,
    track_group: TrackGroup = None,
    talk: Annotated[TalkOrJson, Parameter(name="*")] = ALOUD,
    processes: Annotated[int, Parameter(group=MACHINE)] = 1,
    on: Annotated[Literal["here", "ray", "slurm"], Parameter(group=MACHINE)] = "here",
    retries: Annotated[int, Parameter(group=MACHINE)] = 2,
    address: Annotated[str | None, Parameter(group=MACHINE, show_default="RAY_ADDRESS, or a new cluster here")] = None,
    slurm: Annotated[dict[str, str] | None, Parameter(group=MACHINE)] = None,
) -> None:
    """Train a classifier, and a baseline on the labels only to compare it with.

    Without arguments, SoftMatch trains on the built-in digits with 40 labels, in about a minute on two cores. With your own
    data, of which a few samples are labelled, network, batches and steps are chosen by their size, and the error is measured on
    labels that were left out. A new run folder gets settings, split, metrics, checkpoints, model, result.json and report.html.

    For example:

    - softmatch train
    - softmatch train photos/
    - softmatch train tickets.csv --text-column message --label-column category
    - softmatch train readings.csv --series id --time t --label-column activity
    - softmatch train photos/ --encoder images
    - softmatch train tickets.csv --encoder texts
    - softmatch train digits --labels 10 --steps 2000 --method fixmatch --out runs/ten
    - softmatch train digits --track tensorboard mlflow
    - softmatch train --resume runs/ten
    - softmatch train photos/ --on ray --processes 8 --address head:6379
    - softmatch train cifar10 --data cifar-10-python.tar.gz --labels 40 --recipe paper --dry-run

    Exit codes: 0 done, 1 training failed, 2 wrong usage, 75 stopped by a signal and saved, 130 interrupted.

    Parameters
    ----------
    resume:
        Run folder to resume with its own settings; give SOURCE too if the data have moved. auto: resume the unfinished run of
        this command, if there is one. By default, you are prompted in a terminal.
    dry_run:
        Print the settings, and the time and memory estimated from a few steps. Nothing is written.
    processes:
        Number of processes, each with a share of every batch, such as one per GPU. The result is the same. For several machines,
        use --on ray, or start `torchrun … -m softmatch train …`.
    on:
        This machine, workers of a Ray cluster (on one or several machines), or a job of a Slurm cluster (on one machine). All
        machines find data and runs at the same paths. After a failure the run is resumed from its last checkpoint.
    retries:
        Ray, Slurm: how often a run that failed is resumed.
    address:
        Ray: a running cluster.
    slurm:
        Slurm: options of sbatch, as --slurm.gpus 1 --slurm.cpus 4 --slurm.time 120.
    """
    if processes < 1:
        raise InputError(f"--processes {processes}: give 1 or more.")
    if on != "here":
        if dry_run:
            raise InputError(f"--dry-run measures a step on this machine: leave out --on {on}.")
        _train_elsewhere({"on": on, "processes_per_run": processes, "retries": retries, "address": address, "slurm": slurm or {}})
        return
    if address is not None or slurm:
        raise InputError("--address only works with --on ray, and --slurm with --on slurm: add that, or leave them out.")
    if processes > 1 and dry_run:
        raise InputError("--dry-run measures a step in one process: leave out --processes.")
    if processes > 1 and os.environ.get("WORLD_SIZE", "1") not in ("", "1"):
        raise InputError("torchrun has started these processes: use its --nproc-per-node instead of --processes.")
    if processes > 1:
        code = launch(processes, without_option(arguments(), "--processes"))
        if code:
            raise SystemExit(FAILED if code > 128 and code != INTERRUPTED else code)  # one of them was killed
        return
    from softmatch.cli.running import run_train

    run_train(source, given(settings), file, dry_run, resume, talk, track or (), track_group)


def _train_elsewhere(given: dict[str, Any]) -> None:
    words = arguments()
    try:
        where = Where(**given)
    except ValidationError as error:
        raise InputError(explain(error).replace("processes_per_run", "--processes")) from error
    for option in (
        "--on",
        "--processes",
        "--retries",
        "--address",
        *(w.split("=")[0] for w in words if w.startswith("--slurm.")),
    ):
        words = without_option(words, option)
    if code := train_elsewhere(where, words):
        raise SystemExit(code if 0 < code < 128 else FAILED)


def check(
    source: Annotated[str, Parameter(help=SOURCE, group=ARGUMENTS)],
    /,
    *,
    settings: Annotated[Settings | None, Parameter(name="*")] = None,
    file: SettingsFile = None,
    talk: Annotated[TalkOrJson, Parameter(name="*")] = ALOUD,
) -> None:
    """Check your data: what was understood, what looks wrong, what would be trained and how long it would take.

    Nothing is written. `softmatch train` with the same arguments checks the same first, and stops on what cannot work.

    For example:

    - softmatch check photos/
    - softmatch check tickets.csv --text-column message --label-column category
    """
    from softmatch.cli.running import run_check

    run_check(source, given(settings), file, talk)


def methods(
    name: Annotated[str | None, Parameter(group=ARGUMENTS, help="Method whose card is printed.")] = None, /, *, json: Json = False
) -> None:
    """List the methods, or print the card of one: idea, formula, when to use it, options and results.

    For example:

    - softmatch methods
    - softmatch methods flexmatch
    - softmatch methods flexmatch > flexmatch.md
    """
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.table import Table

    from softmatch.methods import METHODS, read_card

    console = Console()
    if name is not None:
        card = read_card(name)
        if json:
            print(as_json({"name": name, "card": card}))
        elif console.is_terminal:
            console.print(Markdown(card))
        else:
            print(card, end="")
        return
    if json:
        print(as_json([{"name": each, "summary": entry.summary, "citation": entry.citation} for each, entry in METHODS.items()]))
        return
    table = Table(box=None, padding=(0, 2, 1, 0), show_header=False)
    for each, entry in METHODS.items():
        table.add_row(f"[bold]{each}[/bold]", f"{entry.summary}\n[dim]{entry.citation}[/dim]")
    console.print(table)
    console.print("[dim]softmatch methods NAME prints the card of one.[/dim]")


def encoders(*, json: Json = False) -> None:
    """List the named encoders for --encoder: purpose, size, licence, number of features, and which are on this disk.

    Nothing is downloaded. `--encoder` also takes a folder, any model ID of the Hugging Face hub, and timm:NAME.

    For example:

    - softmatch encoders
    - softmatch train photos/ --encoder images
    - softmatch train tickets.csv --encoder texts
    """
    cache = hub_cache()
    places = {each.name: None if cache is None else on_disk(each.hub, each.revision) for each in NAMED.values()}
    if json:
        print(as_json([{**asdict(each), "folder": places[each.name]} for each in NAMED.values()]))
        return
    rows = [("name", "for", "download", "features", "licence", "commercial use", "on disk")]
    for each in NAMED.values():
        size, use = f"{each.megabytes:,} MB", "allowed" if each.commercial else "not allowed"
        there = "no" if places[each.name] is None else "yes"
        rows.append((each.name, each.purpose, size, f"{each.dimension:,}", each.licence, use, there))
    for line, below in zip(aligned(rows, "<<>><<<"), [None, *NAMED.values()], strict=True):
        print(line)
        if below is not None:
            folder = places[below.name]
            print(f"    {below.hub}: {below.evidence}", *([] if folder is None else [f"    {folder}"]), sep="\n")
    if cache is None:
        print("\nEncoders need further libraries: pip install 'softmatch[text]'.")
    else:
        print(f"\nThey are downloaded when first used, to {cache} (set HF_HOME for another place), and then used offline.")


def bench(
    *,
    settings: Annotated[StepSettings | None, Parameter(name="*")] = None,
    side: int = 32,
    channels: int = 3,
    classes: int = 10,
    images: int = 4096,
    repeats: int = 5,
    json: Json = False,
) -> None:
    """Measure a training step on this machine: time of each part, images per second, memory and share of the peak speed.

    By default this is the paper's step on CIFAR-10, a WRN-28-2 on 64 labelled and 448 unlabelled images, with separate batch
    statistics; with --recipe sprint, that recipe's. The peak is that of a matrix product in the same precision. The images are
    random. The first steps of a run are measured: methods that do more later, such as cgmatch, darp
    and cossl, cost more than this.

    For example:

    - softmatch bench
    - softmatch bench --recipe sprint
    - softmatch bench --network wrn-10-2 --labeled-batch 16 --unlabeled-batch 112 --micro-batch 64
    - softmatch bench --network resnet-50 --side 224 --classes 1000 --labeled-batch 8 --unlabeled-batch 8 --json

    Parameters
    ----------
    side:
        Side of the images in pixels.
    channels:
        Number of channels of the images, 1 or 3.
    classes:
        Number of classes.
    images:
        Number of images from which batches are sampled.
    repeats:
        Number of steps to measure.
    """
    from softmatch.cli.summaries import print_bench
    from softmatch.training.arithmetic import keep_freed_memory
    from softmatch.training.bench import bench as run
    from softmatch.training.setup import restored_state

    keep_freed_memory()
    with restored_state():
        found = run(given(settings), side, channels, classes, images, repeats)
    if json:
        print(as_json({"setting": found.setting, **found.measurement.as_dict()}))
    else:
        print_bench(found)
