"""Batches of texts of similar lengths, which then need little padding; the batch of a step still follows from the step alone."""

from __future__ import annotations

import torch
from torch import Tensor

from softmatch.data.batches import Sampler
from softmatch.seeds import stream

__all__ = ["LengthSampler", "text_lengths"]


def text_lengths(items: Tensor, pad: int) -> Tensor:
    """Tokens of each text (N,), of token ids (N, L) that are filled up with `pad`."""
    return (items != pad).sum(1)


class LengthSampler(Sampler):
    """As `Sampler` an endless row of reshuffled epochs, but with similar lengths in a batch.

    An epoch's shuffle is cut into windows of `buckets` batches. A window is sorted by length, those of equal length stay as
    they were drawn, and is cut into batches. These and the samples in each come in random order. Every sample is drawn once in
    each epoch. The batch that ends one epoch and begins the next is filled up with samples of any length.

    Args:
        lengths: of the samples (N,).
        buckets: batches in a window; more make batches of more similar lengths, and samples meet fewer others.
    """

    def __init__(self, lengths: Tensor, batch_size: int, seed: int, buckets: int) -> None:
        super().__init__(len(lengths), batch_size, seed)
        self.lengths, self.buckets = lengths.cpu(), buckets

    def _epoch(self, epoch: int) -> Tensor:
        if epoch not in self._epochs:
            self._epochs[epoch] = self._by_length(super()._epoch(epoch), epoch)
        return self._epochs[epoch]

    def _by_length(self, shuffled: Tensor, epoch: int) -> Tensor:
        """Everything between the first and the last border of a batch in this epoch, a window at a time."""
        generator = stream(self.seed, "lengths", epoch)
        before = min(-epoch * self.size % self.batch_size, self.size)
        within = (self.size - before) // self.batch_size * self.batch_size
        first, middle, last = torch.split(shuffled, [before, within, self.size - before - within])
        parts = [first]
        for window in torch.split(middle, self.buckets * self.batch_size) if within else ():
            batches = window[torch.argsort(self.lengths[window], stable=True)].view(-1, self.batch_size)
            within_batch = torch.rand(batches.shape, generator=generator).argsort(1)  # else one process would get all long ones
            batches = batches.gather(1, within_batch)
            parts.append(batches[torch.randperm(len(batches), generator=generator)].flatten())
        return torch.cat([*parts, last])
