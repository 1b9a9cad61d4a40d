"""Which rows of a batch a view is made of."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Rows(NamedTuple):
    """The rows `part` of a batch of `number`. Random numbers are drawn for the whole batch: any part of it then gets its own."""

    number: int
    part: slice = slice(None)


def cut(items: Tensor, part: slice | None) -> tuple[Tensor, Rows]:
    """The items of a part of the batch, all of them without one, and which they are."""
    return (items, Rows(len(items))) if part is None else (items[part], Rows(len(items), part))
