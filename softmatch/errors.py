"""Errors a user can act on: what was wrong, where, and what to do; the command line prints them without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

SHOWN = 200
"""Characters of a wrong value in a message."""


class SoftmatchError(Exception):
    """Base of every error that a user's input or environment causes."""


class InputError(SoftmatchError, ValueError):
    """A value, key, file or tensor that cannot be used."""


class TrainingError(SoftmatchError, RuntimeError):
    """Training cannot go on; the message names the step, what is saved and what to try."""


class OutOfMemory(TrainingError):  # noqa: N818  # says what happened
    """A step does not fit into memory."""


class LoadingError(TrainingError):
    """The processes that load data failed."""


class ProcessLost(TrainingError):  # noqa: N818  # says what happened
    """Another of the processes that train together has ended."""


FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130
"""Exit codes of the command line, in addition to `STOPPED`."""
STOPPED = 75
"""Exit code of a run that was asked to end, has saved its state and can go on; sysexits.h has it for "try again later"."""


class Stopped(KeyboardInterrupt):
    """Training was asked to end by a signal, and has saved where it was. Not an Exception: nothing went wrong."""


def nearest(name: str, known: Iterable[str]) -> str:
    """' Did you mean …?' for the known name closest to `name`, or the whole list when none is close."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.55)
    return f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(names)}."


def first_line(error: Exception) -> str:
    """First line of an error's message, or the error's type if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def explain(error: ValidationError) -> str:
    """The first mistake in words: which setting, what was given, what is wanted."""
    first = error.errors(include_url=False)[0]
    key, given = ".".join(str(part) for part in first["loc"]), repr(first["input"])
    given = given if len(given) <= SHOWN else f"{given[:SHOWN]}…"
    return f"{key} = {given}: {first['msg'][0].lower()}{first['msg'][1:]}."
