"""The command that makes augmented texts: parse, call, print. torch is imported only when it is needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from softmatch.errors import InputError

if TYPE_CHECKING:
    from softmatch.augmenting import Augmented

INTERRUPTED = 130


def augment(
    source: str,
    /,
    *,
    via: str,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    text: str | None = None,
    data: Path | None = None,
    train_per_class: int | None = None,
    validation_per_class: int | None = None,
    language: str = "en",
    temperature: float = 0.9,
    seed: int = 0,
    batch: int = 32,
    device: str = "auto",
    processes: int = 1,
) -> None:
    """Make augmented versions of texts, such as back-translations, and write them beside the texts as columns aug_0, aug_1, ….

    `softmatch train` draws one of them as the strong view of a text. Everything else in a table stays as it is. Of a dataset that
    softmatch knows, the training texts are augmented, and a folder is written that `softmatch train NAME --data` takes.

    What is made is kept at once, by its content: after an interruption the same command goes on where it was, and the same texts
    in another file cost nothing. How good the versions are decides what they are worth: look at the examples that are printed.

    Examples:

    - softmatch augment tickets.csv --via de,ru
    - softmatch augment tickets.csv --via fr --text message --processes 4
    - softmatch augment tickets.csv --via models/en-de+models/de-en --device cuda
    - softmatch augment news.jsonl --via my_translator.py:portuguese
    - softmatch augment tickets.csv --via words,words --out tickets-words.csv
    - softmatch augment agnews --via de,ru --out agnews-de-ru
    - softmatch augment yelp-5 --via de,ru --train-per-class 50000 --validation-per-class 5000

    Parameters
    ----------
    source:
        A table of texts: .csv, .tsv, .jsonl, .parquet, or .txt with a text on every line. Or a dataset: agnews, dbpedia, imdb,
        amazon-5, yelp-5.
    via:
        What makes each column, separated by commas: a language such as de, ru or fr, into which texts are translated and back
        (needs softmatch[translate]); FORTH+BACK, folders or hub ids of two translation models; file.py:name, a function of your
        own from a list of texts to a list of texts; words, which needs no model.
    out:
        File to write, of the same format, or folder of a dataset. Default: the same name with -augmented. Nothing is overwritten.
    text:
        Column of the texts, where it is not obvious.
    data:
        Of a dataset: folder of a copy that you have. Default: the Hugging Face hub.
    train_per_class:
        Of a dataset: texts of each class that are drawn, augmented and written. Default: all.
    validation_per_class:
        Of a dataset: texts of each class that are drawn to validate on, and written instead of the test set.
    language:
        Of the texts.
    temperature:
        Of the words' probabilities when translating; the lower, the more literal. 0: no draws, the models' own search.
    seed:
        Of all draws; of texts of each class as --split-seed of softmatch train.
    batch:
        Sentences or texts at a time.
    device:
        For translation models: auto, cpu, cuda, cuda:1, mps.
    processes:
        That work at the same time, each with the models in its memory.
    """
    from softmatch.augmenting.files import augment_file
    from softmatch.augmenting.showing import Showing
    from softmatch.augmenting.sources import augment_source
    from softmatch.data.sources import SOURCES

    make: Callable[..., Augmented] = partial(augment_file, text=text)
    if source in SOURCES:
        _refuse(f"{source!r} is a source that softmatch knows, and this is for a table of your own", {"--text": text})
        make = partial(augment_source, data=data, train_per_class=train_per_class, validation_per_class=validation_per_class)
    else:
        drawn = {"--train-per-class": train_per_class, "--validation-per-class": validation_per_class}
        _refuse(f"{source} is a file, and this is for a source that softmatch knows, such as agnews", {"--data": data, **drawn})
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
                processes=processes,
                progress=showing,
                note=showing.note,
            )
        except KeyboardInterrupt:
            kept = showing.kept()
            made = f"; {kept} are kept, and the same command goes on from there" if kept else ""
            print(f"softmatch: interrupted{made}. No file was written.", file=sys.stderr)
            raise SystemExit(INTERRUPTED) from None
    print(found.describe())


def _refuse(why: str, options: Mapping[str, object]) -> None:
    """Raise InputError for the first of the options that was given."""
    for option, value in options.items():
        if value is not None:
            raise InputError(f"{option} {value}: {why}. Leave it out.")
