"""A random order of a set of any size by arithmetic: no list of it is ever made, and a step's batch follows from the step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from softmatch.seeds import derive

Places = npt.NDArray[np.int64]

LANES = 16
"""Parts of a batch at most, each with samples of its own: processes that share a batch read different shards."""
WINDOW = 2
"""Shards of a lane that are mixed with each other. More mix better and are open at the same time."""
ROUNDS = 4
GOLDEN = 0x9E3779B97F4A7C15


def permute(places: Places, size: int, seed: int) -> Places:
    """Give the images of places under a random permutation of 0 … size − 1, without making a list of it.

    A Feistel network permutes the next power of two. What falls outside the set is permuted again until it is inside.
    """
    bits = max((size - 1).bit_length(), 2)
    low = np.uint64(bits // 2)
    low_mask, high_mask = np.uint64((1 << bits // 2) - 1), np.uint64((1 << bits - bits // 2) - 1)
    keys = [np.uint64((seed + number * GOLDEN) % 2**64) for number in range(1, 2 * ROUNDS + 1)]
    found, outside = places.astype(np.uint64), np.arange(len(places))
    while len(outside):
        high_part, low_part = found[outside] >> low, found[outside] & low_mask
        for one, other in zip(keys[::2], keys[1::2], strict=True):
            low_part ^= _mix(high_part ^ one) & low_mask
            high_part ^= _mix(low_part ^ other) & high_mask
        found[outside] = high_part << low | low_part
        outside = outside[found[outside] >= np.uint64(size)]
    return found.astype(np.int64)


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Hash 64-bit numbers: every bit of the result depends on every bit of the number (the finaliser of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


@dataclass
class _Lane:
    """A part of each batch and the samples that it is drawn from: whole shards, but for the first and the last.

    Attributes:
        rows: of each batch.
        starts, counts: first sample of each of its pieces of shards, and their numbers of samples.
        shards: the shard of each piece.
    """

    rows: int
    starts: Places
    counts: Places
    shards: Places
    seed: int
    size: int = field(init=False)
    _epochs: dict[int, tuple[Places, Places]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.size = int(self.counts.sum())

    def draw(self, step: int) -> Iterator[Places]:
        """Give the samples of a step, in parts."""
        first, end = step * self.rows, (step + 1) * self.rows
        while first < end:
            epoch, offset = divmod(first, self.size)
            order, stops = self._epoch(epoch)
            window = int(np.searchsorted(stops, offset, "right")) // WINDOW
            start = int(stops[window * WINDOW - 1]) if window else 0
            stop = int(stops[min((window + 1) * WINDOW, len(stops)) - 1])
            number = min(end - first, stop - offset)
            inside = np.arange(offset - start, offset - start + number)
            places = start + permute(inside, stop - start, derive(self.seed, epoch, window))
            piece = np.searchsorted(stops, places, "right")
            yield self.starts[order[piece]] + places - (stops[piece] - self.counts[order[piece]])
            first += number

    def ahead(self, step: int) -> list[int]:
        """Shards that this step and those after it read: of its window and of the next one."""
        epoch, offset = divmod(step * self.rows, self.size)
        order, stops = self._epoch(epoch)
        window = int(np.searchsorted(stops, offset, "right")) // WINDOW
        pieces = order[window * WINDOW : (window + 2) * WINDOW]
        if (window + 1) * WINDOW >= len(order):
            pieces = np.concatenate([pieces, self._epoch(epoch + 1)[0][:WINDOW]])
        return list(dict.fromkeys(self.shards[pieces].tolist()))

    def _epoch(self, epoch: int) -> tuple[Places, Places]:
        """The order of the pieces in an epoch, and where each ends in it."""
        if epoch not in self._epochs:
            self._epochs = {number: known for number, known in self._epochs.items() if number >= epoch - 1}
            order = permute(np.arange(len(self.counts)), len(self.counts), derive(self.seed, epoch))
            self._epochs[epoch] = order, self.counts[order].cumsum()
        return self._epochs[epoch]


class Lanes:
    """Batches of samples 0 … N − 1 that lie in shards; see `data.batches.Sampler`, which shuffles a list of all samples.

    The rows of a batch are cut into lanes, and so are the samples, in the same proportions: each lane draws each of its samples
    once in each epoch. A lane reads its shards in a random order, `WINDOW` at a time, and their samples in a random order. The
    lanes follow from the shards and the batch, so N processes draw what one does. Memory: a few numbers for each shard.

    Args:
        counts: samples of each shard, which may differ.
    """

    def __init__(self, counts: Sequence[int] | Places, batch_size: int, seed: int) -> None:
        numbers = np.asarray(counts, dtype=np.int64)
        borders = np.concatenate([np.zeros(1, np.int64), numbers.cumsum()])
        self.size, self.batch_size, self.seed = int(borders[-1]), batch_size, seed
        lanes = min(LANES, int((numbers > 0).sum()), batch_size)
        while self.size * (batch_size // lanes) < batch_size:
            lanes -= 1
        cuts = [number * batch_size // lanes for number in range(lanes + 1)]
        self._lanes = [self._lane(borders, *pair) for pair in pairwise(cuts)]

    def _lane(self, borders: Places, first_row: int, end_row: int) -> _Lane:
        start, stop = (self.size * row // self.batch_size for row in (first_row, end_row))
        first, last = int(np.searchsorted(borders, start, "right")) - 1, int(np.searchsorted(borders, stop, "left"))
        starts, ends = borders[first:last].clip(start), borders[first + 1 : last + 1].clip(max=stop)
        full = ends > starts
        seed = derive(self.seed, "lane", first_row)
        return _Lane(end_row - first_row, starts[full], (ends - starts)[full], np.arange(first, last)[full], seed)

    def __call__(self, step: int) -> Tensor:
        return torch.from_numpy(np.concatenate([part for lane in self._lanes for part in lane.draw(step)]))

    def ahead(self, step: int, rows: range) -> list[int]:
        """Shards that these rows of the batches need from this step on, the next ones first."""
        found, row = list[int](), 0
        for lane in self._lanes:
            if row < rows.stop and row + lane.rows > rows.start:
                found += lane.ahead(step)
            row += lane.rows
        return list(dict.fromkeys(found))
