"""Activations of a task's items below the trained layers of its encoder: computed once, cached on disk, read in every step."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from softmatch.data.batches import Items
from softmatch.data.loading import read_plain
from softmatch.data.pictures import ImageFiles
from softmatch.data.preparations.feature_cache import ActivationCache, content_of
from softmatch.encoders.encoder_folder import find_encoder, take_fingerprint
from softmatch.networks import ENCODER
from softmatch.training.inputs import build_views
from softmatch.training.task import Activations, Task
from softmatch.views import TextViews, Views
from softmatch.views.activation_views import ActivationViews

if TYPE_CHECKING:
    from softmatch.networks.pretrained import Pretrained

TEXTS, IMAGES = 1024, 128
"""Items whose activations are written together: the most that an interruption costs."""
AT_ONCE = 32
"""Items in one pass of the encoder."""
SAMPLED = 48
"""Number of items that the cost is estimated from."""
EVERY = 10.0
"""Seconds between two lines of progress."""


@dataclass(frozen=True)
class _Source:
    """Items of a task in a fixed order: those to train on, their augmented versions, and test items."""

    parts: tuple[Items, ...]
    pad: int | None
    workers: int | None

    @classmethod
    def of(cls, task: Task) -> "_Source":
        examples, views = task.examples, task.views
        parts = [examples.items, *([] if examples.augmented is None else [examples.augmented.flatten(0, 1)])]
        parts += [] if examples.test is None else [examples.test.items]
        return cls(tuple(parts), views.pad if isinstance(views, TextViews) else None, task.config.workers)

    def __iter__(self) -> Iterator[Tensor]:
        """Yield a piece of the items at a time."""
        size = IMAGES if self.pad is None else TEXTS
        for part in self.parts:
            yield from torch.split(part, size) if isinstance(part, Tensor) else read_plain(part, size, self.workers)

    def lengths(self, items: Tensor) -> Tensor:
        """Number of tokens of each text (n,), at least one."""
        found: Tensor = (torch.arange(1, items.shape[1] + 1) * (items != self.pad)).amax(1)
        return found.clamp_min(1)

    def by_length(self, items: Tensor, chosen: Sequence[int]) -> list[int]:
        """The chosen texts from long to short, so that a pass needs little padding; images as they are."""
        if self.pad is None:
            return list(chosen)
        lengths = self.lengths(items).tolist()
        return sorted(chosen, key=lambda at: -lengths[at])

    def contents(self, items: Tensor) -> list[bytes]:
        """Digest of each item; padding does not count."""
        if self.pad is None:
            return [content_of(item) for item in items.numpy()]
        rows = items.int().numpy()
        return [content_of(row[:length]) for row, length in zip(rows, self.lengths(items).tolist(), strict=True)]


def cache_activations(task: Task, network: "Pretrained", say: Callable[[str], None] | None = None) -> Task:
    """Compute the activations that the cache lacks, and give the task its items as rows of the cache.

    Args:
        network: network of the task; its layers that are not trained make the activations.
    """
    source, done, told = _Source.of(task), 0, time.perf_counter()
    cache, number, size = _measure_cache(task, network, source)
    if size:
        cache.require_space(size, f"--tune {task.config.tune}")
    network.to(task.device).eval()
    places, rows, contents = list[tuple[int, int]](), dict[bytes, int](), list[bytes]()
    for items in source:
        found = source.contents(items)
        lacking = {content: at for at, content in enumerate(found) if content not in rows and cache.find(content) is None}
        order = source.by_length(items, list(lacking.values()))
        made = list[npt.NDArray[Any]]()
        for part in _encode(network, task.views, items[order]):
            made += part
            if say is not None and time.perf_counter() - told > EVERY:
                told = time.perf_counter()
                say(f"activations of the encoder: {done + len(made):,} of {number:,} {task.examples.kind}s")
        if made:
            cache.add([found[at] for at in order], made)
        for content in found:
            if content not in rows and (place := cache.find(content)) is not None:
                rows[content] = len(places)
                places.append(place)
        contents += found
        done += len(items)
    return _with_rows(task, network, cache.values(), places, torch.tensor([rows[content] for content in contents]))


def sample_activations(task: Task, network: "Pretrained") -> tuple[Task, "Encoding"]:
    """Give a task to time: its items stand for a few, whose activations are in memory. Also returns the cost of all of them."""
    source = _Source.of(task)
    cache, _, size = _measure_cache(task, network, source)
    network.to(task.device).eval()
    everything = sum(map(len, source.parts))
    first = source.parts[0]
    number = min(SAMPLED, len(first))
    order = torch.arange(len(first))
    if isinstance(first, Tensor) and source.pad is not None:
        order = source.lengths(first).argsort(stable=True)
    chosen = first[order[torch.linspace(0, len(first) - 1, number).long()]]
    items = next(read_plain(chosen, number, source.workers)) if isinstance(chosen, ImageFiles) else chosen
    list(_encode(network, task.views, items[:2]))
    started = time.perf_counter()
    made = [each for part in _encode(network, task.views, items) for each in part]
    seconds, ends = time.perf_counter() - started, np.cumsum([len(each) for each in made]).tolist()
    places = [(end - len(each), len(each)) for each, end in zip(made, ends, strict=True)]
    values = np.concatenate(made).astype(np.float16)
    rows = torch.empty(everything, dtype=torch.int64)
    rows[order] = torch.arange(len(first)) * number // len(first)
    rows[len(first) :] = torch.arange(everything - len(first)) % number
    cost = Encoding(seconds * size / (2 * values.size), size, cache.folder)
    return _with_rows(task, network, values, places, rows), cost


@dataclass(frozen=True)
class Encoding:
    """Cost of the activations that are not cached yet."""

    seconds: float
    size: int
    folder: Path


def _measure_cache(task: Task, network: "Pretrained", source: _Source) -> tuple[ActivationCache, int, int]:
    """Open the cache; also returns the number of items and the bytes of those that it lacks.

    Image files are not read for that: as many as it has entries count as known.
    """
    name = task.network_name.removeprefix(ENCODER)
    maker = json.dumps([task.examples.kind, take_fingerprint(find_encoder(name)), network.last])
    trial = torch.zeros(1, *task.shape, dtype=torch.uint8 if source.pad is None else torch.int64)
    (one,) = next(_encode(network.to(task.device).eval(), task.views, trial))
    cache, number = ActivationCache(maker, one.shape[1]), sum(map(len, source.parts))
    if any(isinstance(part, ImageFiles) for part in source.parts):
        return cache, number, max(number - len(cache), 0) * 2 * one.size
    lacking = dict[bytes, int]()
    for items in source:
        lengths = [len(one)] * len(items) if source.pad is None else source.lengths(items).tolist()
        found = source.contents(items)
        lacking |= {content: length for content, length in zip(found, lengths, strict=True) if cache.find(content) is None}
    return cache, number, sum(lacking.values()) * 2 * one.shape[1]


@torch.no_grad()
def _encode(network: "Pretrained", views: Views, items: Tensor) -> Iterator[list[npt.NDArray[Any]]]:
    """Yield the activations (T, D) of a part of the items at a time."""
    device = next(network.parameters()).device
    for part in torch.split(items, AT_ONCE) if len(items) else ():
        hidden, lengths = network.below(views.plain(part.to(device)))
        yield [each[:length].float().cpu().numpy() for each, length in zip(hidden, lengths.tolist(), strict=True)]


def _with_rows(
    task: Task, network: "Pretrained", values: npt.NDArray[Any], places: Sequence[tuple[int, int]], rows: Tensor
) -> Task:
    """Give the task views of activations, and rows of them as its items."""
    starts, lengths = torch.tensor(places).T
    examples, test = task.examples, task.examples.test
    removes = examples.kind == "text"
    own = {"values": values, "starts": starts, "lengths": lengths, "grid": network.backbone.grid, "removes": removes}
    views = build_views(ActivationViews, own, task.config.views)
    versions = 0 if examples.augmented is None else examples.augmented.shape[1]
    sizes = [len(examples), versions * len(examples), 0 if test is None else len(test)]
    items, augmented, tested = (part[:, None] for part in torch.split(rows, sizes))
    found = Activations(
        plain=task.views,
        items=items,
        augmented=augmented.view(len(examples), versions, 1) if versions else None,
        test=None if test is None else tested,
    )
    return replace(task, views=views, activations=found)
