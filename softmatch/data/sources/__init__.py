"""SOURCES: every named source, with a one-line summary and the settings that suit it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from softmatch.data.examples import Examples, refuse_files
from softmatch.data.sources import fetch, open_texts
from softmatch.data.sources.image_datasets import PUBLISHED
from softmatch.data.sources.open_texts import TEXTS
from softmatch.errors import InputError, nearest
from softmatch.seeds import derive

# Digits are not mirrored, and shifted by one pixel of eight into black; benchmarks/LOG.md says how this was chosen.
# Such small tensors do not gain from a second thread, and lose by it on a busy machine.
DIGITS: Mapping[str, Any] = {
    "labels": 40,
    "steps": 800,
    "labeled_batch": 40,
    "unlabeled_batch": 96,
    "batch_statistics": "joint",
    "threads": 1,
    "views": {"pad": 1, "flip": False, "reflect": False, "operations": 2},
}


def load_digits(seed: int, where: Path | None = None) -> Examples:
    """Levels 0 … 16 become bytes 0 … 255. The data are fixed: the seed is not used."""
    refuse_files("digits", where)
    from sklearn import datasets  # takes seconds to import

    data = datasets.load_digits()
    images = torch.from_numpy(data.images * (255.0 / 16.0)).round().to(torch.uint8)
    labels = torch.from_numpy(data.target).to(torch.int64)
    return Examples(images[:, None], labels, tuple("0123456789"), "image")


TWO_MOONS: Mapping[str, Any] = {
    "labels": 4,
    "steps": 2000,
    "optimizer": "adam",
    "lr": 0.03,
    "labeled_batch": 4,
    "unlabeled_batch": 128,
    "model_momentum": 0.0,
    "weight_decay": 0.0,
    "threads": 1,
    "views": {"strong_noise": 0.2},
}


def load_two_moons(seed: int, where: Path | None = None) -> Examples:
    """Draw 1,000 points to train on and 1,000 to test on, with noise 0.1; new points for every seed."""
    refuse_files("two-moons", where)
    from sklearn.datasets import make_moons

    def draw(part: str, test: Examples | None = None) -> Examples:
        points, labels = make_moons(1000, noise=0.1, random_state=derive(seed, "two-moons", part) % 2**32)
        items, numbers = torch.from_numpy(points).float(), torch.from_numpy(labels).to(torch.int64)
        return Examples(items, numbers, ("upper", "lower"), "vector", test)

    return draw("train", draw("test"))


@dataclass(frozen=True)
class Source:
    """A source of examples.

    Attributes:
        load: (seed, where) → Examples. Sources of fixed data ignore the seed; `where` is the user's copy of the data, if
            one is given.
        defaults: settings (of `Config`) that differ from the general defaults.
        texts: it holds texts, which `open_texts.read_texts` gives unchanged; `load` makes vectors of them.
    """

    name: str
    summary: str
    load: Callable[[int, Path | None], Examples]
    defaults: Mapping[str, Any]
    texts: bool = False


SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source("digits", "1,797 real handwritten digits of 8×8 pixels (scikit-learn)", load_digits, DIGITS),
        Source("two-moons", "the paper's figure 1: two interleaved half circles", load_two_moons, TWO_MOONS),
        *(Source(name, data.summary, partial(fetch.load, name), data.defaults) for name, data in PUBLISHED.items()),
        *(Source(name, data.summary, partial(open_texts.load, name), data.defaults, texts=True) for name, data in TEXTS.items()),
    )
}


def find_source(name: str) -> Source:
    """Find the source of that name; an error names the nearest."""
    if name not in SOURCES:
        raise InputError(f"there is no source {name!r}. {nearest(name, SOURCES)}")
    return SOURCES[name]
