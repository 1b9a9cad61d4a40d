"""Errors that a user can act on; the command line prints them without a traceback."""

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

SHOWN = 200
"""Longest wrong value in a message, in characters."""


class SoftmatchError(Exception):
    """Base of all errors caused by the input or the environment of a user."""


class InputError(SoftmatchError, ValueError):
    """A value, key, file or tensor that cannot be used."""


class TrainingError(SoftmatchError, RuntimeError):
    """Training failed; the message names the step, what is saved and what to try."""


class OutOfMemory(TrainingError):  # noqa: N818  # says what happened
    """A step does not fit into memory."""


class LoadingError(TrainingError):
    """A process that loads data failed."""


class ProcessLost(TrainingError):  # noqa: N818  # says what happened
    """Another of the processes that train together has ended."""


FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130
"""Exit codes of the command line, in addition to `STOPPED`."""
STOPPED = 75
"""Exit code of a run that was stopped, has saved its state and can be resumed; EX_TEMPFAIL of sysexits.h."""


HEARD: list[int] = []
"""Signals that the command has received. Libraries drop a KeyboardInterrupt now and then (in a destructor, in a callback)."""


class Stopped(KeyboardInterrupt):
    """Training was stopped by a signal and has saved its state. Not an Exception: nothing went wrong."""


EXIT_CODES: dict[type[BaseException], int] = {InputError: WRONG_USE, Stopped: STOPPED, KeyboardInterrupt: INTERRUPTED}
"""Exit codes other than `FAILED`, by error."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return 'Did you mean …?' with the known name closest to `name`, or all known names where none is close."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.55)
    return f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(names)}."


def first_line(error: Exception) -> str:
    """First line of an error's message, or the error's type if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def explain(error: "ValidationError") -> str:
    """Describe the first mistake: which setting, its value, and what is needed."""
    first = error.errors(include_url=False)[0]
    key, given = ".".join(str(part) for part in first["loc"]), repr(first["input"])
    given = given if len(given) <= SHOWN else f"{given[:SHOWN]}…"
    return f"{key} = {given}: {first['msg'][0].lower()}{first['msg'][1:]}."
