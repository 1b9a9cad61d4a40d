"""What `--via` names: languages, pairs of models, functions of the user's own, words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from softmatch.errors import InputError

__all__ = ["Entry", "parse_via"]

WORDS = "words"
CODE = re.compile(r"[a-z]{2,3}")
WMT19 = ({"en", "de"}, {"en", "ru"})
"""Languages between which there are models of Facebook's winning entry of 2019, with which the paper's texts were made."""
WMT19_ID, OPUS_ID = "facebook/wmt19-{}-{}", "Helsinki-NLP/opus-mt-{}-{}"
KINDS = (
    "a language (de, ru, fr …), FORTH+BACK with folders or hub ids of two translation models, file.py:name of a function of your "
    "own, or words"
)


@dataclass(frozen=True)
class Entry:
    """One of a list, which makes one column.

    Attributes:
        name: as the user has written it.
        kind: what it is.
        number: how many like it are before it: they draw from streams of their own.
        models: of a pair: folders or ids of the hub, forth and back.
    """

    name: str
    kind: str
    number: int = 0
    models: tuple[str, str] = ("", "")


def parse_via(via: str | Sequence[str], language: str = "en", drawn: bool = True) -> list[Entry]:
    """The entries of a list with commas between them, or of several such.

    Args:
        language: of the texts.
        drawn: whether translations are drawn at random, so that the same models can be used more than once.

    Raises:
        InputError: for what is none of them, or would make the same column twice.
    """
    listed = [via] if isinstance(via, str) else list(via)
    names = [name.strip() for each in listed for name in each.split(",") if name.strip()]
    if not names:
        raise InputError(f"--via names nothing: give {KINDS}.")
    if not CODE.fullmatch(language):
        raise InputError(f"--language {language}: give the code of the language of the texts, such as en.")
    seen, entries = Counter[str](), list[Entry]()
    for name in names:
        entry = _entry(name, language)
        if seen[name] and not (entry.kind == "words" or (entry.kind == "models" and drawn)):
            raise InputError(f"--via names {name} twice: it would make the same column again. Leave one out.")
        entries.append(Entry(entry.name, entry.kind, seen[name], entry.models))
        seen[name] += 1
    return entries


def _entry(name: str, language: str) -> Entry:
    if name == WORDS:
        return Entry(name, "words")
    if "+" in name:
        forth, _, back = name.partition("+")
        if not forth.strip() or not back.strip() or "+" in back:
            raise InputError(f"--via {name}: give two models as FORTH+BACK, each a folder or an id of the Hugging Face hub.")
        return Entry(name, "models", models=(forth.strip(), back.strip()))
    if ":" in name:
        return Entry(name, "function")
    if not CODE.fullmatch(name):
        raise InputError(f"--via {name}: it must be {KINDS}.")
    if name == language:
        raise InputError(f"--via {name}: the texts are in this language already (--language {language}). Give another.")
    form = WMT19_ID if {name, language} in WMT19 else OPUS_ID
    return Entry(name, "models", models=(form.format(language, name), form.format(name, language)))
