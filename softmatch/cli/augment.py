"""The command augment. It imports torch, through other modules, when it runs: help must not wait for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from softmatch.cli.options import ARGUMENTS, Device, OutFile, TextColumn
from softmatch.errors import INTERRUPTED, InputError

if TYPE_CHECKING:
    from softmatch.augmenting import Augmented


def augment(
    source: Annotated[str, Parameter(group=ARGUMENTS)],
    /,
    *,
    via: str,
    out: OutFile = None,
    text: TextColumn = None,
    data: Path | None = None,
    train_per_class: int | None = None,
    validation_per_class: int | None = None,
    language: str = "en",
    temperature: float = 0.9,
    seed: int = 0,
    batch: int = 32,
    device: Device = "auto",
    workers: int = 1,
) -> None:
    """Augment texts, for example by back-translation, and add the results to the table as columns aug_0, aug_1, ….

    `softmatch train` uses one of them at random as the strong view of a text. The rest of the table stays as it is. For a named
    dataset, the training texts are augmented, and a folder is written for `softmatch train NAME --data FOLDER`.

    Results are cached by content: the same command resumes after an interruption, and the same texts in another file cost
    nothing. The quality of the augmented texts decides how much they help: look at the printed examples.

    For example:

    - softmatch augment tickets.csv --via de,ru
    - softmatch augment tickets.csv --via fr --text-column message --workers 4
    - softmatch augment tickets.csv --via models/en-de+models/de-en --device cuda
    - softmatch augment news.jsonl --via my_translator.py:portuguese
    - softmatch augment tickets.csv --via words,words --out tickets-words.csv
    - softmatch augment agnews --via de,ru --out agnews-de-ru
    - softmatch augment yelp-5 --via de,ru --train-per-class 50000 --validation-per-class 5000

    Parameters
    ----------
    source:
        Table of texts: .csv, .tsv, .jsonl, .parquet, or .txt with one text per line. Or a named dataset: agnews, dbpedia, imdb,
        amazon-5 or yelp-5.
    via:
        Source of each new column, separated by commas. A language such as de, ru or fr: translate to it and back (needs
        softmatch[translate]). FORTH+BACK: folders or hub IDs of two translation models. file.py:name: your own function from a
        list of texts to a list of texts. words: replace words, without a model.
    out:
        File to write, in the same format, or a folder for a dataset. Default: the same name with -augmented. Nothing is
        overwritten.
    data:
        Named datasets: folder of a local copy. Default: the Hugging Face hub.
    train_per_class:
        Named datasets: number of training texts per class to augment and write. Default: all.
    validation_per_class:
        Named datasets: number of texts per class to write for validation instead of the test set.
    language:
        Language of the texts.
    temperature:
        Sampling temperature of translations; a lower one is more literal. 0: no sampling, the models' own search.
    seed:
        Random seed. It also selects the texts per class, as --split-seed of softmatch train does.
    batch:
        Number of sentences or texts per batch.
    workers:
        Number of worker processes; each loads its own copy of the models.
    """
    from softmatch.augmenting.files import augment_file
    from softmatch.augmenting.showing import Showing
    from softmatch.augmenting.sources import augment_source
    from softmatch.data.sources import SOURCES

    make: Callable[..., Augmented] = partial(augment_file, text=text)
    if source in SOURCES:
        _refuse(f"{source!r} is a named dataset, and this is for your own table", {"--text-column": text})
        make = partial(augment_source, data=data, train_per_class=train_per_class, validation_per_class=validation_per_class)
    else:
        drawn = {"--train-per-class": train_per_class, "--validation-per-class": validation_per_class}
        _refuse(f"{source} is a file, and this is for a named dataset such as agnews", {"--data": data, **drawn})
    with Showing() as showing:
        try:
            found = make(
                source,
                via,
                out,
                language=language,
                temperature=temperature,
                seed=seed,
                batch=batch,
                device=device,
                processes=workers,
                progress=showing,
                note=showing.note,
            )
        except KeyboardInterrupt:
            kept = showing.kept()
            made = f"; {kept} are cached, and the same command resumes there" if kept else ""
            print(f"softmatch: interrupted{made}. No file was written.", file=sys.stderr)
            raise SystemExit(INTERRUPTED) from None
    print(found.describe())


def _refuse(why: str, options: Mapping[str, object]) -> None:
    """Raise InputError for the first of the options that was given."""
    for option, value in options.items():
        if value is not None:
            raise InputError(f"{option} {value}: {why}. Leave it out.")
