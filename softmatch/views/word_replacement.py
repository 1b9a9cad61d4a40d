"""Augmented texts without a model: words that say little are replaced or dropped, and neighbours swapped."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import torch

from softmatch.views.text_statistics import WordStatistics, inverse_frequencies, replacement_chances

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

    UDA neither drops nor swaps, and draws w′ in proportion to max S − S, S = n·idf. For a real vocabulary that is almost uniform,
    and most words are rare, names above all, which say more about another class than what they replace (benchmarks/LOG.md).

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
        fit = torch.tensor([_replaces(name) for name in self.names], dtype=torch.bool)
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
        chances = self.chances([_core(words[place]).lower() for place in places])
        dropped = set[int]()
        for place, chance, (chosen, drop, _), other in zip(places, chances, drawn, others, strict=True):
            if chosen < chance and drop < DROPPED:
                dropped.add(place)
            elif chosen < chance:
                words[place] = _with_core(words[place], _like(_core(words[place]), self.names[other]))
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

    def chances(self, words: Sequence[str]) -> list[float]:
        """Probability of each word of a text to be changed."""
        ids = torch.tensor([[self.numbers[word] for word in words]])
        chances = replacement_chances(self.statistics.scores(ids), torch.ones_like(ids, dtype=torch.bool), CHANGED)
        return [*chances[0].tolist()]


def _replaces(word: str) -> bool:
    """Return whether other words may be replaced by it: it is neither a number nor markup."""
    return not MARKUP.search(word) and 2 * sum(map(str.isdigit, word)) < len(word)


def _core(word: str) -> str:
    found = CORE.search(word)
    return found[0] if found else ""


def _with_core(word: str, core: str) -> str:
    """The punctuation of one word around another."""
    before, _, after = word.partition(_core(word))
    return before + core + after


def _like(old: str, new: str) -> str:
    """The new word, with a capital letter if the old one has one."""
    return new[0].upper() + new[1:] if old[0].isupper() else new
