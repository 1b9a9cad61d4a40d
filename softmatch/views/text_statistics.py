"""Word replacement after UDA (Xie et al. 2020): statistics of all texts, the probability that a word is replaced, whole texts."""

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

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
    def from_weights(cls, idf: Tensor, words: Tensor, weights: Tensor) -> "WordStatistics":
        """Replacements drawn from `words` (K,) in proportion to float64 weights (K,); all equally likely if every weight is 0."""
        if not bool(weights.any()):
            weights = torch.ones_like(weights)
        upper, lower = _columns((weights / weights.mean()).tolist())
        return cls(idf, torch.stack([words, words[lower]]), upper)

    def to(self, device: torch.device) -> "WordStatistics":
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
    size = int(items.max()) + 1 if items.numel() else 0
    total, texts = torch.zeros(2, size, dtype=torch.int64)
    for some in torch.split(positions, ROWS):  # a copy of all of them may not fit into memory
        ordered = items[some].sort(1).values
        new = torch.ones_like(ordered, dtype=torch.bool)
        new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        total += torch.bincount(ordered.flatten(), minlength=size)
        texts += torch.bincount(ordered[new], minlength=size)
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


CHANGED, DROPPED, SWAPPED = 0.4, 0.25, 0.1
"""Share of words that are changed; share of these that are dropped; share of words that are swapped with the next."""
COMMON = 0.1
"""Least number of texts with a replacement, relative to the most common word."""
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|[^\s\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")
"""Text between spaces; in Chinese and Japanese, which have none, a character."""
CORE = re.compile(r"\w(?:.*\w)?", re.DOTALL)
"""A word without the punctuation around it."""
MARKUP = re.compile(r"[&;<>=/\\@#_{}|\[\]]|\A(?:amp|apos|br|gt|lt|nbsp|quot)\Z")


def change_words(texts: Sequence[str], seed: int = 0) -> list[str]:
    """Make a changed version of each text, by a variant of UDA's TF-IDF-based word replacement (Xie et al. 2020).

    A word is changed with the probability of `replacement_chances`, p = 0.4. A changed word is dropped (one in four) or replaced
    by a word w′ with probability in proportion to n(w′)·(max idf − idf(w′)), where n(w′) is its number in all texts. w′ is in at
    least a tenth as many texts as the most common word, and is not a number or markup such as "39;s" or "lt;b&gt"; if all words
    are, w′ is any word. Then each word is swapped with the next one with probability 0.1. Words are compared in lower case and
    without the punctuation around them, which stays in place but goes with a dropped word; spaces and line breaks stay.

    UDA neither drops nor swaps, and draws w′ in proportion to max S − S, S = n·idf: for a real vocabulary, mostly rare words,
    names above all, which say more about another class than what they replace (benchmarks/LOG.md).

    Args:
        seed: another seed makes other versions. A version depends on the seed, the text and the words of all texts, but not on
            the order of the texts.
    """
    vocabulary = _Vocabulary(texts)
    made = {text: vocabulary.change(text, random.Random(f"{seed}/{text}")) for text in dict.fromkeys(texts)}
    return [made[text] for text in texts]


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation."""
    return [core.lower() for word in WORD.findall(text) if (core := _core(word))]


class _Vocabulary:
    """Numbers and statistics of the words of all texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        total, holding, number = Counter[str](), Counter[str](), 0
        for text in texts:
            words = words_of(text)
            total.update(words)
            holding.update(set(words))
            number += bool(words)
        self.names = sorted(total)
        self.numbers = {name: place for place, name in enumerate(self.names)}
        counts, documents = (torch.tensor([each[name] for name in self.names], dtype=torch.int64) for each in (total, holding))
        idf = inverse_frequencies(documents, number)
        fitting = [not MARKUP.search(name) and 2 * sum(map(str.isdigit, name)) < len(name) for name in self.names]
        fit = torch.tensor(fitting, dtype=torch.bool)
        common = fit & (documents >= COMMON * (documents * fit).max()) if bool(fit.any()) else ~fit
        replacements = common.nonzero()[:, 0]
        rarest = max(idf[:-1].tolist(), default=0.0)
        weights = (counts * (rarest - idf[:-1]))[replacements]
        self.statistics = WordStatistics.from_weights(idf, replacements, weights)

    def change(self, text: str, draws: random.Random) -> str:
        words, gaps = WORD.findall(text), WORD.split(text)
        places = [place for place, word in enumerate(words) if _core(word)]
        if not places:
            return text
        drawn = [(draws.random(), draws.random(), draws.random()) for _ in places]
        others = self.statistics.words_at(torch.tensor([even for _, _, even in drawn], dtype=torch.float64)).tolist()
        ids = torch.tensor([[self.numbers[_core(words[place]).lower()] for place in places]])
        chances = replacement_chances(self.statistics.scores(ids), torch.ones_like(ids, dtype=torch.bool), CHANGED)[0].tolist()
        dropped = set[int]()
        for place, chance, (chosen, drop, _), other in zip(places, chances, drawn, others, strict=True):
            if chosen < chance and drop < DROPPED:
                dropped.add(place)
            elif chosen < chance:
                new = self.names[other]
                capital = _core(words[place])[0].isupper()
                words[place] = _with_core(words[place], new[0].upper() + new[1:] if capital else new)
        for place, after in pairwise([place for place in places if place not in dropped]):
            if draws.random() < SWAPPED:
                one, other = _core(words[place]), _core(words[after])
                words[place], words[after] = _with_core(words[place], other), _with_core(words[after], one)
        parts = [gaps[0]]
        for place, word in enumerate(words):
            if place not in dropped:
                parts += [word, gaps[place + 1]]
            else:  # the larger of the gaps around a dropped word stays
                parts[-1] = max(parts[-1], gaps[place + 1], key=lambda gap: ("\n" in gap, len(gap)))
        return "".join(parts).strip(" ") if dropped else "".join(parts)


def _core(word: str) -> str:
    found = CORE.search(word)
    return found[0] if found else ""


def _with_core(word: str, core: str) -> str:
    """The punctuation of one word around another."""
    before, _, after = word.partition(_core(word))
    return before + core + after
