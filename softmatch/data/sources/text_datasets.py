"""TEXTS: the paper's five text datasets, and the tables in which they are kept."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softmatch.data.cells import as_text_column
from softmatch.data.readers.table_source import read_table
from softmatch.data.readers.text_lines import read_lines
from softmatch.data.readers.typed_tables import JsonRows, Parquet
from softmatch.data.records import Finding, Piece, TableReader
from softmatch.data.sources.hub_datasets import Repository
from softmatch.errors import InputError
from softmatch.files.untrusted import parse_json
from softmatch.formatting import quoted


@dataclass(frozen=True)
class Texts:
    """A dataset of texts that others have published.

    Attributes:
        classes: in the order of the labels.
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
