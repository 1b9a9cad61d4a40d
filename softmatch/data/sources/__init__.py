"""SOURCES: every named source, with what it is in one line and the settings that suit it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from softmatch.data.examples import Examples
from softmatch.data.sources import embedded, fetch, open_texts
from softmatch.data.sources.image_datasets import PUBLISHED
from softmatch.data.sources.text_datasets import TEXTS
from softmatch.errors import InputError, nearest


@dataclass(frozen=True)
class Source:
    """A source of examples.

    Attributes:
        load: (seed, where) → Examples. Sources of fixed data ignore the seed; `where` is the user's copy of the data, if
            one is given.
        defaults: settings (of `Config`) that differ from the general defaults.
        texts: what it holds are texts, which `text_reading.read_texts` gives as they stand there; `load` makes vectors of them.
    """

    name: str
    summary: str
    load: Callable[[int, Path | None], Examples]
    defaults: Mapping[str, Any]
    texts: bool = False


SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source("digits", "1,797 real handwritten digits of 8×8 pixels (scikit-learn)", embedded.load_digits, embedded.DIGITS),
        Source("two-moons", "the paper's figure 1: two interleaved half circles", embedded.load_two_moons, embedded.TWO_MOONS),
        *(Source(name, data.summary, partial(fetch.load, name), data.defaults) for name, data in PUBLISHED.items()),
        *(Source(name, data.summary, partial(open_texts.load, name), data.defaults, texts=True) for name, data in TEXTS.items()),
    )
}


def find_source(name: str) -> Source:
    """The source of that name, or an error that names the nearest."""
    if name not in SOURCES:
        raise InputError(f"there is no source {name!r}. {nearest(name, SOURCES)}")
    return SOURCES[name]
