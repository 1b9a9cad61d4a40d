"""Reading a dataset of texts from wherever it is: tables or parquet files of the user, or the hub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from softmatch.data.examples import Examples
from softmatch.data.readers.table_source import OpenedTable, is_table
from softmatch.data.records import Columns, Finding, Records
from softmatch.data.sources import hub_datasets as hub
from softmatch.data.sources.text_datasets import TEXTS, Texts
from softmatch.data.sources.text_tables import LABEL, TEXT, Joined, Renamed, open_file, rename
from softmatch.data.understanding import Reading, Tests, understand
from softmatch.errors import InputError
from softmatch.files.paths import expand_home
from softmatch.formatting import quoted

TRAIN, TEST = ("train",), ("test",)
VALIDATION = ("dev", "validation", "valid", "val")
"""What tables in a user's folder are called."""


@dataclass(frozen=True)
class TextData:
    """The texts of a dataset as they stand there.

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
    def tests(self) -> Tests | None:
        """What the error is measured on, as `understand` takes it."""
        return None if self.test is None else Tests(f"the test set of {self.name}", self.test)


def read_texts(
    name: str, where: Path | None = None, augmented: Sequence[str] | None = None, validating: bool = False
) -> TextData:
    """All texts of a dataset of `TEXTS`.

    Args:
        where: a folder with tables or the parquet files of its hub repository. None: the hub, through its library's own cache.
        augmented: columns of augmented texts; None: all that are called aug_0, aug_1, …; (): none.
        validating: the test set is not wanted, which saves reading it.

    Raises:
        InputError: for what cannot be read, lacks a part, or has a label that is no class of this dataset.
    """
    dataset = TEXTS[name]
    try:
        tables = _open_hub(dataset, validating) if where is None else _open_folder(dataset, expand_home(where), validating)
    except OSError as error:
        raise InputError(f"{error.filename or where} cannot be read: {error.strerror or error}.") from error
    findings: list[Finding] = []
    parts: dict[str, Records] = {}
    for part, table in tables.items():
        versions = None if augmented is None else tuple(augmented)
        columns = Columns(label=LABEL, text=TEXT, augmented=versions if part == "train" else ())
        opened = OpenedTable(table, table.where, columns)
        parts[part] = opened.read()
        findings += opened.findings
    named = _with_class_names(dataset, tables, parts)
    return TextData(name, named["train"], named.get("test"), dataset.classes, named.get("validation"), tuple(findings))


def load(name: str, seed: int, where: Path | None = None) -> Examples:
    """The dataset with its texts as TF-IDF vectors; the data are fixed, so the seed is not used."""
    data = read_texts(name, where)
    return understand(name, data.train, data.tests, Reading(), TEXT, classes=data.classes).examples


def _open_hub(dataset: Texts, validating: bool) -> dict[str, Renamed]:
    splits = {"train": dataset.hub.train[0], **({} if validating else {"test": dataset.hub.test})}
    opened = {part: hub.HubRows(dataset.hub, split) for part, split in splits.items()}
    return {part: rename(rows, rows.origin, dataset) for part, rows in opened.items()}


def _open_folder(dataset: Texts, where: Path, validating: bool) -> dict[str, Renamed]:
    if not where.exists():
        raise InputError(f"--data {where}: there is no such folder.")
    if not where.is_dir():
        raise InputError(f"--data {where} is a file: give the folder with the tables of {dataset.name}, train.* and test.*.")
    wanted = {"train": TRAIN, **({"validation": VALIDATION} if validating else {"test": TEST})}
    found = {part: path for part, names in wanted.items() if (path := _find_table(where, names)) is not None}
    if "train" in found:
        return {part: open_file(path, dataset) for part, path in found.items()}
    files = hub.find_parquet(where, dataset.hub)
    if files is None:
        raise _nothing_found(dataset, where)
    splits = {"train": dataset.hub.train[0], **({} if validating else {"test": dataset.hub.test})}
    return {part: rename(Joined(files[split]), str(files[split][0].parent), dataset) for part, split in splits.items()}


def _find_table(where: Path, names: Sequence[str]) -> Path | None:
    """The table of one of these names, with whatever suffix."""
    paths = [path for path in sorted(where.iterdir()) if path.name.split(".")[0] in names and path.is_file()]
    found = [path for path in paths if is_table(path) and path.suffix != ".txt"]
    if len(found) > 1:
        raise InputError(f"{where} has {found[0].name} and {found[1].name}: only one of them can be meant. Move the other.")
    return found[0] if found else None


def _nothing_found(dataset: Texts, where: Path) -> InputError:
    held = [path.name for path in sorted(where.iterdir())]
    return InputError(
        f"--data {where} has no table of {dataset.name}; it holds {quoted(held) or 'nothing'}. Expected train.* and test.* "
        f"(.csv, .tsv, .jsonl, .json or .parquet) with the columns text and label, or the parquet files of {dataset.hub.id}."
    )


def _with_class_names(dataset: Texts, tables: dict[str, Renamed], parts: dict[str, Records]) -> dict[str, Records]:
    """The same records, their labels as names of the classes: some tables have names, others numbers from 0 or from 1."""
    every = {label for records in parts.values() for label in records.labels}
    first = 0 if "0" in every else 1 if str(len(dataset.classes)) in every else tables["train"].first
    known: dict[str, str | None] = {"-1": None}
    known |= {str(number): name for number, name in enumerate(dataset.classes, first)}
    known |= {_spelling(name): name for name in dataset.classes}
    named = {}
    for part, records in parts.items():
        labels: list[str | None] = []
        for row, label in enumerate(records.labels):
            if label is not None and _spelling(label) not in known:
                raise InputError(
                    f"{tables[part].where}, row {records.names[row]}: the label {label!r} is no class of {dataset.name}: they "
                    f"are {quoted(dataset.classes, 14)}, or the numbers from {first} to {first + len(dataset.classes) - 1}."
                )
            labels.append(None if label is None else known[_spelling(label)])
        named[part] = replace(records, labels=labels)
    return named


def _spelling(name: str) -> str:
    """What does not depend on case and plural: on the hub, "2 star" stands beside "3 stars"."""
    return name.casefold().removesuffix("s")
