"""What several runs cost together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from softmatch.planning.devices import Range
from softmatch.planning.plans import Plan


@dataclass(frozen=True)
class Total:
    """Of all methods and seeds.

    Attributes:
        price: in the unit of the price that was given; None: none was.
        storage: bytes of all run folders, and of what they share.
    """

    runs: int
    gpu_hours: Range
    price: Range | None
    storage: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON: estimates are [low, high]."""
        price = None if self.price is None else [self.price.low, self.price.high]
        hours = [self.gpu_hours.low, self.gpu_hours.high]
        return {"runs": self.runs, "gpu_hours": hours, "price": price, "storage_bytes": self.storage}


def sum_up(plans: Sequence[Plan], seeds: int, price: float | None) -> Total:
    """Each of the plans with so many seeds; features of an encoder are computed for the first run, and kept for all others.

    Args:
        price: of a GPU-hour.
    """
    hours = sum((plan.gpu_hours for plan in plans), Range(0.0, 0.0)) * seeds
    hours += plans[0].feature_hours * (1 - seeds * len(plans))
    storage = seeds * sum(sum(plan.storage.values()) for plan in plans) + sum(plans[0].shared.values())
    return Total(seeds * len(plans), hours, None if price is None else hours * price, storage)
