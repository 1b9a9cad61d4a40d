"""What making the views of a step costs a processor: operations to start, and work on every value of every view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch

from softmatch.data import Examples, Split
from softmatch.data.batches import view_method
from softmatch.planning.networks import CountedOperations
from softmatch.planning.setting import Data, Setting
from softmatch.seeds import stream
from softmatch.training.inputs import make_views

ROWS, SIDE = 64, 16
"""Of the batch that is tried: enough for every operation of RandAugment to come up."""
SECONDS_OF_A_VALUE: Mapping[str, float] = {"weak": 1.9e-9, "medium": 1.0e-8, "strong": 2.0e-8}
"""On one core: 172,751 weak and 16,564 strong views of 3×32×32 a second (benchmarks/results/views.md); medium has one of
the three operations of strong."""
SECONDS_OF_A_VECTOR_VALUE = 1.5e-8
"""On one core, of either view (benchmarks/results/plan.md)."""

READ_SECONDS = 0.005
"""Of one core for an image in a file: to decode a JPEG of 500×375, and a weak and a strong view of 224×224; measured
(benchmarks/results/plan.md)."""
READ_FROM = 128
"""Pixels of a side from which on this is said of other images: of smaller ones it would be far too much."""


def count_view_operations(setting: Setting, names: Sequence[str]) -> int:
    """Operations that the host starts to make views with these names; none where worker processes make them."""
    data = setting.data
    if data.files is not None or data.kind == "text":
        return 0
    key = repr((data.kind, data.shape, sorted(setting.config.views.items()), tuple(names)))
    if key not in _counted:
        _counted[key] = _count(data, setting.config.views, names)
    return _counted[key]


_counted: dict[str, int] = {}


def _count(data: Data, options: Mapping[str, Any], names: Sequence[str]) -> int:
    size = min(data.shape[-1], SIDE)
    shape = (data.shape[0], size, size) if data.kind == "image" else data.shape
    items = torch.zeros(ROWS, *shape, dtype=torch.uint8 if data.kind == "image" else torch.float32)
    statistics = (0.5,) * data.shape[0], (0.5,) * data.shape[0]
    some = Examples(items, torch.arange(ROWS) % 2, ("a", "b"), data.kind, statistics=statistics)
    everything = torch.arange(ROWS)
    views = make_views(some, Split(everything, everything, everything[:0], seed=0), dict(options))
    with CountedOperations() as counter:
        for name in names:
            getattr(views, view_method(name))(items, stream(0, name))
    found: int = counter.number
    return found


def view_seconds(setting: Setting, rows: Sequence[tuple[str, int]]) -> float:
    """Of one core, for views with these names, so many of each."""
    data = setting.data
    if data.files is not None or data.kind == "text":
        return 0.0
    values = prod(data.shape)
    if data.kind == "vector":
        return SECONDS_OF_A_VECTOR_VALUE * values * sum(number for _, number in rows)
    return sum(SECONDS_OF_A_VALUE[view_method(name)] * values * number for name, number in rows)
