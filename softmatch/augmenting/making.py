"""Columns of augmented texts: of what was made before, and of what is made now and kept at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from typing import TypedDict, Unpack

from softmatch.augmenting.cache import Cache
from softmatch.augmenting.own_function import OwnFunction
from softmatch.augmenting.sentences import Parts, put_together
from softmatch.augmenting.via import Entry, parse_via
from softmatch.augmenting.words import change_words
from softmatch.augmenting.working import Maker, work
from softmatch.errors import InputError
from softmatch.seeds import derive

__all__ = ["Options", "Progress", "augment_texts", "find_entries"]

TEMPERATURE = 0.9
"""Of the draws, as in UDA (Xie et al. 2020)."""
BATCH = 32
LANGUAGE = "en"

Progress = Callable[[str, str, int, int, int], None]
"""Told of an entry of `via`: its name, what is made ("sentences" or "texts"), how many are done, of how many, and how many of
those were made before."""


class Options(TypedDict, total=False):
    """Keyword arguments of `augment_texts`."""

    language: str
    temperature: float
    seed: int
    batch: int
    device: str
    processes: int
    progress: Progress | None


def find_entries(via: str | Sequence[str], **options: Unpack[Options]) -> list[Entry]:
    """What `augment_texts` would make with these arguments, one for each column."""
    return parse_via(via, options.get("language", LANGUAGE), drawn=options.get("temperature", TEMPERATURE) > 0)


def augment_texts(
    texts: Sequence[str],
    via: str | Sequence[str],
    *,
    language: str = LANGUAGE,
    temperature: float = TEMPERATURE,
    seed: int = 0,
    batch: int = BATCH,
    device: str = "auto",
    processes: int = 1,
    progress: Progress | None = None,
) -> list[list[str]]:
    """For each entry of `via` a column with a version of every text; it is empty where the text is, or where nothing was made.

    What is made is kept at once in the cache folder, by its content: after an interruption the same call goes on where it was.
    In a program of your own, several processes need the usual `if __name__ == "__main__":` around the call.

    Args:
        via: entries separated by commas: a language, FORTH+BACK, file.py:name, words; see docs/augmenting.md.
        language: of the texts.
        temperature: of the draws when translating; 0: none, the models' own search.
        seed: of the draws.
        batch: sentences or texts at a time.
        device: for models: auto, cpu, cuda, cuda:1, mps.
        processes: that work at the same time, each with the models in its memory.

    Raises:
        InputError: before anything is made, for what cannot work.
    """
    if not 0.0 <= temperature < float("inf"):
        raise InputError(f"--temperature {temperature}: it must be 0 or more, such as 0.9.")
    for name, number in (("--batch", batch), ("--processes", processes)):
        if number < 1:
            raise InputError(f"{name} {number}: one or more are needed.")
    entries = find_entries(via, language=language, temperature=temperature)
    makers = [_maker(entry, temperature, seed, batch, device) for entry in entries]
    columns = list[list[str]]()
    for entry, maker in zip(entries, makers, strict=True):
        tell = partial(progress or _nothing, entry.name)
        if maker is None:
            tell("texts", 0, len(texts), 0)
            columns.append(change_words(texts, derive(seed, entry.number)))
            tell("texts", len(texts), len(texts), 0)
        else:
            columns.append(_column(texts, maker, batch, processes, partial(tell, maker.what)))
    return columns


def _nothing(*told: object) -> None:
    """What is told where nobody listens."""


def _maker(entry: Entry, temperature: float, seed: int, batch: int, device: str) -> Maker | None:
    """None for words, which need nothing."""
    if entry.kind == "words":
        return None
    if entry.kind == "function":
        return OwnFunction.find(entry.name)
    from softmatch.augmenting.translation import BackTranslation  # imports torch

    return BackTranslation.find(entry.name, *entry.models, temperature, derive(seed, entry.number), batch, device)


def _column(texts: Sequence[str], maker: Maker, batch: int, processes: int, tell: Callable[[int, int, int], None]) -> list[str]:
    """A version of every text, of what was made before and what is made now.

    Batches are formed of everything that is different, by length, whether it was made before or not: what a sentence is
    translated with is then the same after an interruption.
    """
    parts = {text: maker.split(text) for text in dict.fromkeys(texts)}
    units = sorted(set(chain.from_iterable(each[1::2] for each in parts.values())), key=lambda unit: (len(unit), unit))
    with Cache(maker.fingerprint) as cache:
        cache.prepare()
        made = cache.find(units)
        before = len(made)
        batches = [units[start : start + batch] for start in range(0, len(units), batch)]
        left = [missing for each in batches if (missing := [unit for unit in each if unit not in made])]
        random.Random(0).shuffle(left)  # long and short ones mixed: the time that is left can be told
        tell(before, len(units), before)
        with closing(work(maker, left, processes)) as done:
            for some, new in done:
                found = dict(zip(some, map(_writable, new), strict=True))
                cache.add(found)
                made |= found
                tell(len(made), len(units), before)
    whole = {text: put_together(each, made) if _is_new(each, made) else "" for text, each in parts.items()}
    return [whole[text] for text in texts]


def _is_new(parts: Parts, made: Mapping[str, str]) -> bool:
    """Whether anything was made of a text; it is also true of one in which there is nothing to make new."""
    units = parts[1::2]
    return not units or any(made[unit].strip() for unit in units)


def _writable(text: str) -> str:
    """Without what no file of texts holds: NUL, and halves of pairs that are one character."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
