"""Tables of JSON objects: one on each line, or a list of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from softmatch.data.own.lines import read_lines
from softmatch.data.own.piece import Piece
from softmatch.data.records import Finding
from softmatch.errors import InputError

MOST_ROWS = 10_000
"""Objects in memory at a time."""


class JsonRows:
    """A file of JSON objects that has been looked through for its keys: an object may lack any of them.

    Args:
        looked: at how many objects; None: at all, since a key may occur late.

    Attributes:
        names: all keys, in the order in which they first occur.
        findings: none; what is wrong is an error.
    """

    def __init__(self, path: Path, looked: int | None = None) -> None:
        self.path = path
        self.findings: list[Finding] = []
        first = next((line.lstrip() for line in read_lines(path) if line.strip()), "")
        self.listed = self._read_list() if first.startswith("[") else None  # a list has to be read as a whole
        keys: dict[str, None] = {}
        for row in islice(self._rows(), looked):
            keys.update(dict.fromkeys(row))
        if not keys:
            raise InputError(f"{path} is empty: it must hold JSON objects, one on each line or in a list.")
        self.names = tuple(keys)

    def pieces(self, wanted: Sequence[str], rows: int) -> Iterator[Piece]:
        """The values of these keys, None where an object lacks one."""
        body = self._rows()
        while chunk := list(islice(body, min(rows, MOST_ROWS))):
            yield {name: [row.get(name) for row in chunk] for name in wanted}

    def _rows(self) -> Iterator[dict[str, Any]]:
        if self.listed is not None:
            yield from self.listed
            return
        number = 0
        for at, line in enumerate(read_lines(self.path), 1):
            if line.strip():
                number += 1
                yield self._object(_parse(line, f"{self.path}, row {number} (line {at})"), f"row {number} (line {at})")

    def _read_list(self) -> list[dict[str, Any]]:
        found = _parse("".join(read_lines(self.path)), str(self.path))
        return [self._object(row, f"row {number}") for number, row in enumerate(found, 1)]

    def _object(self, row: Any, place: str) -> dict[str, Any]:
        if not isinstance(row, dict):
            kind = {list: "list", str: "text", type(None): "null"}.get(type(row), "number")
            raise InputError(f'{self.path}, {place} is a {kind}, no object such as {{"text": "…", "label": "…"}}.')
        return row


def _parse(text: str, place: str) -> Any:
    try:
        found = json.loads(text)
        if "\\ud" in text or "\\uD" in text:  # half of a pair that is one character cannot be written anywhere: it becomes "?"
            found = json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}" if "\n" in text.strip() else f"column {error.colno}"
        raise InputError(f"{place} is not JSON: {error.msg} at {at}.") from error
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, thousands of lists within each other
        raise InputError(f"{place} cannot be read as JSON: {error}.") from error
    return found
