"""Records: the items of a source as it has them, before anything is made of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from softmatch.data.shards.members import Member, Members
from softmatch.errors import InputError
from softmatch.formatting import some, visible

InputKind = Literal["image", "sound", "text", "table", "array"]
Column = npt.NDArray[np.float64] | Sequence[str]
"""Column of a table: numbers, NaN where one is missing, or texts as they are."""
Inputs = Sequence[Path | Member] | Sequence[str] | Mapping[str, Column] | npt.NDArray[Any]
"""Image or sound files, texts, columns of a table, numbers (n, …), or series of different lengths (`ragged`), by the kind."""
Progress = Callable[[int, int], None]
"""Called with the number of inputs that are done, and their total."""
Piece = Mapping[str, Sequence[object] | npt.NDArray[Any]]
"""Consecutive rows by column: cells as the file has them, all columns of the same length."""


@dataclass(frozen=True)
class Grid:
    """Origin of series that were made of a table with one row per reading.

    Attributes:
        columns: columns of the values, one per channel.
        step: time between two values of a series, in seconds where the times are dates.
    """

    series: str
    time: str | None
    columns: tuple[str, ...]
    step: float


@dataclass(frozen=True)
class Records:
    """Consecutive items of a source.

    Attributes:
        names: of the items, as their owner knows them: the path of a file inside its folder, or the number of a row from 1.
        labels: cleaned text; None: unlabelled.
        augmented: further versions of texts: for each column of them a text for each item, "" where there is none.
        versions: names of these columns, where they have names.
        kept: cells of further columns, as texts, that predictions carry along.
        chosen: True for a labelled item that a model chose to be labelled: an error on it says little about other items. (): no
            item was chosen.
        grid: where the items are series made of readings, how they were made.
        pool: all images of shards, which are too many to be records; None: the records are everything.
        places: positions of the records in the pool.
    """

    kind: InputKind
    inputs: Inputs
    names: Sequence[str]
    labels: Sequence[str | None]
    augmented: Sequence[Sequence[str]] = ()
    versions: tuple[str, ...] = ()
    kept: Mapping[str, Sequence[str]] = field(default_factory=dict)
    chosen: Sequence[bool] = ()
    grid: Grid | None = None
    pool: Members | None = None
    places: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.names)

    def select(self, positions: Sequence[int]) -> "Records":
        """Take the items at these positions."""

        def chosen(column: Sequence[Any]) -> list[Any]:
            return [column[position] for position in positions]

        return replace(
            self,
            inputs=select_inputs(self.inputs, positions),
            names=chosen(self.names),
            labels=chosen(self.labels),
            augmented=[chosen(column) for column in self.augmented],
            kept={name: chosen(column) for name, column in self.kept.items()},
            chosen=chosen(self.chosen) if self.chosen else (),
            places=chosen(self.places) if self.places else (),
        )


def numbered(inputs: Inputs, kind: InputKind, labels: Sequence[str | None]) -> Records:
    """Name items by their numbers from 1, one for each label."""
    return Records(kind, inputs, [str(number) for number in range(1, len(labels) + 1)], labels)


def ragged(series: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Put series (channels, T), each with its own T, into an array of objects (n,)."""
    held = np.empty(len(series), object)
    for position, one in enumerate(series):
        held[position] = np.atleast_2d(one)
    return held


def select_inputs(inputs: Inputs, positions: Sequence[int]) -> Inputs:
    """Take the inputs at these positions, whatever their kind."""
    if isinstance(inputs, Mapping):
        return {name: select_inputs(column, positions) for name, column in inputs.items()}  # type: ignore[misc]  # a column in, a column out
    if isinstance(inputs, np.ndarray):
        return np.take(inputs, positions, axis=0)
    return [inputs[position] for position in positions]  # type: ignore[return-value]  # of the same kind as they were


class UnreadableFile(InputError):  # noqa: N818  # says what it is
    """A file that cannot be read; `reason` is the part of the message that says why."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what} cannot be read: {reason}. Replace or remove it, and start again.")
        self.reason = reason


@dataclass(frozen=True)
class Finding:
    """Something noticed about a source.

    Attributes:
        level: "stop": training cannot work; "warning": it can, but the owner should know; "note": for information.
        text: whole sentences: what it is, where, what to do about it. Control characters are shown as text.
        places: files or rows that are concerned, if there are more than fit into the text.
    """

    level: Literal["stop", "warning", "note"]
    text: str
    places: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", visible(self.text))
        object.__setattr__(self, "places", tuple(map(visible, self.places)))


def about(level: Literal["stop", "warning", "note"], text: str, places: Sequence[str], advice: str = "") -> list[Finding]:
    """Report files or rows with something in common, the first few after the text; nothing where there are none."""
    return [Finding(level, f"{text}: {some(places)}. {advice}".rstrip(), tuple(places))] if places else []


@dataclass(frozen=True)
class Columns:
    """Meaning of the columns of a table, as the user says; None: to be found.

    Attributes:
        unlabeled: a word that means "no label" in the column of labels, in addition to an empty cell.
        augmented: columns of augmented texts; (): none are used.
        kept: columns that predictions carry along.
        series: column that says which series a reading belongs to, in a table with one row per reading.
        time: column of the times of these readings.
        step: time between two values of a series, as a model knows it.
        series_rows: a table of numbers without a header has a series in each row, after its label.
    """

    label: str | None = None
    text: str | None = None
    features: tuple[str, ...] | None = None
    unlabeled: str | None = None
    augmented: tuple[str, ...] | None = None
    kept: tuple[str, ...] = ()
    series: str | None = None
    time: str | None = None
    step: float | None = None
    series_rows: bool = False


class Opened(Protocol):
    """A source that was found; its contents have not been read.

    Attributes:
        columns: as the user said or as found.
        test: the part that the source keeps for testing, if there is one.
    """

    where: str
    columns: Columns
    findings: list[Finding]

    @property
    def kind(self) -> InputKind: ...

    @property
    def test(self) -> "Opened | None": ...

    def read(self) -> Records:
        """Read everything, for training. What cannot be read is left out and reported."""

    def stream(self, rows: int) -> Iterator[Records]:
        """Give the same in pieces, for data larger than memory; labels may all be None."""


@dataclass
class Found:
    """A source whose items are all known when it is opened: arrays, or files, none of which has been read. See `Opened`."""

    where: str
    records: Records
    columns: Columns = field(default_factory=Columns)
    findings: list[Finding] = field(default_factory=list)
    test: "Found | None" = None

    @property
    def kind(self) -> InputKind:
        """Kind of the items."""
        return self.records.kind

    def read(self) -> Records:
        """Give everything."""
        return self.records

    def stream(self, rows: int) -> Iterator[Records]:
        """Give the same in pieces."""
        all_ = self.records
        for start in range(0, len(all_), rows):
            part = slice(start, start + rows)
            yield replace(all_, inputs=all_.inputs[part], names=all_.names[part], labels=all_.labels[part])  # type: ignore[index]  # no table


class TableReader(Protocol):
    """A table whose columns are known."""

    names: tuple[str, ...]
    findings: list[Finding]

    def pieces(self, wanted: Sequence[str], rows: int) -> Iterator[Piece]:
        """Give these columns, up to `rows` rows at a time; nothing where the table has no rows."""


def refuse_twice(names: Sequence[str], where: str) -> None:
    """Raise InputError for a name that two columns have."""
    seen: dict[str, int] = {}
    for position, name in enumerate(names, 1):
        if name in seen:
            raise InputError(f"{where}: columns {seen[name]} and {position} are both called {name!r}. Rename one of them.")
        seen[name] = position
