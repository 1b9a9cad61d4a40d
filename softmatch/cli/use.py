"""The commands after training. They import torch, through other modules, when they run: help must not wait for it."""

import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from softmatch.cli.options import (
    ARGUMENTS,
    MACHINE,
    OUTPUT,
    Device,
    Flag,
    Json,
    Moved,
    MovedEncoder,
    OutFile,
    OwnMethod,
    OwnNetwork,
    OwnViews,
    Raw,
    Run,
    Talk,
    TalkOrJson,
    given,
    settings_model,
)
from softmatch.cli.train import Settings
from softmatch.config import RUN_SETTINGS, Config, make_config, split_names
from softmatch.errors import InputError
from softmatch.formatting import as_json, percent, visible_lines
from softmatch.runs.listing import list_runs

COLUMNS = ("label_column", "text_column", "feature_columns", "series_column", "time_column")
if TYPE_CHECKING:
    from softmatch.cli.display import Reading

    Columns = Config
    ReadSettings = Config
    StudentSettings = Config
else:
    Columns, ReadSettings = (
        settings_model(COLUMNS),
        settings_model((*COLUMNS, "unlabeled", "arrays", "image_size", "encoder", "labels_from", "prefer")),
    )
    StudentSettings = settings_model(("steps", "minutes", "baseline", "image_size"))


def predict(
    run: Annotated[str, Parameter(help="Folder of a finished run, or hf://owner/name of the hub.", group=ARGUMENTS)],
    source: Annotated[str, Parameter(group=ARGUMENTS)],
    /,
    *,
    columns: Annotated[Columns | None, Parameter(name="*")] = None,
    keep: str | None = None,
    rows: Annotated[int | None, Parameter(show_default="by their size")] = None,
    device: Device = "auto",
    network: OwnNetwork = None,
    views: OwnViews = None,
    encoder_path: MovedEncoder = None,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"], group=OUTPUT, allow_leading_hyphen=True)] = None,
    probabilities: Annotated[bool, Parameter(group=OUTPUT)] = True,
    raw: Raw = False,
    on: Annotated[Literal["here", "ray"], Parameter(group=MACHINE)] = "here",
    workers: Annotated[int | None, Parameter(group=MACHINE, show_default="one per GPU, or CPU")] = None,
    address: Annotated[str | None, Parameter(group=MACHINE, show_default="RAY_ADDRESS, or a new cluster here")] = None,
    talk: Annotated[TalkOrJson | None, Parameter(name="*")] = None,
) -> None:
    """Predict a folder, a table, an image or a text, and write label, confidence and the probability of each class.

    The source is read in pieces and may be larger than memory. A file that cannot be read gets a row with the reason in the
    column `problem`. If the source has labels, the error on them is printed too.

    For example:

    - softmatch predict runs/photos new-photos/
    - softmatch predict runs/tickets new.csv --out labelled.parquet
    - softmatch predict runs/tickets new.csv --out - | head
    - softmatch predict runs/tickets new.csv --keep id,customer
    - softmatch predict runs/tickets "my card was swallowed"
    - softmatch predict hf://owner/photos new-photos/
    - softmatch predict runs/photos new-photos/ --out new.parquet --on ray --workers 8

    Parameters
    ----------
    source:
        Data to predict, of the same kind as the training data; for a model of texts also a text in quotes. A dataset of the
        Hugging Face hub is owner/name, or hub:owner/name for a model of texts.
    keep:
        Columns of a table to write with the predictions, separated by commas. One called like a column of the predictions, such
        as label, gets the prefix source_.
    rows:
        Number of samples in memory at a time.
    out:
        File to write. The name ends with .csv, .tsv, .jsonl or .parquet; - writes CSV to standard output. Default: a new file in
        predictions/ of the run; the prediction of a single image or text is only printed.
    probabilities:
        Write the probability of each class.
    on:
        This machine, or a Ray cluster, whose machines find run and files at the same paths. Pieces that are done are kept beside
        the table until it is complete: after an interruption the same command continues with them.
    workers:
        Ray: number of workers, each with the model in its memory and one GPU or CPU.
    address:
        Ray: a running cluster.
    """
    from softmatch.inference.predict import predict as predict_here
    from softmatch.training.arithmetic import keep_freed_memory
    from softmatch.training.opening import reading_of

    talk = talk or TalkOrJson()
    keep_freed_memory()
    if talk.as_json and out == Path("-"):
        raise InputError("--json and --out - both write to standard output: leave out one of them.")
    named = reading_of(make_config(given(columns))).columns
    run_predict: Callable[..., Any] = predict_here
    if on == "ray":
        from softmatch.experiments.executors.predict_on_ray import predict_on_ray

        run_predict = partial(predict_on_ray, workers=workers, address=address)
    elif workers is not None or address is not None:
        raise InputError("--workers and --address only work with --on ray: add that, or leave them out.")
    with _progress(talk) as bar:
        found = run_predict(
            *(run, source, out, named),
            probabilities=probabilities,
            rows=rows,
            device=device,
            progress=bar,
            network=network,
            views=views,
            raw=raw,
            keep=split_names(keep) or (),
            encoder_path=encoder_path,
        )
    _tell(found, talk, to_stderr=out == Path("-"))


def pseudo_labels(
    run: Run,
    /,
    *,
    source: Moved = None,
    order: Literal["doubtful", "certain", "source"] = "doubtful",
    method: OwnMethod = None,
    network: OwnNetwork = None,
    views: OwnViews = None,
    encoder_path: MovedEncoder = None,
    device: Device = "auto",
    out: OutFile = None,
    raw: Raw = False,
    talk: Annotated[Talk | None, Parameter(name="*")] = None,
) -> None:
    """Write the unlabelled samples of a run with pseudo-label, confidence and weight λ, for review.

    For example:

    - softmatch pseudo-labels runs/photos
    - softmatch pseudo-labels runs/tickets --order certain --out sure.csv

    Parameters
    ----------
    order:
        Order of the rows. doubtful: labelled samples with another pseudo-label first, then the least confident. certain: the most
        confident first. source: as in the data.
    out:
        File to write. The name ends with .csv, .tsv, .jsonl or .parquet. Default: pseudo_labels.csv in the run folder, or -2, …
    """
    from softmatch.inference.pseudo_labels import write_pseudo_labels

    with _progress(talk) as progress:
        found = write_pseudo_labels(
            *(run, out, source),
            order=order,
            method=method,
            device=device,
            progress=progress,
            network=network,
            views=views,
            raw=raw,
            encoder_path=encoder_path,
        )
    _tell(found, talk)


def suggest(
    where: Annotated[Path, Parameter(group=ARGUMENTS)],
    /,
    *,
    number: Annotated[int, Parameter(name=["--number", "-n"])] = 20,
    random_share: float = 0.2,
    source: Moved = None,
    network: OwnNetwork = None,
    views: OwnViews = None,
    encoder_path: MovedEncoder = None,
    settings: Annotated[ReadSettings | None, Parameter(name="*")] = None,
    seed: int = 0,
    device: Device = "auto",
    out: OutFile = None,
    raw: Raw = False,
    talk: Annotated[TalkOrJson | None, Parameter(name="*")] = None,
) -> None:
    """Choose samples to label next: for a run, those it is unsure of; for data before any training, typical ones.

    The samples are written to a table with an empty column `label` to fill in, which `softmatch train --labels-from` reads. Some
    of them are random: the error is measured on these, since an error on chosen samples says little about other data.

    For example:

    - softmatch suggest photos/ --number 40
    - softmatch suggest runs/photos --number 40
    - softmatch suggest runs/photos --labels-from labels.csv --out tasks.json

    Parameters
    ----------
    where:
        Folder of a finished run, or your own data.
    number:
        Number of samples, random ones included.
    random_share:
        Share of random samples, to measure the error on.
    seed:
        Random seed of the clustering and of the random samples.
    out:
        File to write. The name ends with .csv, .tsv, .jsonl or .parquet, or with .json for tasks of Label Studio. Default:
        to_label.csv in the run folder, or in the current folder for data; or -2, …
    """
    from softmatch.inference.suggest import cold_start
    from softmatch.inference.suggest import suggest as run_suggest
    from softmatch.training.opening import reading_of

    is_run = (where / RUN_SETTINGS).is_file()
    unread = {"source": source, "network": network, "views": views, "encoder_path": encoder_path}
    why = f"{where} is a run, which has its own" if is_run else f"{where} is not a run folder"
    read = given(settings)
    labels_from = read.pop("labels_from", None) if is_run else None
    for option, value in (read if is_run else unread).items():
        if value is not None:
            raise InputError(f"--{option.replace('_', '-')} {value} is not read here: {why}. Leave it out.")
    with _progress(talk) as progress:
        if is_run:
            found = run_suggest(
                *(where, number, out, source),
                seed=seed,
                device=device,
                progress=progress,
                network=network,
                views=views,
                raw=raw,
                encoder_path=encoder_path,
                labels_from=labels_from,
                random_share=random_share,
            )
        else:
            reading = reading_of(make_config(read, {"device": device}))
            found = cold_start(
                *(str(where), number, out, reading), seed=seed, progress=progress, raw=raw, random_share=random_share
            )
    _tell(found, talk)


def export(
    run: Run,
    /,
    *,
    to: Literal["onnx", "torchscript", "safetensors", "hub"],
    repo: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    private: Annotated[bool, Flag] = False,
    license: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    include: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    source: str | None = None,
    network: OwnNetwork = None,
    views: OwnViews = None,
    encoder_path: MovedEncoder = None,
    out: OutFile = None,
    talk: Annotated[Talk | None, Parameter(name="*")] = None,
) -> None:
    """Export the model with its preparation and class names to another format, and compare it with the original.

    ONNX and TorchScript get a graph from uint8 images, token ids or features to calibrated probabilities. It includes the
    encoder, frozen or fine-tuned, whose tokenizer is written next to it. It is loaded in its own runtime and compared on training
    samples before the command succeeds.

    For example:

    - softmatch export runs/photos --to onnx
    - softmatch export runs/tickets --to safetensors --out tickets-model
    - softmatch export runs/photos --to hub --repo owner/photos --private --license mit

    Parameters
    ----------
    to:
        Format: onnx (needs softmatch[onnx]), torchscript or safetensors; or hub, a folder for the Hugging Face hub with a model
        card made from the run.
    repo:
        Repository owner/name to upload to; it is created if it does not exist. Default: only the folder is written, nothing is
        sent. Samples of your data are never uploaded.
    private:
        Create a repository that only its owners see.
    license:
        Licence for the model card, by the hub's names, such as mit or apache-2.0. Default: none is stated.
    include:
        Further files of the run to upload, separated by commas: result.json; or held_out.csv, pictures.json and report.html,
        which may show samples of your data.
    source:
        Samples to compare on. Default: samples in the run folder, or with a frozen encoder the data of the run.
    out:
        File to write, or a folder for safetensors. Default: a new name in export/ of the run.
    """
    from softmatch.inference.export import export as run_export

    found = run_export(
        *(run, to, out, source),
        network=network,
        views=views,
        encoder_path=encoder_path,
        repo=repo,
        private=private,
        license=license,
        include=split_names(include) or (),
    )
    _tell(found, talk)


def distil(
    run: Run,
    /,
    source: Moved = None,
    *,
    model: str = "small",
    measure: Annotated[bool, Parameter(show_default="--measure")] = True,
    settings: Annotated[StudentSettings | None, Parameter(name="*")] = None,
    method: OwnMethod = None,
    network: OwnNetwork = None,
    views: OwnViews = None,
    encoder_path: MovedEncoder = None,
    device: Device = "auto",
    out: Annotated[Path, Parameter(name=["--out", "-o"], group=OUTPUT)],
    talk: Annotated[TalkOrJson | None, Parameter(name="*")] = None,
) -> None:
    """Train a small model without the encoder on the pseudo-labels of a run, and compare both.

    The student learns from the labels of the run, and from the soft pseudo-labels of its unlabelled samples, each with its weight
    λ. It is measured on the same samples as the run, which neither was trained on. The result is a run folder for predict, export
    and report. A table shows size, speed and error of both.

    For example:

    - softmatch distil runs/tickets --out runs/tickets-small
    - softmatch distil runs/photos --out runs/photos-small --model wrn-10-2 --steps 5000
    - softmatch export runs/tickets-small --to onnx

    Parameters
    ----------
    model:
        Network of the student. small: the one that `softmatch train` chooses for the data without an encoder; for texts, a
        perceptron on TF-IDF features.
    measure:
        Measure the error of the student. If the run was measured by a cross-fit, this trains the teacher again for each fold.
    out:
        Run folder to create. An unfinished one of the same command is resumed; nothing is overwritten.
    """
    from softmatch.cli.display import Display, make_console
    from softmatch.inference.distil import distil as run_distil

    with Display(make_console(talk)) as display:
        found = run_distil(
            *(run, out, source),
            model=model,
            measure=measure,
            method=method,
            network=network,
            views=views,
            encoder_path=encoder_path,
            device=device,
            watcher=display,
            **given(settings),
        )
    _tell(found, talk)


def curve(
    run: Annotated[str, Parameter(group=ARGUMENTS, help="Folder of a finished run; or data to train on first.")],
    /,
    source: Moved = None,
    *,
    settings: Annotated[Settings | None, Parameter(name="*")] = None,
    talk: Annotated[TalkOrJson | None, Parameter(name="*")] = None,
) -> None:
    """Measure the error of a run with fewer labels, and predict it for more: would more labels help?

    Twelve trainings use a quarter, half and three quarters of the labels; the others are tested. A power law through these errors
    gives the error with two and four times the labels. The curve is added to the report of the run. An interrupted curve goes on
    where it was stopped when the command is repeated.

    With data instead of a run, a new run is trained first, by the options of `softmatch train`. For a run, --method, --network
    and --views name code of your own that it used; it keeps its other settings.

    For example:

    - softmatch curve runs/photos
    - softmatch curve photos/ --encoder images --out runs/photos
    """
    from softmatch.cli.display import Display, make_console
    from softmatch.cli.running import train_first
    from softmatch.training.learning_curve import learning_curve

    asked, folder = given(settings), Path(run)
    own = {key: asked.pop(key, None) for key in ("method", "network", "views")} if (folder / RUN_SETTINGS).is_file() else {}
    if own and own["views"] is not None:
        own["views"] = own["views"].get("own")
    if own and asked:
        raise InputError(f"{run} keeps its own settings: leave out {', '.join('--' + key.replace('_', '-') for key in asked)}.")
    if not own:
        if source is not None:
            raise InputError(f"{run} is not a run folder, and {source} is a second source: give one of them.")
        folder = train_first(run, asked, talk or TalkOrJson())
    with Display(make_console(talk), lines=1) as display:
        found = learning_curve(folder, source, **own, watcher=display)
    _tell(found, talk)


def report(run: Annotated[Path, Parameter(group=ARGUMENTS, help="Run folder, finished or not.")], /) -> None:
    """Write report.html of a run folder again."""
    from softmatch.report import write_report
    from softmatch.runs.folder import RunFolder

    if not (run / RUN_SETTINGS).is_file():
        raise InputError(f"{run} is not a run folder: it has no {RUN_SETTINGS}.")
    print(write_report(RunFolder(run)))


def runs(
    folder: Annotated[Path, Parameter(group=ARGUMENTS, help="Folder of runs, or one run folder.")] = Path("runs"),
    /,
    *,
    json: Json = False,
) -> None:
    """List the run folders in a folder with data, method, labels, error and state, the newest first.

    For example:

    - softmatch runs
    - softmatch runs comparisons/runs --json
    """
    found = list_runs(folder)
    if json:
        print(as_json([asdict(run) for run in found]))
        return
    rows: list[tuple[str, ...]] = [("date", "data", "method", "labels", "error", "baseline", "state")]
    for run in found:
        labels = "–" if run.labels is None else f"{run.labels:,}"
        errors = percent(run.error), percent(run.baseline)
        named = Path(run.source or "–").name, run.method or "–"
        rows.append((f"{run.date:%Y-%m-%d %H:%M}", *map(visible_lines, named), labels, *errors, run.state))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row, path in zip(rows, ["", *(f"\n    {visible_lines(str(run.run))}" for run in found)], strict=True):
        cells = (f"{cell:{align}{width}}" for cell, align, width in zip(row, "<<<>>><", widths, strict=True))
        print("  ".join(cells).rstrip() + path)
    if not found:
        print(f"There are no runs in {folder}.")


def _progress(talk: Talk | None) -> "Reading":
    from rich.console import Console

    from softmatch.cli.display import Reading

    return Reading(Console(stderr=True, quiet=talk is not None and talk.quiet, emoji=False))


def _tell(found: Any, talk: Talk | None, to_stderr: bool = False) -> None:
    """Print a result in words, as JSON, or not at all."""
    if isinstance(talk, TalkOrJson) and talk.as_json:
        print(as_json(asdict(found)))
    elif talk is None or not talk.quiet:
        print(visible_lines(found.describe()), file=sys.stderr if to_stderr else sys.stdout)
