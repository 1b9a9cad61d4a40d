"""Records: the items of a user's source as they stand there, before anything is made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

InputKind = Literal["image", "text", "table", "array"]
Column = npt.NDArray[np.float64] | Sequence[str]
"""Of a table: numbers, NaN where one is missing, or texts as they stand there."""
Inputs = Sequence[Path] | Sequence[str] | Mapping[str, Column] | npt.NDArray[Any]
"""What the kind says: files of images, texts, the columns of a table, or numbers (n, …)."""


@dataclass(frozen=True)
class Records:
    """Consecutive items of a source.

    Attributes:
        names: what to call each item to its owner: the path of a file inside its folder, or the number of a row from 1.
        labels: cleaned text; None: unlabelled.
        augmented: of texts, further versions: for each column of them a text for each item, "" where there is none.
        versions: what these columns are called, where they have names.
    """

    kind: InputKind
    inputs: Inputs
    names: Sequence[str]
    labels: Sequence[str | None]
    augmented: Sequence[Sequence[str]] = ()
    versions: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def select(self, positions: Sequence[int]) -> Records:
        """Those at these positions."""

        def chosen(column: Sequence[Any]) -> list[Any]:
            return [column[position] for position in positions]

        return replace(
            self,
            inputs=select_inputs(self.inputs, positions),
            names=chosen(self.names),
            labels=chosen(self.labels),
            augmented=[chosen(column) for column in self.augmented],
        )


def select_inputs(inputs: Inputs, positions: Sequence[int]) -> Inputs:
    """Those at these positions, of whatever kind they are."""
    if isinstance(inputs, Mapping):
        return {name: select_inputs(column, positions) for name, column in inputs.items()}  # type: ignore[misc]  # a column in, a column out
    if isinstance(inputs, np.ndarray):
        return np.take(inputs, positions, axis=0)
    return [inputs[position] for position in positions]  # type: ignore[return-value]  # of the same kind as they were


@dataclass(frozen=True)
class Finding:
    """Something noticed about a source.

    Attributes:
        level: "stop": training cannot work; "warning": it can, but its owner should know; "note": merely said.
        text: whole sentences: what it is, where, what to do about it.
        places: files or rows it concerns, if there are more than fit into the text.
    """

    level: Literal["stop", "warning", "note"]
    text: str
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are what, as the user says; None: to be found.

    Attributes:
        unlabeled: a word that stands for "no label" in the column of labels, besides an empty cell.
        augmented: columns of augmented texts; (): none are used.
    """

    label: str | None = None
    text: str | None = None
    features: tuple[str, ...] | None = None
    unlabeled: str | None = None
    augmented: tuple[str, ...] | None = None


class Opened(Protocol):
    """A source that was found and understood as far as its outside goes.

    Attributes:
        where: to call it in messages.
        columns: as the user said or as found.
        findings: what was noticed; more may come while it is read.
        test: what the source keeps apart for testing, if anything.
    """

    where: str
    kind: InputKind
    columns: Columns
    findings: list[Finding]

    @property
    def test(self) -> Opened | None: ...

    def read(self) -> Records:
        """Everything, for training. What cannot be read is left out, and a finding."""

    def stream(self, rows: int) -> Iterator[Records]:
        """The same in pieces, for data larger than memory; labels may all be None."""
