"""`softmatch augment NAME`: a dataset of texts in, a folder with augmented versions of its training texts out."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from softmatch.augmenting.making import Options, augment_texts, find_entries
from softmatch.augmenting.probing import refuse_unwritable
from softmatch.augmenting.summary import Augmented, summarize
from softmatch.data.records import Records
from softmatch.data.sources import SOURCES, find_source
from softmatch.data.sources.open_texts import TextData, read_texts
from softmatch.data.sources.subsets import draw
from softmatch.errors import InputError
from softmatch.files.cache import replacing
from softmatch.files.paths import expand_home
from softmatch.inference.writing import explained, refuse_existing

__all__ = ["augment_source"]


def augment_source(
    source: str,
    via: str | Sequence[str],
    out: str | Path | None = None,
    data: str | Path | None = None,
    *,
    train_per_class: int | None = None,
    validation_per_class: int | None = None,
    note: Callable[[str], None] | None = None,
    **options: Unpack[Options],
) -> Augmented:
    """Write a folder that `--data` takes: train.jsonl, with a new column aug_N for each entry of `via`, and test.jsonl.

    Columns of augmented texts that there are stay.

    Args:
        source: a name of `SOURCES` that holds texts.
        out: the new folder; by default one with "-augmented" in its name, in the current folder.
        data: the user's copy of the dataset; None: the hub.
        train_per_class: so many texts of each class are drawn, by the seed, augmented and written; None: all.
        validation_per_class: so many of each class are drawn to validate on, and written as dev.jsonl instead of the test set.
        note: told what was noticed, and how many texts there are, before anything is made.
        options: of `augment_texts`.

    Raises:
        InputError: before anything is made, for what cannot work, and where the new folder is not empty or cannot be written.
    """
    _refuse_unfit(source, {"--train-per-class": train_per_class, "--validation-per-class": validation_per_class})
    entries = find_entries(via, **options)
    folder = _choose_folder(source, out)
    validating = validation_per_class is not None
    every = read_texts(source, None if data is None else Path(data), validating=validating)
    drawn = draw(every, train_per_class, validation_per_class, options.get("seed", 0))
    other = "dev" if validating else "test"
    if note is not None:
        _tell(drawn, len(entries), other, note)
    texts: Sequence[str] = drawn.train.inputs  # type: ignore[assignment]  # as the kind says
    made = augment_texts(texts, via, **options)
    columns = [*drawn.train.augmented, *made]
    named = {f"aug_{number}": column for number, column in enumerate(columns)}
    assert drawn.test is not None  # `draw` sees to it
    with explained(folder), replacing(folder) as scratch:
        _write(scratch / "train.jsonl", drawn.train, named)
        _write(scratch / f"{other}.jsonl", drawn.test, {})
        if folder.is_dir():
            folder.rmdir()  # an empty one, which not every system replaces; another has come meanwhile, and is an error
    new = dict(list(named.items())[-len(made) :])
    return summarize(folder, texts, new, entries, _train(source, folder, train_per_class, validation_per_class))


def _refuse_unfit(source: str, numbers: Mapping[str, int | None]) -> None:
    if not find_source(source).texts:
        texts = ", ".join(each.name for each in SOURCES.values() if each.texts)
        raise InputError(f"{source} holds no texts to augment: give one of {texts}, or a table of texts.")
    for option, number in numbers.items():
        if number is not None and number < 1:
            raise InputError(f"{option} {number}: one or more are needed.")


def _choose_folder(source: str, out: str | Path | None) -> Path:
    folder = Path(f"{source}-augmented") if out is None else expand_home(out)
    if folder.resolve() == Path.cwd():
        raise InputError(f"--out {folder} is the current folder: name a new one.")
    if not (folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir())):
        refuse_existing(folder)
    refuse_unwritable(folder)
    return folder


def _tell(data: TextData, versions: int, other: str, note: Callable[[str], None]) -> None:
    for finding in data.findings:
        note(finding.text)
    number = len(data.train)
    times = "once" if versions == 1 else f"{versions} times"
    rest = f"the {len(data.test or ()):,} of {other}.jsonl stay as they are"
    note(f"{data.name}: {number:,} texts to train on are augmented, each {times}; {rest}.")


def _write(path: Path, records: Records, versions: Mapping[str, Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        for text, label, *made in zip(records.inputs, records.labels, *versions.values(), strict=True):
            row = {"text": text, "label": label, **dict(zip(versions, made, strict=True))}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _train(source: str, folder: Path, train_per_class: int | None, validation_per_class: int | None) -> str:
    """What was drawn is given again: the paper's recipe has numbers of its own.

    A training set that was made smaller has no room for the recipe's validation texts, unless those were drawn too.
    """
    words = ["softmatch", "train", source, "--data", str(folder)]
    if train_per_class is not None:
        words += ["--train-per-class", str(train_per_class)]
    if validation_per_class is not None:
        words += ["--validation-per-class", str(validation_per_class)]
    recipe = [] if validation_per_class is None and train_per_class is not None else ["--recipe", "paper"]
    return shlex.join([*words, *recipe])
