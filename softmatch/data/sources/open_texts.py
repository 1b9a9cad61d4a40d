"""Reading of a text dataset from the user's tables, Parquet files or the hub, and drawing of subsets."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from softmatch.data.examples import Examples
from softmatch.data.readers.table_source import OpenedTable, is_table
from softmatch.data.records import Columns, Finding, Records
from softmatch.data.sources import hub_datasets as hub
from softmatch.data.sources.text_datasets import LABEL, TEXT, TEXTS, Joined, Renamed, Texts, open_file
from softmatch.data.understanding import Reading, understand
from softmatch.errors import InputError
from softmatch.files.paths import expand_home
from softmatch.formatting import quoted
from softmatch.seeds import stream

VALIDATION = ("dev", "validation", "valid", "val")
"""Names of the table to validate on in a user's folder."""


@dataclass(frozen=True)
class TextData:
    """The unchanged texts of a dataset.

    Attributes:
        train, test: texts with the names of their classes; those of `train` may have augmented versions.
        classes: in the order of the labels.
        validation: texts that are kept apart to validate on, where a folder has such a table.
        findings: what was noticed.
    """

    name: str
    train: Records
    test: Records | None
    classes: tuple[str, ...]
    validation: Records | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def tests(self) -> tuple[str, Records] | None:
        """Texts to measure the error on, as `understand` takes them."""
        return None if self.test is None else (f"the test set of {self.name}", self.test)


def read_texts(
    name: str, where: Path | None = None, augmented: Sequence[str] | None = None, validating: bool = False
) -> TextData:
    """Read all texts of a dataset of `TEXTS`.

    Args:
        where: a folder with tables or the parquet files of its hub repository. None: the hub, through its library's own cache.
        augmented: columns of augmented texts; None: all that are called aug_0, aug_1, …; (): none.
        validating: the test set is not read.
    """
    dataset = TEXTS[name]
    splits = {"train": dataset.hub.train[0], **({} if validating else {"test": dataset.hub.test})}
    try:
        if where is None:
            opened = {part: hub.HubRows(dataset.hub, split) for part, split in splits.items()}
            tables = {part: Renamed(rows, rows.origin, dataset) for part, rows in opened.items()}
        else:
            tables = _open_folder(dataset, expand_home(where), splits)
    except OSError as error:
        raise InputError(f"{error.filename or where} cannot be read: {error.strerror or error}.") from error
    findings, parts = list[Finding](), dict[str, Records]()
    versions = None if augmented is None else tuple(augmented)
    for part, table in tables.items():
        columns = Columns(label=LABEL, text=TEXT, augmented=versions if part == "train" else ())
        source = OpenedTable(table, table.where, columns)
        parts[part] = source.read()
        findings += source.findings
    named = _with_class_names(dataset, tables, parts)
    return TextData(name, named["train"], named.get("test"), dataset.classes, named.get("validation"), tuple(findings))


def load(name: str, seed: int, where: Path | None = None) -> Examples:
    """Load the dataset with its texts as TF-IDF vectors; the data are fixed, so the seed is not used."""
    data = read_texts(name, where)
    return understand(name, data.train, data.tests, Reading(), TEXT, classes=data.classes).examples


def _open_folder(dataset: Texts, where: Path, splits: Mapping[str, str]) -> dict[str, Renamed]:
    if not where.exists():
        raise InputError(f"--data {where}: there is no such folder.")
    if not where.is_dir():
        raise InputError(f"--data {where} is a file: give the folder with the tables of {dataset.name}, train.* and test.*.")
    wanted = {"train": ("train",), **({"test": ("test",)} if "test" in splits else {"validation": VALIDATION})}
    found = {part: path for part, names in wanted.items() if (path := _find_table(where, names)) is not None}
    if "train" in found:
        return {part: open_file(path, dataset) for part, path in found.items()}
    files = hub.find_parquet(where, dataset.hub)
    if files is None:
        held = quoted([path.name for path in sorted(where.iterdir())]) or "nothing"
        raise InputError(
            f"--data {where} has no table of {dataset.name}; it holds {held}. Expected train.* and test.* (.csv, .tsv, .jsonl, "
            f".json or .parquet) with the columns text and label, or the parquet files of {dataset.hub.id}."
        )
    return {part: Renamed(Joined(files[split]), str(files[split][0].parent), dataset) for part, split in splits.items()}


def _find_table(where: Path, names: Sequence[str]) -> Path | None:
    """Find the table of one of these names, with any suffix."""
    paths = [path for path in sorted(where.iterdir()) if path.name.split(".")[0] in names and path.is_file()]
    found = [path for path in paths if is_table(path) and path.suffix != ".txt"]
    if len(found) > 1:
        raise InputError(f"{where} has {found[0].name} and {found[1].name}: only one of them can be meant. Move the other.")
    return found[0] if found else None


def _with_class_names(dataset: Texts, tables: dict[str, Renamed], parts: dict[str, Records]) -> dict[str, Records]:
    """Replace labels by the names of the classes: some tables have names, others numbers from 0 or from 1."""
    every = {label for records in parts.values() for label in records.labels}
    first = 0 if "0" in every else 1 if str(len(dataset.classes)) in every else dataset.first
    numbers = {str(number): name for number, name in enumerate(dataset.classes, first)}
    known: dict[str, str | None] = {"-1": None, **numbers, **{_spelling(name): name for name in dataset.classes}}
    named = {}
    for part, records in parts.items():
        labels: list[str | None] = []
        for row, label in enumerate(records.labels):
            if label is not None and _spelling(label) not in known:
                raise InputError(
                    f"{tables[part].where}, row {records.names[row]}: the label {label!r} is not a class of {dataset.name}: they "
                    f"are {quoted(dataset.classes, 14)}, or the numbers from {first} to {first + len(dataset.classes) - 1}."
                )
            labels.append(None if label is None else known[_spelling(label)])
        named[part] = replace(records, labels=labels)
    return named


def _spelling(name: str) -> str:
    """Ignore case and plural: the hub has "2 star" and "3 stars"."""
    return name.casefold().removesuffix("s")


def draw(data: TextData, train_per_class: int | None, validation_per_class: int | None, seed: int) -> TextData:
    """Draw a training set and a test set of these sizes; None: they are unchanged.

    Validation texts are drawn first: from their own table, if there is one, else out of the training set. The order
    is kept. Texts without a label stay.
    """
    train, test, findings = data.train, data.test, list(data.findings)
    if validation_per_class is not None:
        if data.validation is not None:
            test, origin = data.validation, "of the validation set"
            chosen = _choose(data, test, validation_per_class, seed, "validation")
        else:
            test, origin = train, "taken out of the training set"
            chosen = _choose(data, train, validation_per_class, seed, "validation", and_train=train_per_class or 1)
            taken = set(chosen)
            train = train.select([row for row in range(len(train)) if row not in taken])
        test = replace(test.select(chosen), augmented=())
        text = f"{data.name}: the error is measured on {len(test):,} texts {origin}, {validation_per_class:,} per class; "
        findings.append(Finding("note", f"{text}the test set is not used."))
    elif test is None:
        raise InputError(
            f"{data.name}: there is no table test.* to measure the error on. Give one, or --validation-per-class "
            "N, which takes N texts per class out of the training set."
        )
    if train_per_class is not None:
        chosen = _choose(data, train, train_per_class, seed, "train")
        unlabeled = [row for row, label in enumerate(train.labels) if label is None]
        train = train.select(sorted([*chosen, *unlabeled]))
    return replace(data, train=train, test=test, validation=None, findings=tuple(findings))


def _choose(data: TextData, records: Records, number: int, seed: int, part: str, and_train: int = 0) -> list[int]:
    """Choose rows of `number` texts per class, in order.

    Args:
        and_train: further texts that each class must have, to train on.
    """
    members = defaultdict[str, list[int]](list)
    for row, label in enumerate(records.labels):
        if label is not None:
            members[label].append(row)
    generator, chosen = stream(seed, f"{part} texts"), list[int]()
    for name in data.classes:
        rows = members[name]
        if len(rows) < number + and_train:
            wanted = f" to {'train' if part == 'train' else 'validate'} on, {number:,} per class"
            if and_train:
                wanted = f"; {number:,} per class to validate on and {and_train:,} to train on"
            options = f"--{part}-per-class" + (" or --train-per-class" if and_train > 1 else "")
            there = f"{data.name}: class {name!r} has {len(rows):,} texts"
            raise InputError(f"{there}{wanted} are asked for: lower {options}.")
        chosen += [rows[k] for k in torch.randperm(len(rows), generator=generator)[:number].tolist()]
    return sorted(chosen)
