"""Basics of all views: the rows of a batch for which a view is made, and the check of a setting."""

from typing import Any, NamedTuple

from torch import Tensor

from softmatch.errors import InputError


class Rows(NamedTuple):
    """The rows `part` of a batch of `number`. Random numbers are drawn for the whole batch, so that any part gets its own."""

    number: int
    part: slice = slice(None)


def cut(items: Tensor, part: slice | None) -> tuple[Tensor, Rows]:
    """The items of a part of the batch (by default all) and their rows."""
    return (items, Rows(len(items))) if part is None else (items[part], Rows(len(items), part))


def check_number(name: str, value: Any, what: str, most: float, whole: bool = False) -> None:
    """Raise InputError unless a setting, perhaps of unknown origin, is a number from 0 to `most`, which `what` describes."""
    if not isinstance(value, int if whole else int | float) or isinstance(value, bool) or not 0 <= value <= most:
        raise InputError(f"{name} must be {what}, not {repr(value)[:99]}.")
