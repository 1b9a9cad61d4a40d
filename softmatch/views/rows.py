"""The rows of a batch for which a view is made."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Rows(NamedTuple):
    """The rows `part` of a batch of `number`. Random numbers are drawn for the whole batch, so that any part gets its own."""

    number: int
    part: slice = slice(None)


def cut(items: Tensor, part: slice | None) -> tuple[Tensor, Rows]:
    """The items of a part of the batch (by default all) and their rows."""
    return (items, Rows(len(items))) if part is None else (items[part], Rows(len(items), part))
