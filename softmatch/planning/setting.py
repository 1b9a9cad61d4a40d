"""What is planned: complete settings, and the sizes of data that need not be here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from types import SimpleNamespace
from typing import Any, Literal, cast

import torch

from softmatch.config import Config, merge
from softmatch.data.examples import Examples
from softmatch.data.folds import FEWEST, HOLD_OUT_FROM
from softmatch.data.own.defaults import suitable
from softmatch.data.preparations.images import LIMIT
from softmatch.data.preparations.tokens import MOST_TOKENS
from softmatch.data.sources import SOURCES, Source, find_source
from softmatch.data.sources.image_datasets import PUBLISHED
from softmatch.data.sources.text_datasets import TEXTS
from softmatch.data.split import LONGEST_LIST, long_tail_counts
from softmatch.errors import InputError
from softmatch.planning.bounds import refuse_batches, refuse_labels, refuse_long_tail, refuse_sizes
from softmatch.planning.encoders import encoder_sizes
from softmatch.recipes import complete

Kind = Literal["image", "vector", "text"]
Settings = Mapping[str, Any]

SIZES: Mapping[str, tuple[int, int]] = {
    "digits": (1797, 0),
    "two-moons": (1000, 1000),
    "cifar10": (50_000, 10_000),
    "cifar100": (50_000, 10_000),
    "svhn": (604_388, 26_032),
    "stl10": (105_000, 8000),
    "imagenet": (1_281_167, 50_000),
    "fashion-mnist": (60_000, 10_000),
    "agnews": (120_000, 7600),
    "dbpedia": (560_000, 70_000),
    "imdb": (25_000, 25_000),
    "amazon-5": (3_000_000, 650_000),
    "yelp-5": (650_000, 50_000),
}
"""Samples to train on and to test on, as each data set was published."""
LABELED = {"stl10": 5000}
"""Of data sets that were published with fewer labels than samples."""
FILES = {"imagenet": 144_300_000_000}
"""Bytes of data sets that stay in their files: ILSVRC 2012's archives of training (138 GB) and validation images (6.3 GB)."""
IMAGENET_CLASSES = 1000
DIRECTIONS = 256
"""Of texts as TF-IDF, where there are texts enough."""


@dataclass(frozen=True)
class Lengths:
    """Of the texts of a source, in tokens of BERT's uncased vocabulary and in characters.

    Attributes:
        mean: tokens of a text.
        padded: tokens that the texts of a batch of 16 are filled up to.
        known: measured; otherwise the most that is read stands for both, an upper bound.
    """

    mean: float
    padded: float
    characters: float
    known: bool = True


LENGTHS = {"agnews": Lengths(52.7, 92.1, 236)}
"""Measured over 5,000 training texts (benchmarks/results/plan.md)."""
CHARACTERS_OF_A_TOKEN = 4.5
"""Of AG News: 236 characters to 52.7 tokens. For texts of which nothing else is known."""


@dataclass(frozen=True)
class Own:
    """Data of which only sizes are known.

    Attributes:
        shape: of an item: (channels, side, side), (features,), (tokens,).
        tested: samples of a test set; 0: there is none.
    """

    kind: Kind
    number: int
    shape: tuple[int, ...]
    classes: int
    tested: int = 0


@dataclass(frozen=True)
class Data:
    """Sizes of what is trained on.

    Attributes:
        train: samples in the training files.
        unlabeled: of these, those in the unlabelled set; the labelled ones are among them.
        counts: labelled samples of each class.
        tested: samples that the error is measured on.
        folds: further trainings of a cross-fit.
        evaluated: whether an error is measured at all.
        files: bytes of items that stay in their files; None: they are held in memory.
        whole: the unlabelled set is the whole training set, in its order.
        held_out: of the training set, samples that the error is measured on.
        versions: augmented ones of each item.
        lengths: of texts.
    """

    kind: Kind
    shape: tuple[int, ...]
    classes: int
    train: int
    unlabeled: int
    counts: tuple[int, ...]
    tested: int
    folds: int = 0
    evaluated: bool = True
    files: int | None = None
    whole: bool = True
    held_out: int = 0
    versions: int = 0
    lengths: Lengths | None = None

    @property
    def labeled(self) -> int:
        return sum(self.counts)

    @property
    def item_bytes(self) -> int:
        """Of an item as it is held in memory: bytes of images, int32 tokens, float32 vectors."""
        return prod(self.shape) * (1 if self.kind == "image" else 4)

    @property
    def held(self) -> int:
        """Bytes of all training items in memory, with their augmented versions; 0 where they stay in files."""
        return 0 if self.files is not None else self.train * self.item_bytes * (1 + self.versions)


@dataclass(frozen=True)
class Setting:
    """A run that could be made."""

    source: str
    config: Config
    data: Data

    @property
    def on_cpu(self) -> bool:
        """Whether it is planned for a CPU."""
        return self.config.device == "cpu"


def named_setting(source: str, layers: tuple[Settings, ...], device: str, where: str, tokens: int | None = None) -> Setting:
    """A source that softmatch knows by name.

    Args:
        layers: what the user said, in a file and on the command line; the later wins.
        device: kind of the device that is planned for: "cpu" or "cuda".
        tokens: of a text, where the user knows better.
    """
    named = find_source(source)
    given = {**merge(*layers, where=where), "device": device}
    asked = complete(source, named.defaults, given, where=where)
    if not named.texts:
        if tokens is not None:
            raise InputError(f"--tokens {tokens}: {source} has no texts. Leave it out.")
        refuse_batches(asked)
        return Setting(source, asked, _named_data(source, asked))
    refuse_sizes({"--tokens": tokens})
    classes, (train, test) = len(TEXTS[source].classes), SIZES[source]
    lengths = _lengths(asked, tokens, LENGTHS.get(source))
    kind, shape = _texts_as(asked)
    rest = train - classes * (asked.validation_per_class or 0)
    number = rest if asked.train_per_class is None else min(classes * asked.train_per_class, rest)
    if number < 1:
        raise InputError(f"--validation-per-class {asked.validation_per_class} leaves none of {train:,} texts to train on.")
    tested = classes * asked.validation_per_class if asked.validation_per_class is not None else test
    config = _completed(named, asked, given, where, kind, shape, classes)
    refuse_batches(config)
    refuse_labels(config.labels or classes * 4, number, classes)
    counts = _balanced(config.labels or classes * 4, classes)
    versions = 2 if config.recipe is not None else 0
    return Setting(source, config, Data(kind, shape, classes, number, number, counts, tested, versions=versions, lengths=lengths))


def own_setting(own: Own, layers: tuple[Settings, ...], device: str, where: str) -> Setting:
    """Data of which only sizes are known, with the defaults of a user's own data."""
    _refuse_own(own)
    source = f"{own.number:,} {own.kind}s"
    given = {**merge(*layers, where=where), "device": device}
    if given.get("recipe") is not None or given.get("data") is not None or given.get("imbalance") is not None:
        raise InputError("--recipe, --data and --imbalance are for the sources that softmatch knows by name: leave them out.")
    asked = complete("your data", {}, given, where=where)
    if own.kind == "image" and asked.encoder is not None:
        raise InputError("a pretrained encoder of images cannot be planned by its sizes: leave out --encoder.")
    kind, shape, lengths = own.kind, own.shape, None
    if own.kind == "text":
        lengths = _lengths(asked, own.shape[0], None)
        kind, shape = _texts_as(asked)
    labels = asked.labels or own.classes * 4
    if labels > own.number:
        chosen = "" if asked.labels is not None else ", four of each class unless you say otherwise"
        raise InputError(f"--labels {labels}{chosen}: there are {own.number:,} samples.")
    if labels < own.classes:
        raise InputError(f"--labels {labels}: there are {own.classes:,} classes, and each needs one.")
    refuse_sizes({"--labels": labels})
    counts = _balanced(labels, own.classes)
    config = _completed(None, asked, given, where, kind, shape, own.classes)
    refuse_batches(config)
    return Setting(source, config, replace(_own_data(own, config, counts, kind, shape), lengths=lengths))


def _refuse_own(own: Own) -> None:
    """Sizes that no data have, before anything is built of them."""
    names = {"image": ("--channels", "--side", "--side"), "vector": ("--width",), "text": ("--tokens",)}[own.kind]
    if own.classes < 2:
        raise InputError(f"--classes {own.classes}: give two classes or more.")
    if own.tested < 0:
        raise InputError(f"--test-samples {own.tested}: give 0 or more.")
    shape = dict(zip(names, own.shape, strict=True))
    refuse_sizes({f"--{own.kind}s": own.number, **shape, "--classes": own.classes, "--test-samples": own.tested or None})


def _own_data(own: Own, config: Config, counts: tuple[int, ...], kind: Kind, shape: tuple[int, ...]) -> Data:
    """How the error is measured follows from the number of labels, as `plan_evaluation` has it."""
    labeled, held_out, folds, evaluated = sum(counts), 0, 0, True
    how = config.evaluation
    if own.tested:
        pass
    elif how == "none" or (how == "auto" and labeled < FEWEST):
        evaluated = False
    elif how == "holdout" or (how == "auto" and labeled >= HOLD_OUT_FROM):
        held_out = round(config.test_fraction * labeled)
        counts = _balanced(labeled - held_out, own.classes)
    else:
        folds = config.folds
    tested = own.tested or held_out or (labeled // folds if folds else 0)
    stay = kind == "image" and own.number * prod(shape) > LIMIT
    number = own.number - held_out
    files = 0 if stay else None
    return Data(kind, shape, own.classes, own.number, number, counts, tested, folds, evaluated, files, not held_out, held_out)


def _named_data(source: str, config: Config) -> Data:
    train, test = SIZES[source]
    files = FILES.get(source)
    if source in PUBLISHED:
        shape: tuple[int, ...] = PUBLISHED[source].shape
        kind: Kind = "image"
        classes = len(PUBLISHED[source].classes) or IMAGENET_CLASSES
    else:
        kind, shape, classes = ("image", (1, 8, 8), 10) if source == "digits" else ("vector", (2,), 2)
    held_out = 0 if test else round(config.test_fraction * train)
    rest, tested = train - held_out, test or held_out
    data = Data(kind, shape, classes, train, rest, (), tested, files=files, whole=not held_out, held_out=held_out)
    if config.imbalance is None:
        refuse_labels(config.labels or classes * 4, LABELED.get(source, rest), classes)
        return replace(data, counts=_balanced(config.labels or classes * 4, classes))
    if config.largest_class_labels is None or config.largest_class_unlabeled is None:
        raise InputError(f"a long-tailed split of {source!r} needs --head-labels and --head-unlabeled.")
    counts = long_tail_counts(config.largest_class_labels, config.imbalance, classes)
    more = long_tail_counts(config.largest_class_unlabeled, config.unlabeled_imbalance or config.imbalance, classes)
    refuse_long_tail(counts, more, LABELED.get(source, rest) // classes)
    return replace(data, counts=tuple(counts), unlabeled=sum(counts) + sum(more), whole=False)


def _balanced(number: int, classes: int) -> tuple[int, ...]:
    return tuple(number // classes + (position < number % classes) for position in range(classes))


def _texts_as(config: Config) -> tuple[Kind, tuple[int, ...]]:
    """What texts become: tokens for an encoder that is trained, its features, or TF-IDF."""
    if config.encoder is None:
        return "vector", (DIRECTIONS,)
    sizes = encoder_sizes(config.encoder)
    if not config.fine_tune:
        return "vector", (sizes.width,)
    return "text", (min(config.max_tokens or MOST_TOKENS, sizes.positions),)


def _lengths(config: Config, tokens: int | None, known: Lengths | None) -> Lengths:
    most = config.max_tokens or MOST_TOKENS
    if tokens is not None:
        return Lengths(min(tokens, most), min(tokens, most), tokens * CHARACTERS_OF_A_TOKEN)
    if known is not None:
        return replace(known, mean=min(known.mean, most), padded=min(known.padded, most))
    return Lengths(most, most, most * CHARACTERS_OF_A_TOKEN, known=False)


def _completed(
    named: Source | None,
    asked: Config,
    given: Settings,
    where: str,
    kind: Kind,
    shape: tuple[int, ...],
    classes: int,
) -> Config:
    """The settings that `softmatch train` would choose, which depend on the kind and the size of the items."""
    embedded = SimpleNamespace(takes="text", settings=lambda: {"kind": "encoder"})
    number = torch.float32 if kind == "vector" else torch.uint8
    some = Examples(
        torch.zeros(2, *shape, dtype=number),
        torch.tensor([0, -1]),
        tuple(map(str, range(classes))),
        kind,
        preparation=cast(Any, embedded) if asked.encoder is not None and kind == "vector" else None,
    )
    labeled = asked.labels or classes * 4
    defaults = suitable(some, labeled, torch.device(asked.device), encoder=asked.encoder if asked.fine_tune else None)
    if named is None:
        return complete("your data", defaults, given, where=where)
    return complete(named.name, {**defaults, **named.defaults}, given, where=where)


def split_is_listed(data: Data) -> bool:
    """Whether split.json lists every position of the unlabelled set: a long row of successive ones is two numbers."""
    return not (data.whole and data.unlabeled >= LONGEST_LIST)


__all__ = ["SIZES", "SOURCES", "Data", "Lengths", "Own", "Setting", "named_setting", "own_setting", "split_is_listed"]
