"""Unlabelled images that are never listed: which of them belong to the pool of a split, and in which order they are drawn."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from softmatch.data.pictures import ImageFiles
from softmatch.data.shards.lanes import Lanes
from softmatch.data.shards.members import Members


class Kept:
    """Positions 0 … size − 1 without a few, in order, as a tensor of positions would be: the numbers of the others are held."""

    def __init__(self, size: int, left_out: Tensor) -> None:
        self.size, self.left_out = size, torch.unique(left_out)
        self._before = self.left_out - torch.arange(len(self.left_out))

    def __len__(self) -> int:
        return self.size - len(self.left_out)

    def __getitem__(self, chosen: Tensor) -> Tensor:
        return chosen + torch.searchsorted(self._before, chosen, right=True)


@dataclass(frozen=True)
class Streamed:
    """All images of some shards, of which the examples of a task are those with a label.

    Attributes:
        items: all of them, to be read when they are drawn.
        places: position in `items` of each example (n,).
    """

    items: ImageFiles
    places: Tensor

    def __len__(self) -> int:
        return len(self.items)

    @property
    def members(self) -> Members:
        """The images as parts of shards."""
        assert isinstance(self.items.paths, Members)
        return self.items.paths

    def pool(self, unlabeled: Tensor) -> Kept:
        """Positions of the unlabelled set: all images but the examples that a split keeps out of it.

        Args:
            unlabeled: positions of examples in the unlabelled set.
        """
        out = torch.ones(len(self.places), dtype=torch.bool)
        out[unlabeled] = False
        return Kept(len(self), self.places[out])

    def draws(self, pool: Kept, batch_size: int, seed: int) -> Lanes:
        """The order in which a pool is drawn."""
        shard_of = np.searchsorted(self.members.stops, pool.left_out.numpy(), "right")
        counts = self.members.counts - np.bincount(shard_of, minlength=len(self.members.counts))
        return Lanes(counts, batch_size, seed)
