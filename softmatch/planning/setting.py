"""A run to plan: complete settings, and the sizes of data that need not be here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, cast

import torch

from softmatch.config import Config, merge
from softmatch.data.defaults import suitable
from softmatch.data.examples import Examples
from softmatch.data.preparations.images import LIMIT
from softmatch.data.preparations.text_preparations import MOST_TOKENS
from softmatch.data.sources import Source, find_source
from softmatch.data.sources.image_datasets import PUBLISHED
from softmatch.data.sources.text_datasets import TEXTS
from softmatch.encoders.model_folder import read_json
from softmatch.errors import InputError
from softmatch.files.paths import expand_home
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
"""Training and test samples, as each data set was published."""
LABELED, FILES, IMAGENET_CLASSES = {"stl10": 5000}, {"imagenet": 144_300_000_000}, 1000
"""Samples with a label, where not all have one; bytes of data sets that stay in their files (ILSVRC 2012)."""
TOKENS = {"agnews": (52.7, 92.1)}
"""Tokens of a text, and of the longest of 16, by BERT's uncased vocabulary. Measured (benchmarks/results/plan.md)."""
DIRECTIONS, MOST_LABELS = 256, 10**6
"""Features of a text by TF-IDF; most labels of a plan."""


class EncoderSizes(NamedTuple):
    """Sizes of a transformer encoder built like BERT; positions: most tokens of a text."""

    layers: int
    width: int
    inner: int
    heads: int
    words: int
    positions: int


ENCODERS: Mapping[str, EncoderSizes] = {
    "google-bert/bert-base-uncased": EncoderSizes(12, 768, 3072, 12, 30522, 512),
    "google-bert/bert-large-uncased": EncoderSizes(24, 1024, 4096, 16, 30522, 512),
    "sentence-transformers/all-MiniLM-L6-v2": EncoderSizes(6, 384, 1536, 12, 30522, 512),
}
KEYS = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "vocab_size", "max_position_embeddings")


def encoder_sizes(name: str) -> EncoderSizes:
    """Sizes of a known encoder, or from the config.json in its folder."""
    if name in ENCODERS:
        return ENCODERS[name]
    found = read_json(expand_home(name), "config.json")
    missing = [key for key in KEYS if not (isinstance(found.get(key), int) and found[key] > 0)]
    if missing:
        advice = f"Give the folder of one built like BERT or one of {', '.join(ENCODERS)}, or use softmatch train … --dry-run."
        raise InputError(f"The sizes of the encoder {name!r} are not known: its config.json has no {missing[0]}. {advice}")
    return EncoderSizes(*(found[key] for key in KEYS))


class Own(NamedTuple):
    """Data of which only sizes are known; shape is (channels, side, side), (features,) or (tokens,)."""

    kind: Kind
    number: int
    shape: tuple[int, ...]
    classes: int
    tested: int = 0


@dataclass(frozen=True)
class Data:
    """Sizes of data.

    Attributes:
        train, labeled, tested: samples in the training files, those of them with a label, and samples in a test set.
        own: they are a user's own, and all labels are used.
        files: bytes of items that stay in their files; None: items are held in memory.
        versions: augmented versions of each item.
        tokens: mean tokens of a text, and tokens to which a text of a batch is padded.
    """

    kind: Kind
    shape: tuple[int, ...]
    classes: int
    train: int
    labeled: int
    tested: int
    own: bool = False
    files: int | None = None
    versions: int = 0
    tokens: tuple[float, float] | None = None

    @property
    def item_bytes(self) -> int:
        """Bytes of an item in memory: uint8 images, int32 tokens, float32 vectors."""
        return prod(self.shape) * (1 if self.kind == "image" else 4)

    @property
    def held(self) -> int:
        """Bytes of all training items in memory, with their augmented versions."""
        return 0 if self.files is not None else self.train * self.item_bytes * (1 + self.versions)


class Setting(NamedTuple):
    """A run to plan."""

    source: str
    config: Config
    data: Data


def named_setting(source: str, layers: tuple[Settings, ...], device: str, where: str, tokens: int | None = None) -> Setting:
    """Setting for a source that softmatch knows by name.

    Args:
        layers: settings of a file and of the command line; later ones win.
        device: "cpu" or "cuda".
        tokens: tokens of a text, where the user knows better.
    """
    named, (train, test) = find_source(source), SIZES.get(source, (0, 0))
    given = {**merge(*layers, where=where), "device": device}
    config = complete(source, named.defaults, given, where=where)
    if named.texts:
        return _text_setting(named, config, given, where, tokens)
    if tokens is not None:
        raise InputError(f"--tokens {tokens}: {source} has no texts. Leave it out.")
    if source in PUBLISHED:
        shape, classes = PUBLISHED[source].shape, len(PUBLISHED[source].classes) or IMAGENET_CLASSES
        data = Data("image", shape, classes, train, LABELED.get(source, train), test, files=FILES.get(source))
    elif source == "two-moons":
        data = Data("vector", (2,), 2, train, train, test)
    else:
        data = Data("image", (1, 8, 8), 10, train, train, test)
    return Setting(source, config, data)


def _text_setting(named: Source, asked: Config, given: Settings, where: str, tokens: int | None) -> Setting:
    classes, (train, test) = len(TEXTS[named.name].classes), SIZES[named.name]
    kind, shape = _texts_as(asked)
    validation = classes * (asked.validation_per_class or 0)
    number = min(train - validation, classes * asked.train_per_class if asked.train_per_class else train)
    if number < 1:
        raise InputError(f"--validation-per-class {asked.validation_per_class} leaves none of {train:,} texts to train on.")
    config = _completed(named, asked, given, where, kind, shape, classes)
    lengths = _tokens(asked, TOKENS.get(named.name) if tokens is None else (tokens, tokens))
    versions = 0 if config.recipe is None else 2
    data = Data(kind, shape, classes, number, number, validation or test, versions=versions, tokens=lengths)
    return Setting(named.name, config, data)


def own_setting(own: Own, layers: tuple[Settings, ...], device: str, where: str) -> Setting:
    """Setting for data of which only sizes are known, with the defaults of a user's own data."""
    given = {**merge(*layers, where=where), "device": device}
    if any(given.get(key) is not None for key in ("recipe", "data", "imbalance")):
        raise InputError("--recipe, --data and --imbalance are for sources that softmatch knows by name: leave them out.")
    asked = complete("your data", {}, given, where=where)
    if own.kind == "image" and asked.encoder is not None:
        raise InputError("A pretrained encoder of images cannot be planned by its sizes: leave out --encoder.")
    labels, most = asked.labels or own.classes * 4, min(own.number, MOST_LABELS)
    if not own.classes <= labels <= most:
        raise InputError(f"--labels {labels}: give a number from {own.classes:,} (one per class) to {most:,}.")
    kind, shape = _texts_as(asked) if own.kind == "text" else (own.kind, own.shape)
    config = _completed(None, asked, given, where, kind, shape, own.classes)
    data = Data(kind, shape, own.classes, own.number, labels, own.tested, own=True)
    if own.kind == "text":
        data = replace(data, tokens=_tokens(asked, (own.shape[0], own.shape[0])))
    elif kind == "image" and own.number * prod(shape) > LIMIT:
        data = replace(data, files=0)
    return Setting(f"{own.number:,} {own.kind}s", config, data)


def _texts_as(config: Config) -> tuple[Kind, tuple[int, ...]]:
    """Texts become TF-IDF vectors, features of a frozen encoder, or tokens for an encoder that is trained."""
    if config.encoder is None:
        return "vector", (DIRECTIONS,)
    sizes = encoder_sizes(config.encoder)
    return ("text", (min(config.max_tokens or MOST_TOKENS, sizes.positions),)) if config.fine_tune else ("vector", (sizes.width,))


def _tokens(config: Config, known: tuple[float, float] | None) -> tuple[float, float]:
    """Tokens that are read of a text, and of a padded one; where nothing is known, the most that is read."""
    most = config.max_tokens or MOST_TOKENS
    return (most, most) if known is None else (min(known[0], most), min(known[1], most))


def _completed(
    named: Source | None, asked: Config, given: Settings, where: str, kind: Kind, shape: tuple[int, ...], classes: int
) -> Config:
    """The settings that `softmatch train` would choose for items of this kind and size."""
    encoded = SimpleNamespace(takes="text", settings=lambda: {"kind": "encoder"})
    prepared = cast(Any, encoded) if asked.encoder is not None and kind == "vector" else None
    items = torch.zeros(2, *shape, dtype=torch.float32 if kind == "vector" else torch.uint8)
    some = Examples(items, torch.tensor([0, -1]), tuple(map(str, range(classes))), kind, preparation=prepared)
    encoder = asked.encoder if asked.fine_tune else None
    defaults = suitable(some, asked.labels or classes * 4, torch.device(asked.device), encoder=encoder)
    if named is None:
        return complete("your data", defaults, given, where=where)
    return complete(named.name, {**defaults, **named.defaults}, given, where=where)
