"""The command augment and its progress display. It imports torch, through other modules, when it runs."""

import math
import sys
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
) -> None:
    """Augment texts, for example by back-translation, and add the results to the table as columns aug_0, aug_1, ….

    `softmatch train` draws one of them as the strong view of a text. Everything else in a table stays as it is. For a dataset
    that softmatch knows, the training texts are augmented, and a folder for `softmatch train NAME --data` is written.

    Finished texts are cached by content: after an interruption the same command resumes, and the same texts in another file
    cost nothing. Commands that run at once on the same texts share the work. Read the examples that are printed: bad versions
    harm training.

    For example:

    - softmatch augment tickets.csv --via de,ru
    - softmatch augment tickets.csv --via fr --text-column message
    - softmatch augment tickets.csv --via models/en-de+models/de-en --device cuda
    - softmatch augment news.jsonl --via my_translator.py:portuguese
    - softmatch augment tickets.csv --via words,words --out tickets-words.csv
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
    """
    from softmatch.augmenting import augment_file, augment_source  # torch
    from softmatch.data.sources import SOURCES

    known = source in SOURCES
    what = f"tables, and {source} is a dataset" if known else f"datasets such as agnews, and {source} is a file"
    for_datasets = {"data": data, "train-per-class": train_per_class, "validation-per-class": validation_per_class}
    for name, value in ({"text-column": text} if known else for_datasets).items():
        if value is not None:
            raise InputError(f"--{name} {value}: this is for {what}. Leave it out.")
    options: dict[str, Any] = {"language": language, "temperature": temperature, "seed": seed, "batch": batch, "device": device}
    with AugmentingDisplay() as display:
        options |= {"progress": display.report, "note": display.note}
        try:
            if known:
                found = augment_source(source, via, out, data, train_per_class, validation_per_class, **options)
            else:
                found = augment_file(source, via, out, text, **options)
        except KeyboardInterrupt:
            kept = f"; {display.made:,} new versions are kept, and the same command resumes" if display.made else ""
            print(f"softmatch: interrupted{kept}. No file was written.", file=sys.stderr)
            raise SystemExit(INTERRUPTED) from None
    print(found.describe())


class AugmentingDisplay(Progress):
    """A live bar for each column on a terminal; elsewhere a line now and then.

    Attributes:
        made: number of new versions in the cache.
    """

    def __init__(self, console: Console | None = None) -> None:
        console = console or Console(stderr=True, emoji=False)  # a name may hold :boom:
        name, figures = (ProgressText(f"{{task.{field}}}", markup=False) for field in ("description", "fields[figures]"))
        columns = (name, BarColumn(bar_width=20), figures)
        super().__init__(*columns, console=console, disable=not console.is_terminal, speed_estimate_period=math.inf)
        self.made = 0

    def note(self, text: str) -> None:
        """Show a finding about the texts."""
        self.console.print(f"Note: {text}", highlight=False, soft_wrap=True, markup=False, style="dim")

    def report(self, name: str, unit: str, done: int, total: int, cached: int) -> None:
        """Show the progress of the column `name`; see `Augmenter`."""
        if done == cached:  # a new column
            self.add_task(name, total=total, completed=cached, figures="", next_line=0)
        task = self.tasks[-1]
        self.made += done - int(task.completed) if name != "words" else 0  # which are not cached
        self.update(task.id, completed=done)
        parts = [f"{done:,}/{total:,} {unit}"]
        if task.speed and task.time_remaining:
            parts.append(f"{task.speed:,.1f} per second, {duration(task.time_remaining)} left")
        if cached:
            parts.append(f"{cached:,} from the cache")
        self.update(task.id, figures=", ".join(parts))
        if not self.console.is_terminal and (done >= task.fields["next_line"] or done == total):
            self.update(task.id, next_line=done + max(total // LINES, 1))
            self.console.print(f"{name}: {task.fields['figures']}", highlight=False, soft_wrap=True, markup=False)
