"""Tables and named datasets of texts, written again with new columns of augmented texts; and a summary of what was made."""

import csv
import json
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from softmatch.augmenting.versions import Augmenter
from softmatch.data.cells import as_text_column
from softmatch.data.readers.csv_files import read_lines
from softmatch.data.readers.table_source import is_table, open_table
from softmatch.data.records import Columns
from softmatch.data.sources import find_source
from softmatch.data.sources.open_texts import TEXTS, draw, read_texts
from softmatch.errors import InputError, SoftmatchError, nearest
from softmatch.files.cache import identity, replacing
from softmatch.files.paths import expand_home
from softmatch.inference.writing import appearing, explained, refuse_existing, write_samples
from softmatch.views.text_statistics import words_of

EXAMPLES, LONGEST = 3, 300


@dataclass(frozen=True)
class NewColumn:
    """Summary of a column that the entry `via` has made."""

    name: str
    via: str
    changed: int  # versions that differ from their text
    empty: int  # texts whose version is empty: `softmatch train` uses the text itself
    kept: float | None  # mean share of the words of a text that are in its version; None if no text has words

    def describe(self) -> str:
        kept = "" if self.kept is None else f", {self.kept:.0%} of the words kept on average"
        empty = f", {self.empty:,} are empty: training uses the text itself" if self.empty else ""
        return f"{self.changed:,} differ from the original{kept}{empty}  (via {self.via})"


@dataclass(frozen=True)
class Augmented:
    """Summary of a file or folder that was written."""

    out: Path
    texts: int  # rows with a text
    rows: int
    columns: tuple[NewColumn, ...]
    examples: tuple[tuple[str, ...], ...]  # some texts, each followed by its versions
    train: str  # command that trains on it

    def describe(self) -> str:
        """The summary as lines of text, with examples and warnings."""
        names = ["text", *(column.name for column in self.columns)]
        width = max(map(len, names))
        lines = [f"{self.texts:,} texts in {self.out}"]
        lines += [f"  {column.name:<{width}}  {column.describe()}" for column in self.columns]
        if self.rows > self.texts:
            lines.append(f"  {self.rows - self.texts:,} rows have no text: their new cells are empty")
        for example in self.examples:
            lines += ["", *(f"  {name:<{width}}  {_shorten(text)}" for name, text in zip(names, example, strict=True))]
        useless = [column for column in self.columns if not column.changed]
        lines += ["", f"Train on it:  {self.train}", *([""] if useless else [])]
        problem = "is of no use: every version is empty or the text itself. Check what --via"
        lines += [f"Warning: {column.name} {problem} {column.via} does." for column in useless]
        return "\n".join(lines)


def summarize(out: Path, texts: Sequence[str], columns: Mapping[str, Sequence[str]], via: Sequence[str], train: str) -> Augmented:
    """Compare texts with the new columns that the entries `via` have made."""
    made = list(columns.values())
    about = tuple(_compare(name, entry, texts, columns[name]) for name, entry in zip(columns, via, strict=True))
    rows = [row for row, text in enumerate(texts) if any(column[row].strip() and column[row] != text for column in made)]
    chosen = [rows[len(rows) * place // EXAMPLES] for place in range(min(EXAMPLES, len(rows)))]  # from all over the table
    examples = tuple((texts[row], *(column[row] for column in made)) for row in chosen)
    return Augmented(out, sum(bool(text.strip()) for text in texts), len(texts), about, examples, train)


def _compare(name: str, via: str, texts: Sequence[str], versions: Sequence[str]) -> NewColumn:
    pairs = [(text, version) for text, version in zip(texts, versions, strict=True) if version.strip() or not text.strip()]
    words = [(Counter(words_of(text)), Counter(words_of(version))) for text, version in pairs]
    shares = [(before & after).total() / before.total() for before, after in words if before]
    changed, kept = sum(text != version for text, version in pairs), sum(shares) / len(shares) if shares else None
    return NewColumn(name, via, changed, len(texts) - len(pairs), kept)


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"


ROWS = 10_000
NEW_SUFFIX = {".txt": ".csv", ".json": ".jsonl"}
"""Suffixes of tables that are written in another format than their own."""
AUGMENTED = re.compile(r"aug_(\d+)")


def augment_file(
    where: str | Path, via: str | Sequence[str], out: str | Path | None = None, text: str | None = None, **options: Any
) -> Augmented:
    """Write a table again with a new column aug_N for each entry of `via`.

    Args:
        out: the new file; by default beside the table, with "-augmented" in its name.
        text: column of the texts, if it cannot be found.
        options: options of `Augmenter`.
    """
    path = find_table(where)
    target = choose_out(path, out)
    table = TextTable(path, text)
    augmenter = Augmenter(via, **options)
    for finding in table.findings:
        augmenter.note(finding.text)
    columns = _named(augmenter(table.texts), table.names)
    table.write(target, columns)
    train = ["softmatch", "train", str(target), "--text-column", table.text, "--label-column", table.label or "COLUMN"]
    return summarize(target, table.texts, columns, augmenter.names, shlex.join(train))


def augment_source(
    source: str,
    via: str | Sequence[str],
    out: str | Path | None = None,
    data: str | Path | None = None,
    train_per_class: int | None = None,
    validation_per_class: int | None = None,
    **options: Any,
) -> Augmented:
    """Write a folder for `--data`: train.jsonl, with a new column aug_N for each entry of `via`, and test.jsonl.

    Args:
        source: name of a dataset of texts.
        out: the new folder; by default one with "-augmented" in its name, in the current folder.
        data: your copy of the dataset; by default, it is fetched from the hub.
        train_per_class: number of training texts per class, drawn at random; by default all.
        validation_per_class: number of validation texts per class, written as dev.jsonl instead of the test set.
        options: options of `Augmenter`.
    """
    folder = _choose_folder(source, out)
    numbers = {"--train-per-class": train_per_class, "--validation-per-class": validation_per_class}
    given = {option: number for option, number in numbers.items() if number is not None}
    for option, number in given.items():
        if number < 1:
            raise InputError(f"{option} {number}: it must be at least 1.")
    augmenter = Augmenter(via, **options)
    validating = validation_per_class is not None
    every = read_texts(source, None if data is None else Path(data), validating=validating)
    texts = draw(every, train_per_class, validation_per_class, augmenter.seed)
    assert texts.test is not None  # `draw` sees to it
    train: Sequence[str] = texts.train.inputs  # type: ignore[assignment]  # a dataset of texts
    other = "dev.jsonl" if validating else "test.jsonl"
    times = "once" if len(augmenter.names) == 1 else f"{len(augmenter.names)} times"
    sizes = f"{len(train):,} training texts are augmented {times}; the {len(texts.test):,} of {other} stay as they are."
    for line in (*(finding.text for finding in texts.findings), f"{source}: {sizes}"):
        augmenter.note(line)
    before = _named(texts.train.augmented, ())
    columns = _named(augmenter(train), before)
    with explained(folder), replacing(folder) as scratch:
        write_samples(scratch / "train.jsonl", {"text": train, "label": texts.train.labels, **before, **columns}, ())
        write_samples(scratch / other, {"text": texts.test.inputs, "label": texts.test.labels}, ())  # type: ignore[dict-item]
        if folder.is_dir():
            folder.rmdir()  # fails if it is no longer empty
    words = ["softmatch", "train", source, "--data", str(folder), *(str(word) for pair in given.items() for word in pair)]
    # A training set that was drawn alone has no room for the recipe's validation texts.
    recipe = [] if list(given) == ["--train-per-class"] else ["--recipe", "paper"]
    return summarize(folder, train, columns, augmenter.names, shlex.join([*words, *recipe]))


def _named(columns: Sequence[Sequence[str]], existing: Iterable[str]) -> dict[str, Sequence[str]]:
    """Columns by their names aug_N, numbered after the existing ones."""
    first = 1 + max((int(found[1]) for name in existing if (found := AUGMENTED.fullmatch(name))), default=-1)
    return {f"aug_{number}": column for number, column in enumerate(columns, first)}


def _choose_folder(source: str, out: str | Path | None) -> Path:
    if not find_source(source).texts:
        raise InputError(f"{source} has no texts to augment: give one of {', '.join(TEXTS)}, or a table of texts.")
    folder = Path(f"{source}-augmented") if out is None else expand_home(out)
    if folder.resolve() == Path.cwd():
        raise InputError(f"--out {folder} is the current folder: give a new one.")
    _refuse(folder)
    return folder


def _refuse(out: Path) -> None:
    """Raise InputError for a file or folder that exists, other than an empty folder, or cannot be written."""
    if out.is_symlink() or not out.is_dir() or any(out.iterdir()):
        refuse_existing(out)
    try:
        tempfile.TemporaryFile(dir=out.absolute().parent).close()
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror or error}. Choose another place with --out.") from error


def find_table(where: str | Path) -> Path:
    """Find the file of a table, or raise InputError."""
    path = expand_home(where)
    if path.is_dir():
        tables = sorted(each.name for each in path.iterdir() if each.is_file() and is_table(each))
        tables.sort(key=lambda name: "train" not in name.lower())  # test texts need no versions
        example = f", such as {path / tables[0]}" if tables else ""
        raise InputError(f"{where} is a folder: give one table of texts{example}.")
    if not path.is_file():
        hint = "." if path.suffix else f", and no dataset of texts of that name. {nearest(str(where), TEXTS)}"
        raise InputError(f"there is no file {where}{hint}")
    if not is_table(path):
        raise InputError(f"{path} is not a table of texts: give a .csv, .tsv, .jsonl, .parquet or .txt file.")
    return path


def choose_out(path: Path, out: str | Path | None) -> Path:
    """Choose the file to write: `out`, or one beside the table; raise InputError if it exists or cannot be written."""
    name = Path(path.name[:-3] if path.suffix.lower() == ".gz" else path.name)
    own = name.suffix.lower()
    suffix = NEW_SUFFIX.get(own, own)
    target = path.with_name(f"{name.stem}-augmented{suffix}") if out is None else expand_home(out)
    if target.suffix.lower() != suffix:
        raise InputError(f"--out {target}: a {own} table can be written as {suffix} only.")
    _refuse(target)
    return target


class TextTable:
    """A table whose texts were read, one for every row, "" where it has none. All cells, rows and columns stay as they are."""

    def __init__(self, path: Path, text: str | None = None) -> None:
        self.path, self.identity = path, identity([path])
        opened = open_table(path, Columns(text=text), need_label=False)
        self.reader, self.names, self.findings = opened.reader, opened.reader.names, opened.findings
        if opened.columns.text is None:
            raise InputError(
                f"{path}: cannot tell which column holds the texts ({', '.join(self.names)}). Choose one with --text-column."
            )
        self.text, self.label, self.texts = opened.columns.text, opened.columns.label, list[str]()
        for piece in self.reader.pieces([self.text], ROWS):
            self.texts += as_text_column(piece[self.text], str(path), self.text, len(self.texts) + 1)
        if not any(map(str.strip, self.texts)):
            raise InputError(f"{path}: column {self.text!r} has no texts. Choose another one with --text-column.")

    def write(self, out: Path, columns: Mapping[str, Sequence[str]]) -> None:
        """Write the table with further columns at its end: completely or not at all, and never over another file."""
        if identity([self.path]) != self.identity:
            raise SoftmatchError(f"{self.path} has changed since it was read. Finished texts are kept: run the command again.")
        with appearing(out) as temporary, explained(out):
            if out.suffix.lower() in (".parquet", ".pq"):
                self._write_parquet(temporary, columns)
                return
            with temporary.open("w", encoding="utf-8", errors="replace", newline="") as file:
                if out.suffix.lower() in (".csv", ".tsv"):
                    self._write_delimited(file, columns, "," if out.suffix.lower() == ".csv" else "\t")
                else:
                    self._write_json(file, columns)

    def _write_delimited(self, file: IO[str], columns: Mapping[str, Sequence[str]], delimiter: str) -> None:
        own = getattr(self.reader, "delimiter", "")  # a table of one column has none
        delimiter = own if own in (",", ";", "\t", "|") else delimiter
        # The csv module of Python 3.11 quotes a carriage return only where it belongs to the ends of lines.
        lines = SimpleNamespace(write=lambda row: file.write(row.removesuffix("\r\n") + "\n"))
        rows = csv.writer(lines, delimiter=delimiter, lineterminator="\r\n")
        rows.writerow([*self.names, *columns])
        pieces = self.reader.pieces(self.names, ROWS)
        given = chain.from_iterable(zip(*(piece[name] for name in self.names), strict=True) for piece in pieces)
        rows.writerows([*old, *new] for old, new in zip(given, zip(*columns.values(), strict=True), strict=True))

    def _write_json(self, file: IO[str], columns: Mapping[str, Sequence[str]]) -> None:
        """Objects stay as they are written, to the last digit: the new keys are put before the closing brace."""
        lines = (line for line in read_lines(self.path) if line.strip())
        rows: Iterable[str] = chain([first := next(lines)], lines)
        if first.lstrip().startswith("["):
            rows = (json.dumps(row, ensure_ascii=False) for row in json.loads("".join(rows)))
        for row, made in zip(rows, zip(*columns.values(), strict=True), strict=True):
            rest = row.strip()[:-1].rstrip()
            added = json.dumps(dict(zip(columns, made, strict=True)), ensure_ascii=False)[1:]
            file.write(f"{rest}{'' if rest == '{' else ', '}{added}\n")

    def _write_parquet(self, path: Path, columns: Mapping[str, Sequence[str]]) -> None:
        import pyarrow as pa
        import pyarrow.parquet

        with pa.parquet.ParquetFile(self.path) as given:
            schema, start = given.schema_arrow, 0
            for name in columns:
                schema = schema.append(pa.field(name, pa.string()))
            with pa.parquet.ParquetWriter(path, schema) as writer:
                for batch in given.iter_batches():
                    stop = start + batch.num_rows
                    new = [pa.array(column[start:stop], pa.string()) for column in columns.values()]
                    writer.write_batch(pa.record_batch([*batch.columns, *new], schema=schema))
                    start = stop
