"""The command augment and its progress display. It imports torch, through other modules, when it runs."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, Progress
from rich.progress import TextColumn as ProgressText

from softmatch.cli.options import ARGUMENTS, Device, OutFile, TextColumn
from softmatch.errors import INTERRUPTED, InputError
from softmatch.formatting import duration

LINES = 10
"""Lines of progress for each column, without a terminal."""


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

    `softmatch train` draws one of them as the strong view of a text. Everything else in a table stays as it is. For a dataset
    that softmatch knows, the training texts are augmented, and a folder for `softmatch train NAME --data` is written.

    Finished texts are cached by content: after an interruption the same command resumes, and the same texts in another file
    cost nothing. Read the examples that are printed: bad versions harm training.

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
    from softmatch.augmenting import augment_file, augment_source  # torch
    from softmatch.data.sources import SOURCES

    known = source in SOURCES
    for_datasets = {"data": data, "train_per_class": train_per_class, "validation_per_class": validation_per_class}
    for name, value in ({"text_column": text} if known else for_datasets).items():
        if value is not None:
            what = f"tables, and {source} is a dataset" if known else f"datasets such as agnews, and {source} is a file"
            raise InputError(f"--{name.replace('_', '-')} {value}: this is for {what}. Leave it out.")
    options: dict[str, Any] = {"language": language, "temperature": temperature, "seed": seed, "batch": batch, "device": device}
    with AugmentingDisplay() as display:
        options |= {"processes": workers, "progress": display.report, "note": display.note}
        try:
            if known:
                found = augment_source(source, via, out, data, train_per_class, validation_per_class, **options)
            else:
                found = augment_file(source, via, out, text, **options)
        except KeyboardInterrupt:
            kept = " and ".join(f"{number:,} new {unit}" for unit, number in display.made.items() if number)
            resumes = f"; {kept} are kept, and the same command resumes" if kept else ""
            print(f"softmatch: interrupted{resumes}. No file was written.", file=sys.stderr)
            raise SystemExit(INTERRUPTED) from None
    print(found.describe())


class AugmentingDisplay(Progress):
    """A live bar for each column on a terminal; elsewhere a line now and then.

    Attributes:
        made: number of new "sentences" and "texts" in the cache.
    """

    def __init__(self, console: Console | None = None) -> None:
        console = console or Console(stderr=True, emoji=False)  # a name may hold :boom:
        name, figures = ProgressText("{task.description}", markup=False), ProgressText("{task.fields[figures]}", markup=False)
        super().__init__(name, BarColumn(bar_width=20), figures, console=console, disable=not console.is_terminal)
        self.made = Counter[str]()

    def note(self, text: str) -> None:
        """Show a finding about the texts."""
        self.console.print(f"Note: {text}", highlight=False, soft_wrap=True, markup=False, style="dim")

    def report(self, name: str, unit: str, done: int, total: int, cached: int) -> None:
        """Show the progress of the column `name`; see `Augmenter`."""
        if done == cached:  # a new column
            self.add_task(name, total=total, completed=cached, figures="", next_line=0)
        task = self.tasks[-1]
        if name != "words":  # which are not cached
            self.made[unit] += done - int(task.completed)
        figures = describe_progress(unit, done, total, cached, task.elapsed or 0.0)
        self.update(task.id, completed=done, figures=figures)
        if not self.console.is_terminal and (done >= task.fields["next_line"] or done == total):
            self.update(task.id, next_line=done + max(total // LINES, 1))
            self.console.print(f"{name}: {figures}", highlight=False, soft_wrap=True, markup=False)


def describe_progress(unit: str, done: int, total: int, cached: int, seconds: float) -> str:
    """Progress in words, such as '1,200/12,000 sentences, 35.2 per second, 5.1 min left, 300 from the cache'."""
    parts = [f"{done:,}/{total:,} {unit}"]
    if done > cached and seconds > 0:
        rate = (done - cached) / seconds
        parts.append(f"{rate:,.{0 if rate >= 100 else 1}f} per second")
        if done < total:
            parts.append(f"{duration((total - done) / rate)} left")
    if cached:
        parts.append(f"{cached:,} from the cache")
    return ", ".join(parts)
