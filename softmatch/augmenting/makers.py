"""Entries of `--via`, and functions of your own among them."""

import hashlib
import inspect
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from softmatch.augmenting.sentences import Parts, around
from softmatch.errors import InputError
from softmatch.plugins import find_own

CODE = re.compile(r"[a-z]{2,3}")
WMT19 = ({"en", "de"}, {"en", "ru"})
"""Language pairs of Facebook's WMT19 models, which made the paper's back-translations."""
WMT19_ID, OPUS_ID = "facebook/wmt19-{}-{}", "Helsinki-NLP/opus-mt-{}-{}"
KINDS = "a language (de, ru, fr …), two translation models as FORTH+BACK, a function of your own as file.py:name, or words"

Make = Callable[[Sequence[str]], list[str]]


class Maker(Protocol):
    """Makes versions of units, which are "sentences" or "texts".

    `fingerprint` is a digest of everything that decides the result. `split` puts units at odd places, and what stays as it is at
    even places. `load` loads the models.
    """

    unit: str

    @property
    def fingerprint(self) -> str: ...

    def split(self, text: str) -> Parts: ...

    def load(self) -> Make: ...


@dataclass(frozen=True)
class Entry:
    """An entry of `--via`, which makes one column."""

    name: str
    number: int  # of the same entries before it: each has its own random stream
    models: tuple[str, str] | None = None  # folders or hub ids, forth and back; None for words and functions


def parse_via(via: str | Sequence[str], language: str = "en", sampled: bool = True) -> list[Entry]:
    """Parse one or several comma-separated lists of entries.

    Args:
        language: language of the texts.
        sampled: translations are sampled at random, so that the same models can be used more than once.
    """
    names = [name.strip() for each in ([via] if isinstance(via, str) else via) for name in each.split(",") if name.strip()]
    if not names:
        raise InputError(f"--via is empty: give {KINDS}.")
    if not CODE.fullmatch(language):
        raise InputError(f"--language {language}: give the code of the language of the texts, such as en.")
    seen, entries = Counter[str](), list[Entry]()
    for name in names:
        models = _find_models(name, language)
        if seen[name] and name != "words" and not (models and sampled):
            raise InputError(f"--via names {name} twice, which would make the same column again: remove one.")
        entries.append(Entry(name, seen[name], models))
        seen[name] += 1
    return entries


def _find_models(name: str, language: str) -> tuple[str, str] | None:
    if "+" in name:
        forth, _, back = (part.strip() for part in name.partition("+"))
        if not forth or not back or "+" in back:
            raise InputError(f"--via {name}: give two models as FORTH+BACK, each a folder or an id of the Hugging Face hub.")
        return forth, back
    if name == "words" or ":" in name:
        return None
    if not CODE.fullmatch(name):
        raise InputError(f"--via {name}: it must be {KINDS}.")
    if name == language:
        raise InputError(f"--via {name} is the language of the texts (--language {language}): give another one.")
    form = WMT19_ID if {name, language} in WMT19 else OPUS_ID
    return form.format(language, name), form.format(name, language)


@dataclass(frozen=True)
class OwnFunction:
    """A `Maker` that calls the user's `file.py:name` or `module:name` with lists of different texts."""

    name: str
    fingerprint: str
    unit = "texts"

    @classmethod
    def find(cls, name: str) -> "OwnFunction":
        """Find the function; this runs its file. After a change of the file, its cached results are not used any more."""
        place, _, attribute = name.rpartition(":")
        try:
            function = find_own(name)
        except InputError as error:
            raise InputError(f"--via {name}: {error}") from error
        if not callable(function):
            raise InputError(f"--via {name}: {attribute} is not a function, but of type {type(function).__name__}.")
        try:
            source = Path(inspect.getfile(function)).read_bytes()
        except (TypeError, OSError):  # an object, or built into the interpreter
            path = Path(place).expanduser()
            source = path.read_bytes() if path.suffix == ".py" else place.encode()
        return cls(name, hashlib.sha256(attribute.encode() + source).hexdigest())

    def split(self, text: str) -> Parts:
        return around(text) if text.strip() else [text]

    def load(self) -> Make:
        function = find_own(self.name)

        def make(texts: Sequence[str]) -> list[str]:
            try:
                found = function(list(texts))
            except (Exception, SystemExit) as error:  # the user's own code
                raise InputError(f"--via {self.name} failed on {len(texts)} texts: {type(error).__name__}: {error}") from error
            if wrong := _describe_wrong(found, len(texts)):
                raise InputError(f"--via {self.name} returned {wrong}: it must return one text for each, in a list.")
            return list(found)

        return make


def _describe_wrong(found: Any, number: int) -> str:
    if isinstance(found, str) or not isinstance(found, Sequence):
        return type(found).__name__
    if len(found) != number:
        return f"{len(found)} texts for {number}"
    return next((f"a list with {type(each).__name__} in it" for each in found if not isinstance(each, str)), "")
