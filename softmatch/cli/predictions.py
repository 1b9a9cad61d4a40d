"""The commands predict, pseudo-labels and suggest. They import torch, through other modules, when they run."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from softmatch.cli.options import (
    ALOUD,
    ARGUMENTS,
    IN_FOLDER,
    MACHINE,
    OUTPUT,
    Device,
    Method,
    Moved,
    OutFile,
    Parts,
    Raw,
    Run,
    Talk,
    TalkOrJson,
    given,
    settings_model,
    tell,
)
from softmatch.config import RUN_SETTINGS, Config, make_config, split_names
from softmatch.errors import InputError

COLUMNS = ("label_column", "text_column", "feature_columns", "series_column", "time_column")
if TYPE_CHECKING:
    Columns = Config
    ReadSettings = Config
else:
    Columns = settings_model(COLUMNS)
    ReadSettings = settings_model((*COLUMNS, "unlabeled", "arrays", "image_size", "encoder", "labels_from", "prefer"))


def predict(
    run: Annotated[str, Parameter(help="Folder of a finished run, or hf://owner/name of the hub.", group=ARGUMENTS)],
    source: Annotated[str, Parameter(group=ARGUMENTS)],
    /,
    *,
    columns: Annotated[Columns | None, Parameter(name="*")] = None,
    keep: str | None = None,
    rows: Annotated[int | None, Parameter(show_default="by their size")] = None,
    device: Device = "auto",
    parts: Annotated[Parts, Parameter(name="*")] = IN_FOLDER,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"], group=OUTPUT, allow_leading_hyphen=True)] = None,
    probabilities: Annotated[bool, Parameter(group=OUTPUT)] = True,
    raw: Raw = False,
    on: Annotated[Literal["here", "ray"], Parameter(group=MACHINE)] = "here",
    workers: Annotated[int | None, Parameter(group=MACHINE, show_default="one per GPU, or CPU")] = None,
    address: Annotated[str | None, Parameter(group=MACHINE, show_default="RAY_ADDRESS, or a new cluster here")] = None,
    talk: Annotated[TalkOrJson, Parameter(name="*")] = ALOUD,
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
    from softmatch.cli.display import progress_of
    from softmatch.inference.predict import predict as predict_here
    from softmatch.training.arithmetic import keep_freed_memory
    from softmatch.training.opening import reading_of

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
    with progress_of(talk) as bar:
        found = run_predict(
            *(run, source, out, named),
            probabilities=probabilities,
            rows=rows,
            device=device,
            progress=bar,
            raw=raw,
            keep=split_names(keep) or (),
            **vars(parts),
        )
    tell(found, talk, to_stderr=out == Path("-"))


def pseudo_labels(
    run: Run,
    /,
    *,
    source: Moved = None,
    order: Literal["doubtful", "certain", "source"] = "doubtful",
    method: Method = None,
    parts: Annotated[Parts, Parameter(name="*")] = IN_FOLDER,
    device: Device = "auto",
    out: OutFile = None,
    raw: Raw = False,
    talk: Annotated[Talk, Parameter(name="*")] = ALOUD,
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
    from softmatch.cli.display import progress_of
    from softmatch.inference.pseudo_labels import write_pseudo_labels

    with progress_of(talk) as progress:
        found = write_pseudo_labels(
            *(run, out, source), order=order, method=method, device=device, progress=progress, raw=raw, **vars(parts)
        )
    tell(found, talk)


def suggest(
    where: Annotated[Path, Parameter(group=ARGUMENTS)],
    /,
    *,
    number: Annotated[int, Parameter(name=["--number", "-n"])] = 20,
    random_share: float = 0.2,
    source: Moved = None,
    parts: Annotated[Parts, Parameter(name="*")] = IN_FOLDER,
    settings: Annotated[ReadSettings | None, Parameter(name="*")] = None,
    seed: int = 0,
    device: Device = "auto",
    out: OutFile = None,
    raw: Raw = False,
    talk: Annotated[TalkOrJson, Parameter(name="*")] = ALOUD,
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
    from softmatch.cli.display import progress_of
    from softmatch.inference.suggest import cold_start
    from softmatch.inference.suggest import suggest as run_suggest
    from softmatch.training.opening import reading_of

    is_run = (where / RUN_SETTINGS).is_file()
    unread = {"source": source, **vars(parts)}
    why = f"{where} is a run, which has its own" if is_run else f"{where} is not a run folder"
    read = given(settings)
    labels_from = read.pop("labels_from", None) if is_run else None
    for option, value in (read if is_run else unread).items():
        if value is not None:
            raise InputError(f"--{option.replace('_', '-')} {value} is not read here: {why}. Leave it out.")
    with progress_of(talk) as progress:
        shared: dict[str, Any] = {"seed": seed, "progress": progress, "raw": raw, "random_share": random_share}
        if is_run:
            found = run_suggest(where, number, out, source, device=device, labels_from=labels_from, **shared, **vars(parts))
        else:
            found = cold_start(str(where), number, out, reading_of(make_config(read, {"device": device})), **shared)
    tell(found, talk)
