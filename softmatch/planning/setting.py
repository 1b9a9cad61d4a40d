"""A run to plan: complete settings, and the sizes of data that need not be here."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal, NamedTuple

import torch

from softmatch.config import Config, merge
from softmatch.data.defaults import suitable
from softmatch.data.examples import UNLABELED, Examples
from softmatch.data.preparations.images import LIMIT
from softmatch.data.sources import find_source
from softmatch.errors import InputError
from softmatch.recipes import complete

Kind = Literal["image", "vector"]
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Data:
    """Sizes of data.

    Attributes:
        shape: (channels, side, side) or (features,).
        train, labeled, tested: samples in the training files, those of them with a label, and samples in a test set.
        own: they are a user's own, and all labels are used.
        files: bytes of items that stay in their files; None: items are held in memory.
    """

    kind: Kind
    shape: tuple[int, ...]
    classes: int
    train: int
    labeled: int
    tested: int
    own: bool = False
    files: int | None = None

    @property
    def item_bytes(self) -> int:
        """Bytes of an item in memory: uint8 images, float32 vectors."""
        return prod(self.shape) * (1 if self.kind == "image" else 4)

    @property
    def held(self) -> int:
        """Bytes of all training items in memory."""
        return 0 if self.files is not None else self.train * self.item_bytes


NAMED: Mapping[str, Data] = {
    "digits": Data("image", (1, 8, 8), 10, 1797, 1797, 0),
    "two-moons": Data("vector", (2,), 2, 1000, 1000, 1000),
    "cifar10": Data("image", (3, 32, 32), 10, 50_000, 50_000, 10_000),
    "cifar100": Data("image", (3, 32, 32), 100, 50_000, 50_000, 10_000),
    "svhn": Data("image", (3, 32, 32), 10, 604_388, 604_388, 26_032),
    "stl10": Data("image", (3, 96, 96), 10, 105_000, 5000, 8000),
    "imagenet": Data("image", (3, 224, 224), 1000, 1_281_167, 1_281_167, 50_000, files=144_300_000_000),
    "fashion-mnist": Data("image", (1, 28, 28), 10, 60_000, 60_000, 10_000),
}
"""Sizes of each data set as it was published; ImageNet (ILSVRC 2012) stays in its files."""
MOST_LABELS = 10**6


class Setting(NamedTuple):
    """A run to plan."""

    source: str
    config: Config
    data: Data


def named_setting(source: str, device: str, *given: Settings, where: str = "settings") -> Setting:
    """Setting for a source that softmatch knows by name.

    Args:
        device: "cpu" or "cuda".
        given: settings of a file and of the command line; later ones win.
    """
    named = find_source(source)
    config = complete(source, named.defaults, *given, {"device": device}, where=where)
    refuse_texts(source, named.texts or config.encoder is not None)
    return Setting(source, _with_precision(config), NAMED[source])


def own_setting(data: Data, device: str, *given: Settings, where: str = "settings") -> Setting:
    """Setting for data of which only sizes are known, with the settings that `softmatch train` would choose for them."""
    merged = merge(*given, {"device": device}, where=where)
    if any(merged.get(key) is not None for key in ("recipe", "data", "imbalance")):
        raise InputError("--recipe, --data and --imbalance are for sources that softmatch knows by name: leave them out.")
    asked, most = complete("your data", {}, merged, where=where), min(data.train, MOST_LABELS)
    refuse_texts("SOURCE", asked.encoder is not None)
    labels = asked.labels or data.classes * 4
    if not data.classes <= labels <= most:
        raise InputError(f"--labels {labels}: give a number from {data.classes:,} (one per class) to {most:,}.")
    items = torch.zeros(1, *data.shape, dtype=torch.float32 if data.kind == "vector" else torch.uint8)
    unlabeled = torch.tensor([UNLABELED]).expand(data.train)  # without memory for each sample
    all_items = items.expand(data.train, *data.shape)
    examples = Examples(all_items, unlabeled, tuple(map(str, range(data.classes))), data.kind)
    config = complete("your data", suitable(examples, labels, torch.device(device)), merged, where=where)
    files = 0 if data.kind == "image" and data.train * data.item_bytes > LIMIT else None
    return Setting(f"{data.train:,} {data.kind}s", _with_precision(config), replace(data, labeled=labels, own=True, files=files))


def _with_precision(config: Config) -> Config:
    """The same settings, in float32 where the machine would choose: the number format of a plan is the user's."""
    return config.model_copy(update={"precision": "float32"}) if config.precision == "auto" else config


def refuse_texts(source: str, encoded: bool) -> None:
    """Refuse texts and pretrained encoders, of which nothing is counted."""
    if encoded:
        advice = f"`softmatch train {source} … --dry-run` times a run on this machine."
        raise InputError(f"A plan of texts, or of a pretrained encoder, is not offered. {advice}")
