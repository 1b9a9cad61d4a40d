"""Word replacement after UDA (Xie et al. 2020): word statistics of all texts, and the probability that a word is replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from softmatch.errors import InputError

ROWS = 8192
STEP = 2.0**-20
"""Idf are multiples of it: sums of them are exact, and independent of the order and number of rows."""


@dataclass(frozen=True)
class WordStatistics:
    """Statistics of N texts.

    Attributes:
        idf: float64 (V + 1,) log(N / number of texts with the token); the last entry is for all other ids.
        words: (2, K) ids of replacements in K equally likely columns: a draw takes the upper id of a column or the lower one.
        upper: float64 (K,) probability of the upper id of each column (Walker's alias method: constant time per draw).
    """

    idf: Tensor
    words: Tensor
    upper: Tensor

    @classmethod
    def from_weights(cls, idf: Tensor, words: Tensor, weights: Tensor) -> WordStatistics:
        """Replacements drawn from `words` (K,) in proportion to float64 weights (K,); all equally likely if every weight is 0."""
        if not bool(weights.any()):
            weights = torch.ones_like(weights)
        upper, lower = _columns((weights / weights.mean()).tolist())
        return cls(idf, torch.stack([words, words[lower]]), upper)

    def to(self, device: torch.device) -> WordStatistics:
        if self.idf.device == device:
            return self
        return WordStatistics(self.idf.to(device), self.words.to(device), self.upper.to(device))

    def idf_of(self, ids: Tensor) -> Tensor:
        return self.idf[ids.clamp(max=len(self.idf) - 1)]

    def scores(self, ids: Tensor) -> Tensor:
        """(B, L) number of each token in its own text, times its idf."""
        return _counts(ids) * self.idf_of(ids)

    def words_at(self, even: Tensor) -> Tensor:
        """Replacements for random numbers that are uniform in [0, 1)."""
        places = even * len(self.upper)
        columns = places.long().clamp_(max=len(self.upper) - 1)
        return self.words.flatten()[columns + len(self.upper) * (places - columns >= self.upper[columns])]


def replacement_chances(scores: Tensor, starts: Tensor, share: float) -> Tensor:
    """(B, L) probability that each word is replaced: share · (max_j t_j − t_i) / mean_j (max_k t_k − t_j), for scores t.

    The word with the largest score is never replaced, and none is where all scores are equal. A value above 1 means certainty.

    Args:
        scores: t (B, L), 0 for tokens that are not words.
        starts: (B, L) true at the first token of every word.
    """
    gaps = torch.where(starts, scores.amax(1, keepdim=True) - scores, 0.0)
    total = gaps.sum(1, keepdim=True).clamp_min(torch.finfo(gaps.dtype).tiny)  # only where all gaps are 0
    return share * starts.sum(1, keepdim=True) * gaps / total


def inverse_frequencies(texts: Tensor, number: int) -> Tensor:
    """Idf (V + 1,) for V tokens that are in `texts` (V,) of `number` texts; the last entry is for all other tokens."""
    idf = torch.log(max(number, 1) / pad(texts, (0, 1)).clamp_min(1).double())
    return (idf / STEP).round() * STEP


def word_statistics(items: Tensor, positions: Tensor, special: Sequence[int], continues: Tensor | None = None) -> WordStatistics:
    """Statistics of the texts at these positions of token ids (N, L).

    Replacements are drawn in proportion to max S − S(w), S(w) = number of w in all texts · idf.

    Args:
        special: ids that are not words, the padding included: they replace nothing.
        continues: for each id, whether it continues a word: these replace nothing either.
    """
    total = texts = torch.zeros(0, dtype=torch.int64)
    for some in torch.split(positions, ROWS):  # a copy of all of them may not fit into memory
        ordered = items[some].sort(1).values
        new = torch.ones_like(ordered, dtype=torch.bool)
        new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        total = _sum(total, torch.bincount(ordered.flatten()))
        texts = _sum(texts, torch.bincount(ordered[new]))
    words = total > 0
    words[[number for number in special if number < len(words)]] = False
    if continues is not None and bool((words & ~continues[: len(words)]).any()):
        words &= ~continues[: len(words)]
    found = words.nonzero()[:, 0]
    if not len(found):
        raise InputError("replace: the training texts have no words. Leave it out.")
    idf = inverse_frequencies(texts, len(positions))
    scores = (total * idf[:-1])[found]
    return WordStatistics.from_weights(idf, found, scores.max() - scores)


def _counts(ids: Tensor) -> Tensor:
    """(B, L) number of each token in its own text."""
    ordered, places = ids.sort(1)
    new = torch.zeros_like(ids)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    run = new.cumsum(1)
    counts = torch.zeros_like(ids).scatter_add_(1, run, torch.ones_like(ids)).gather(1, run)
    return torch.empty_like(ids).scatter_(1, places, counts)


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
    return torch.tensor(weights, dtype=torch.float64), torch.tensor(lower, dtype=torch.int64)


def _sum(first: Tensor, second: Tensor) -> Tensor:
    """Sum of counts that may be of different lengths."""
    size = max(len(first), len(second))
    return pad(first, (0, size - len(first))) + pad(second, (0, size - len(second)))
