"""Infinite seeded batches of data that live on the device; the batch of a step follows from the step alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from softmatch.data.seeds import derive, stream
from softmatch.methods.base import Batch
from softmatch.views import Views


class Sampler:
    """Positions 0 … size − 1 in an endless row of reshuffled epochs, cut into batches.

    Nothing is remembered between calls but the shuffles of the epochs last used, so step t gives the same batch whether
    the run came there by itself or was resumed.
    """

    def __init__(self, size: int, batch_size: int, seed: int) -> None:
        self.size, self.batch_size, self.seed = size, batch_size, seed
        self._epochs: dict[int, Tensor] = {}

    def __call__(self, step: int) -> Tensor:
        start = step * self.batch_size
        parts, taken = [], 0
        while taken < self.batch_size:
            epoch, offset = divmod(start + taken, self.size)
            parts.append(self._epoch(epoch)[offset : offset + self.batch_size - taken])
            taken += len(parts[-1])
        return torch.cat(parts)

    def _epoch(self, epoch: int) -> Tensor:
        if epoch not in self._epochs:
            self._epochs = {e: order for e, order in self._epochs.items() if e >= epoch - 1}
            self._epochs[epoch] = torch.randperm(self.size, generator=stream(self.seed, "epoch", epoch))
        return self._epochs[epoch]


class Batches:
    """The batch of each step: labelled and unlabelled samples, in the views that the method asks for.

    Args:
        labeled_items, labels: the labelled set.
        unlabeled_items: the unlabelled set; its truth is never given to this class.
        labeled_views, unlabeled_views: names of methods of `views`.
        pool: where the unlabelled set is only a part of `unlabeled_items`, the positions of its samples in there; a part cut
            out would be a second copy in memory. `Batch.index` counts in the set, not in the items.
    """

    def __init__(
        self,
        labeled_items: Tensor,
        labels: Tensor,
        unlabeled_items: Tensor,
        views: Views,
        labeled_batch: int,
        unlabeled_batch: int,
        seed: int,
        device: torch.device,
        labeled_views: Sequence[str] = ("weak",),
        unlabeled_views: Sequence[str] = ("weak", "strong"),
        pool: Tensor | None = None,
    ) -> None:
        self.labeled_items, self.labels, self.pool = labeled_items.to(device), labels.to(device), pool
        self.unlabeled_items = unlabeled_items.to(device) if unlabeled_views else unlabeled_items
        self.views, self.seed, self.device = views, seed, device
        self.labeled_views, self.unlabeled_views = tuple(labeled_views), tuple(unlabeled_views)
        self._labeled = Sampler(len(labels), labeled_batch, derive(seed, "labeled"))
        self._unlabeled = Sampler(len(unlabeled_items if pool is None else pool), unlabeled_batch, derive(seed, "unlabeled"))

    def __call__(self, step: int) -> Batch:
        chosen = self._send(self._labeled(step))
        labels = self.labels.index_select(0, chosen)
        labeled = self._make("labeled", self.labeled_items.index_select(0, chosen), self.labeled_views, step)
        if not self.unlabeled_views:
            return Batch(labeled, labels, {}, chosen[:0])
        index = self._unlabeled(step)
        items = self.unlabeled_items.index_select(0, self._send(index if self.pool is None else self.pool[index]))
        return Batch(labeled, labels, self._make("unlabeled", items, self.unlabeled_views, step), self._send(index))

    def close(self) -> None:
        """Nothing is to be ended here; `LoadedBatches` has workers."""

    def _send(self, positions: Tensor) -> Tensor:
        return positions.to(self.device, non_blocking=True)

    def _make(self, role: str, items: Tensor, names: Sequence[str], step: int) -> dict[str, Tensor]:
        """Each view draws from a stream of its own, so a method with more views sees the same weak ones."""
        return {name: getattr(self.views, name)(items, stream(self.seed, role, name, step)) for name in names}
