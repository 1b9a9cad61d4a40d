"""What UDA's replacement of words must know of all texts: which words say little, and by which they are replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from softmatch.errors import InputError

ROWS = 8192
STEP = 2.0**-20
"""Idf are multiples of it: sums of them are exact, and the same in whatever order and for however many rows they are made."""


@dataclass(frozen=True)
class WordStatistics:
    """Of N texts.

    Attributes:
        idf: float64 (V + 1,) log(N / number of texts that have the token); the last one is that of all other ids.
        words: (2, K) ids that may replace others, in columns that are equally likely: the upper one, or else the lower one.
        upper: float64 (K,) probability of the upper one of a column (Walker's alias method: as quick for many words as for few).
    """

    idf: Tensor
    words: Tensor
    upper: Tensor

    def to(self, device: torch.device) -> WordStatistics:
        if self.idf.device == device:
            return self
        return WordStatistics(self.idf.to(device), self.words.to(device), self.upper.to(device))

    def idf_of(self, ids: Tensor) -> Tensor:
        return self.idf[ids.clamp(max=len(self.idf) - 1)]

    def words_at(self, even: Tensor) -> Tensor:
        """Words by their probabilities, for random numbers that are even in [0, 1)."""
        places = even * len(self.upper)
        columns = places.long().clamp_(max=len(self.upper) - 1)
        return self.words.flatten()[columns + len(self.upper) * (places - columns >= self.upper[columns])]


def word_statistics(items: Tensor, positions: Tensor, special: Sequence[int], continues: Tensor | None = None) -> WordStatistics:
    """Statistics of the texts at these positions of token ids (N, L).

    A word w replaces others in proportion to max S − S(w), S(w) = number in all texts · idf.

    Args:
        special: ids that are no words, the padding too: nothing is replaced by them.
        continues: of each id, whether it goes on with a word: nothing is replaced by these either.
    """
    total = texts = torch.zeros(0, dtype=torch.int64)
    for some in torch.split(positions, ROWS):  # a copy of all of them may not fit into memory
        ordered = items[some].sort(1).values
        new = torch.ones_like(ordered, dtype=torch.bool)
        new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        total = _sum(total, torch.bincount(ordered.flatten()))
        texts = _sum(texts, torch.bincount(ordered[new]))
    idf = torch.log(max(len(positions), 1) / pad(texts, (0, 1)).clamp_min(1).double())
    idf = (idf / STEP).round() * STEP
    words = total > 0
    words[[number for number in special if number < len(words)]] = False
    if continues is not None and bool((words & ~continues[: len(words)]).any()):
        words &= ~continues[: len(words)]
    found = words.nonzero()[:, 0]
    if not len(found):
        raise InputError("replace: the texts that are trained on have no words; leave it out.")
    scores = (total * idf[:-1])[found]
    weights = scores.max() - scores
    if not bool(weights.any()):
        weights = torch.ones_like(weights)
    upper, lower = _columns((weights / weights.mean()).tolist())
    return WordStatistics(idf, torch.stack([found, found[lower]]), upper)


def _columns(weights: list[float]) -> tuple[Tensor, Tensor]:
    """Each column's share of its own weight, and whose weight fills it up to 1. The mean of the weights is 1."""
    lower = list(range(len(weights)))
    low = [place for place in lower if weights[place] < 1.0]
    high = [place for place in lower if weights[place] >= 1.0]
    while low and high:
        small, large = low.pop(), high[-1]
        lower[small] = large
        weights[large] -= 1.0 - weights[small]
        if weights[large] < 1.0:
            low.append(high.pop())
    return torch.tensor(weights, dtype=torch.float64), torch.tensor(lower)


def _sum(first: Tensor, second: Tensor) -> Tensor:
    """Of counts of which one may have more ids."""
    size = max(len(first), len(second))
    return pad(first, (0, size - len(first))) + pad(second, (0, size - len(second)))
