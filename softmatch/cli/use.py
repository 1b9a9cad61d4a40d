"""The commands after training: parse, call, print. torch is imported only when a command needs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from softmatch.config import split_names

if TYPE_CHECKING:
    from softmatch.cli.display import Reading


def predict(
    run: Path,
    source: str,
    /,
    *,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    text: str | None = None,
    features: str | None = None,
    label: str | None = None,
    probabilities: bool = True,
    rows: int | None = None,
    device: str = "auto",
    network: str | None = None,
) -> None:
    """Predict a folder, a table, an image or a text, and write label, confidence and all probabilities.

    The source is read and predicted a piece at a time: it may be larger than memory. A file that cannot be read gets a row with
    the reason in the column `problem`. Where the source has labels, the error on them is printed too.

    Examples:

    - softmatch predict runs/photos new-photos/
    - softmatch predict runs/tickets new.csv --out labelled.parquet
    - softmatch predict runs/tickets "my card was swallowed"
    - softmatch predict runs/photos one.jpg

    Parameters
    ----------
    run:
        Folder of a finished run.
    source:
        What to predict, of the kind that the run was trained on; for a model of texts also a text itself.
    out:
        File to write, .csv, .tsv or .parquet. Default: a new file in predictions/ of the run; a single image or text is printed.
    text, features, label:
        Columns of the table, where they are called otherwise than in training; features separated by commas.
    probabilities:
        Write the probability of every class.
    rows:
        Samples in memory at a time. Default: by their size.
    device:
        auto, cpu, cuda, cuda:1, mps.
    network:
        file.py:name of your network, for a run with one of your own.
    """
    from softmatch.data.records import Columns
    from softmatch.inference.predict import predict as run_predict

    columns = Columns(label, text, split_names(features))
    with _progress() as progress:
        found = run_predict(
            run,
            source,
            out,
            None if columns == Columns() else columns,
            probabilities=probabilities,
            rows=rows,
            device=device,
            progress=lambda done: progress(done, None),
            network=network,
        )
    print(found.describe())


def pseudo_labels(
    run: Path,
    /,
    *,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    source: str | None = None,
    order: Literal["doubtful", "certain", "source"] = "doubtful",
    method: str | None = None,
    device: str = "auto",
    network: str | None = None,
) -> None:
    """Write the unlabelled samples of a run with pseudo-label, confidence and weight λ, those worth a look first.

    Examples:

    - softmatch pseudo-labels runs/photos
    - softmatch pseudo-labels runs/tickets --order certain --out sure.csv

    Parameters
    ----------
    run:
        Folder of a finished run.
    out:
        File to write, .csv, .tsv or .parquet. Default: pseudo_labels.csv in the run folder, or -2, -3, …
    source:
        Where the data are now, if they have moved.
    order:
        doubtful: labelled samples with another pseudo-label, then the least confident first; certain: the most confident first;
        source: as they stand there.
    method, network:
        file.py:name, for a run with a method or network of your own: their code runs only if you name it here.
    device:
        auto, cpu, cuda, cuda:1, mps.
    """
    from softmatch.inference.pseudo_labels import write_pseudo_labels

    with _progress() as progress:
        found = write_pseudo_labels(
            run,
            out,
            source,
            order=order,
            method=method,
            device=device,
            progress=lambda done: progress(done, None),
            network=network,
        )
    print(found.describe())


def suggest(
    where: Path,
    /,
    *,
    number: Annotated[int, Parameter(name=["--number", "-n"])] = 20,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    source: str | None = None,
    text: str | None = None,
    features: str | None = None,
    label: str | None = None,
    unlabeled: str | None = None,
    image_size: int | None = None,
    encoder: str | None = None,
    seed: int = 0,
    device: str = "auto",
    network: str | None = None,
) -> None:
    """Choose what to label next: of a run, what it doubts; of a folder or table, before any training, what is typical.

    Writes a table of the chosen samples with an empty column `label` to fill in.

    Examples:

    - softmatch suggest photos/ --number 40
    - softmatch suggest runs/photos --number 40

    Parameters
    ----------
    where:
        Folder of a finished run, or data of your own.
    number:
        How many samples.
    out:
        File to write, .csv, .tsv or .parquet. Default: to_label.csv in the run folder or here, or -2, -3, …
    source:
        Where the data of the run are now, if they have moved.
    text, features, label, unlabeled, image_size, encoder:
        For data of your own: as of `softmatch train`.
    seed:
        Of the groups.
    device:
        auto, cpu, cuda, cuda:1, mps.
    network:
        file.py:name of your network, for a run with one of your own.
    """
    from softmatch.data.records import Columns
    from softmatch.data.understanding import Reading
    from softmatch.inference.suggest import cold_start
    from softmatch.inference.suggest import suggest as run_suggest

    with _progress() as progress:
        if (where / "config.yaml").is_file():
            found = run_suggest(
                where,
                number,
                out,
                source,
                seed=seed,
                device=device,
                progress=lambda done: progress(done, None),
                network=network,
            )
        else:
            columns = Columns(label, text, split_names(features), unlabeled)
            reading = Reading(columns, image_size=image_size, encoder=encoder, device=device)
            found = cold_start(str(where), number, out, reading, seed=seed, progress=progress)
    print(found.describe())


def export(
    run: Path,
    /,
    *,
    to: Literal["onnx", "torchscript", "safetensors"],
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    source: str | None = None,
    network: str | None = None,
) -> None:
    """Write the model for another runtime, with its preprocessing and class names, and compare it with the original.

    ONNX and TorchScript are a graph from items (uint8 images, or features) to calibrated probabilities. It is loaded again in its
    own runtime and compared on samples of the training data before the command says that it is done.

    Examples:

    - softmatch export runs/photos --to onnx
    - softmatch export runs/tickets --to safetensors --out tickets-model

    Parameters
    ----------
    run:
        Folder of a finished run.
    to:
        onnx (needs softmatch[onnx]), torchscript or safetensors.
    out:
        File to write, or folder for safetensors. Default: in export/ of the run.
    source:
        Samples to compare on, where the run has kept none.
    network:
        file.py:name of your network, for a run with one of your own.
    """
    from softmatch.inference.export import export as run_export

    print(run_export(run, to, out, source, network=network).describe())


@contextmanager
def _progress() -> Iterator[Reading]:
    from softmatch.cli.display import Reading

    with Reading() as progress:
        yield progress
