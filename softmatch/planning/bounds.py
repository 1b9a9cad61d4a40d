"""What is refused before anything is built: sizes that no machine has, and labels that the data have not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from softmatch.config import Config
from softmatch.data.examples import Examples
from softmatch.data.split import make_split
from softmatch.errors import InputError

SAMPLES = 10**12
LARGEST: Mapping[str, int] = {
    "--images": SAMPLES,
    "--vectors": SAMPLES,
    "--texts": SAMPLES,
    "--test-samples": SAMPLES,
    "--labels": 10**7,
    "--classes": 25_000,
    "--side": 4096,
    "--channels": 3,
    "--width": 100_000,
    "--tokens": 10**6,
    "--gpus": 100_000,
    "--seeds": 10**6,
}
"""What a plan can be made for."""
BATCH, NUMBERS = 16_384, 50_000_000
"""The largest batch, and the most numbers in it: a step is tried with batches of their real size, if not with the network."""


def refuse_sizes(given: Mapping[str, int | None]) -> None:
    """Raise InputError for an option that is less than 1 or more than a plan can be made for; None: it was not given."""
    for name, value in given.items():
        if value is not None and not 1 <= value <= LARGEST[name]:
            raise InputError(f"{name} {value}: give a number from 1 to {LARGEST[name]:,}.")


def refuse_amount(name: str, value: float | None) -> None:
    """The same for a price or a speed: any number above 0."""
    if value is not None and not (value > 0 and math.isfinite(value)):
        raise InputError(f"{name} {value:g}: it must be a number of more than 0.")


def refuse_batches(config: Config, numbers: int = 1) -> None:
    """Raise InputError for batches that are too large to be tried.

    Args:
        numbers: that a row of a batch becomes: features and classes.
    """
    for name, value in (("--labeled-batch", config.labeled_batch), ("--unlabeled-batch", config.unlabeled_batch)):
        most = min(BATCH, NUMBERS // numbers)
        if value > most:
            raise InputError(f"{name} {value}: a plan is made for batches of up to {most:,} here. Give fewer.")


def refuse_labels(labels: int, samples: int, classes: int) -> None:
    """Raise InputError as `make_split` would for so many labels of samples with a label, which are taken to be balanced."""
    if labels <= samples and labels % classes == 0 and labels >= classes:
        return
    names = tuple(map(str, range(classes)))
    some = torch.arange(samples // classes * classes) % classes
    make_split(Examples(torch.zeros(len(some), 1), some, names, "vector"), labels, 0, parts=(some[:0], torch.arange(len(some))))


def refuse_long_tail(labeled: Sequence[int], more: Sequence[int], each: int) -> None:
    """Raise InputError where a class would get no label, or more samples than there are.

    Args:
        each: samples of a class, which are taken to be balanced.
    """
    if not min(labeled):
        raise InputError("a class would get no labelled sample: raise --head-labels or lower --imbalance.")
    most = max(few + rest for few, rest in zip(labeled, more, strict=True))
    if most > each:
        raise InputError(
            f"a class has {each:,} samples, {most:,} labelled and unlabelled ones are asked for: lower --head-labels or "
            "--head-unlabeled."
        )
