"""Text datasets by name: their files, read from tables, Parquet files or the hub, and subsets drawn from them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from softmatch.data.cells import as_text_column
from softmatch.data.examples import Examples
from softmatch.data.readers.csv_files import read_lines
from softmatch.data.readers.table_source import JsonRows, OpenedTable, Parquet, is_table, read_table
from softmatch.data.records import Columns, Finding, Piece, Records, TableReader
from softmatch.data.sources import hub_datasets as hub
from softmatch.data.sources.hub_datasets import Repository
from softmatch.data.understanding import Reading, understand
from softmatch.errors import InputError
from softmatch.files.paths import expand_home
from softmatch.files.untrusted import parse_json
from softmatch.formatting import quoted
from softmatch.seeds import stream


@dataclass(frozen=True)
class Texts:
    """A dataset of texts that others have published.

    Attributes:
        hub: where it is on the Hugging Face hub. If a dataset moves, change it here.
        text: the columns there that make up a text, one after the other with a space between them.
        first: number of the first class there.
        defaults: settings (of `Config`) that differ from the general defaults.
    """

    name: str
    summary: str
    classes: tuple[str, ...]
    hub: Repository
    defaults: Mapping[str, Any]
    text: tuple[str, ...] = ("text",)
    first: int = 0


STARS = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")

TEXTS: dict[str, Texts] = {
    dataset.name: dataset
    for dataset in (
        Texts(
            "agnews",
            "120,000 news in 4 topics, and 7,600 to test on",
            ("World", "Sports", "Business", "Sci/Tech"),
            Repository("fancyzhx/ag_news"),
            {"labels": 40},
        ),
        Texts(
            "dbpedia",
            "560,000 first paragraphs of Wikipedia about 14 kinds of things, and 70,000 to test on",
            (
                *("Company", "EducationalInstitution", "Artist", "Athlete", "OfficeHolder", "MeanOfTransportation", "Building"),
                *("NaturalPlace", "Village", "Animal", "Plant", "Album", "Film", "WrittenWork"),
            ),
            Repository("fancyzhx/dbpedia_14"),
            {"labels": 70},
            text=("title", "content"),
        ),
        Texts(
            "imdb",
            "25,000 reviews of films, negative or positive, and 25,000 to test on",
            ("neg", "pos"),
            Repository("stanfordnlp/imdb"),
            {"labels": 100},
        ),
        Texts(
            "amazon-5",
            "3 million reviews of products with 1 to 5 stars, and 650,000 to test on",
            STARS,
            Repository("yassiracharki/Amazon_Reviews_for_Sentiment_Analysis_fine_grained_5_classes", label="class_index"),
            {"labels": 1000},
            text=("review_title", "review_text"),
            first=1,
        ),
        Texts(
            "yelp-5",
            "650,000 reviews of businesses with 1 to 5 stars, and 50,000 to test on",
            STARS,
            Repository("Yelp/yelp_review_full"),
            {"labels": 1000},
        ),
    )
}


TEXT, LABEL = "text", "label"


class Renamed:
    """A table whose texts and labels are called `text` and `label`. See `records.TableReader`.

    Attributes:
        texts: columns that make up a text, one after the other with a space between them.
        label: column of the labels.
    """

    def __init__(self, reader: TableReader, where: str, dataset: Texts) -> None:
        self.reader, self.where, self.findings = reader, where, reader.findings
        known = (((TEXT,), LABEL), (("ori",), LABEL), (dataset.text, dataset.hub.label))
        found = next((each for each in known if {*each[0], each[1]} <= set(reader.names)), None)
        if found is None:
            own = f", or {quoted([*dataset.text, dataset.hub.label])} as on the hub" if dataset.text != (TEXT,) else ""
            there = quoted(reader.names)
            raise InputError(f"{where} has the columns {there}; texts must be in 'text' and labels in 'label'{own}.")
        self.texts, self.label = found
        others = [name for name in reader.names if name not in (*self.texts, self.label, TEXT, LABEL)]
        self.names: tuple[str, ...] = (TEXT, LABEL, *others)

    def pieces(self, wanted: Sequence[str], rows: int) -> Iterator[Piece]:
        """Give these columns, up to `rows` rows at a time."""
        own = {name: self.texts if name == TEXT else (self.label if name == LABEL else name,) for name in wanted}
        needed = [name for names in own.values() for name in names]
        done = 0
        for piece in self.reader.pieces(needed, rows):
            yield {name: self._column(piece, names, done + 1) for name, names in own.items()}
            done += len(piece[needed[0]])

    def _column(self, piece: Piece, names: Sequence[str], first: int) -> Any:
        if len(names) == 1:
            return piece[names[0]]
        parts = (as_text_column(piece[name], self.where, name, first) for name in names)
        return [" ".join(part.strip() for part in row if part.strip()) for row in zip(*parts, strict=True)]


class Joined:
    """Several Parquet files as one table."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.files = [Parquet(path) for path in paths]
        self.names = self.files[0].names
        self.findings: list[Finding] = []

    def pieces(self, wanted: Sequence[str], rows: int) -> Iterator[Piece]:
        """Give these columns of one file after the other."""
        for file in self.files:
            yield from file.pieces(wanted, rows)


def open_file(path: Path, dataset: Texts) -> Renamed:
    """Open a table in a file, in any of the known forms."""
    rows = _numbered_objects(path) if ".json" in path.suffixes else []
    return Renamed(JsonRows(path, rows) if rows else read_table(path), str(path), dataset)


def _numbered_objects(path: Path) -> list[dict[str, Any]]:
    """Give the objects within the one object of a file; none where it holds something else, such as an object on each line."""
    try:
        found = parse_json("".join(read_lines(path)), path)
    except InputError:
        return []  # the reader of tables says what is wrong, if anything is
    rows = list(found.values()) if isinstance(found, dict) else []
    return rows if all(isinstance(row, dict) for row in rows) else []


VALIDATION = ("dev", "validation", "valid", "val")
"""Names of the table to validate on in a user's folder."""


@dataclass(frozen=True)
class TextData:
    """The unchanged texts of a dataset.

    Attributes:
        train, test: texts with the names of their classes; those of `train` may have augmented versions.
        validation: texts that are kept apart to validate on, where a folder has such a table.
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
