"""Columns of augmented texts: each different sentence or text is made once, and cached as soon as it is finished."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from softmatch.augmenting.makers import Entry, Maker, OwnFunction, parse_via
from softmatch.augmenting.sentences import Parts, put_together
from softmatch.augmenting.version_cache import open_cache
from softmatch.augmenting.worker_pool import make_batches
from softmatch.errors import InputError
from softmatch.seeds import derive
from softmatch.views.text_statistics import change_words


def augment_texts(texts: Sequence[str], via: str | Sequence[str], **options: Any) -> list[list[str]]:
    """Make a column for each entry of `via`, with a version of every text; the options are those of `Augmenter`."""
    return Augmenter(via, **options)(texts)


@dataclass
class Augmenter:
    """Makes columns of augmented texts; raises InputError for anything that cannot work, before any version is made.

    A version is empty if its text is, or if nothing could be made of it. Versions are cached at once by content: after an
    interruption, the same call resumes. In a program of your own, several processes need the usual
    `if __name__ == "__main__":` around the call.
    """

    via: str | Sequence[str]  # comma-separated entries, one for each column: see docs/augmenting.md
    language: str = "en"  # language of the texts
    temperature: float = 0.9  # sampling temperature of translations, as in UDA (Xie et al. 2020); 0: the models' own search
    seed: int = 0
    batch: int = 32  # number of sentences or texts in a batch
    device: str = "auto"  # device for models: auto, cpu, cuda, cuda:1, mps
    processes: int = 1  # number of worker processes; each loads its own copy of the models
    progress: Callable[[str, str, int, int, int], None] = lambda *reported: (
        None
    )  # entry, "sentences" or "texts", done, total, cached
    note: Callable[[str], None] = lambda text: None  # findings about a file or dataset, before anything is made

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature < float("inf"):
            raise InputError(f"--temperature {self.temperature}: it must be 0 or more, such as 0.9.")
        for name, number in (("--batch", self.batch), ("--processes", self.processes)):
            if number < 1:
                raise InputError(f"{name} {number}: it must be at least 1.")
        entries = parse_via(self.via, self.language, sampled=self.temperature > 0)
        self.names = [entry.name for entry in entries]
        self.makers = {entry: self._find_maker(entry) for entry in entries}

    def _find_maker(self, entry: Entry) -> Maker | None:
        """Find the maker of a column; None for words, which need no model."""
        if entry.kind == "words":
            return None
        if entry.kind == "function":
            return OwnFunction.find(entry.name)
        from softmatch.augmenting.translation import BackTranslation  # imports torch and transformers

        return BackTranslation.find(*entry.models, self.temperature, derive(self.seed, entry.number), self.batch, self.device)

    def __call__(self, texts: Sequence[str]) -> list[list[str]]:
        """Make a column for each entry, with a version of every text."""
        columns = list[list[str]]()
        for entry, maker in self.makers.items():
            report = partial(self.progress, entry.name, "texts" if maker is None else maker.unit)
            if maker is not None:
                columns.append(self._make(texts, maker, report))
                continue
            report(0, len(texts), 0)
            columns.append(change_words(texts, derive(self.seed, entry.number)))
            report(len(texts), len(texts), 0)
        return columns

    def _make(self, texts: Sequence[str], maker: Maker, report: Callable[[int, int, int], None]) -> list[str]:
        """Make a column from cached and new versions.

        Batches are formed by length from all units, cached or not, so that a resumed run translates a unit in the same batch.
        """
        parts = {text: maker.split(text) for text in dict.fromkeys(texts)}
        units = sorted(set(chain.from_iterable(each[1::2] for each in parts.values())), key=lambda unit: (len(unit), unit))
        with open_cache(maker.fingerprint) as cache:
            made = cache.find(units)
            cached = len(made)
            batches = [units[start : start + self.batch] for start in range(0, len(units), self.batch)]
            left = [missing for each in batches if (missing := [unit for unit in each if unit not in made])]
            random.Random(0).shuffle(left)  # long and short ones mixed, to estimate the remaining time
            report(cached, len(units), cached)
            with closing(make_batches(maker, left, self.processes)) as finished:
                for batch, versions in finished:
                    new = dict(zip(batch, map(_writable, versions), strict=True))
                    cache.add(new)
                    made |= new
                    report(len(made), len(units), cached)
        whole = {text: put_together(each, made) if _has_version(each, made) else "" for text, each in parts.items()}
        return [whole[text] for text in texts]


def _has_version(parts: Parts, made: Mapping[str, str]) -> bool:
    """Return whether a unit of a text has a version, or the text has no units."""
    return len(parts) == 1 or any(made[unit].strip() for unit in parts[1::2])


def _writable(text: str) -> str:
    """Remove what no text file can hold: NUL and lone surrogates."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
