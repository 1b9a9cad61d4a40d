"""A function of the user's own that makes new texts of texts: any engine can be used through one."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softmatch.augmenting.sentences import Parts
from softmatch.errors import InputError
from softmatch.files.paths import expand_home
from softmatch.plugins import find_own

__all__ = ["OwnFunction"]


@dataclass(frozen=True)
class OwnFunction:
    """`file.py:name` or `module:name`; see `working.Maker`. It is given whole texts, different ones, some at a time."""

    name: str
    fingerprint: str
    what = "texts"

    @classmethod
    def find(cls, name: str) -> OwnFunction:
        """The function of that name; its file is run.

        Raises:
            InputError: there is none, or it cannot be called.
        """
        try:
            function = find_own(name)
        except InputError as error:
            raise InputError(f"--via {name}: {error}") from error
        if not callable(function):
            raise InputError(f"--via {name}: {type(function).__name__}, not a function of a list of texts.")
        content = hashlib.sha256(name.rpartition(":")[2].encode())
        content.update(_source(function, name))
        return cls(name, content.hexdigest())

    def split(self, text: str) -> Parts:
        """The text, and the spaces around it."""
        bare = text.strip()
        if not bare:
            return [text]
        before, _, after = text.partition(bare)
        return [before, bare, after]

    def load(self, worker: int = 0, threads: int | None = None) -> Callable[[Sequence[str]], list[str]]:
        """The function, with a check of what it gives."""
        function = find_own(self.name)

        def make(texts: Sequence[str]) -> list[str]:
            try:
                found = function(list(texts))
            except InputError:
                raise
            except (Exception, SystemExit) as error:  # the user's own code
                raise InputError(f"--via {self.name} failed on {len(texts)} texts: {type(error).__name__}: {error}") from error
            return _checked(found, len(texts), self.name)

        return make


def _source(function: Any, name: str) -> bytes:
    """The file that a function is written in: when it is changed, what it has made before is not used any more."""
    try:
        return Path(inspect.getfile(function)).read_bytes()
    except (TypeError, OSError):  # of an object, or of the interpreter itself
        place = expand_home(name.rpartition(":")[0])
        return place.read_bytes() if place.suffix == ".py" else name.encode()


def _checked(found: Any, number: int, name: str) -> list[str]:
    if isinstance(found, str) or not isinstance(found, Sequence):
        raise InputError(
            f"--via {name} gave {type(found).__name__}, not a list of texts: it must give one for each that it is given."
        )
    if len(found) != number:
        raise InputError(f"--via {name} gave {len(found)} texts for {number}: it must give one for each, in the same order.")
    strange = next((each for each in found if not isinstance(each, str)), None)
    if strange is not None:
        raise InputError(f"--via {name} gave {type(strange).__name__} in its list, not a text: it must give texts only.")
    return list(found)
