"""Augmented texts without any model: words that say little are replaced or dropped, and neighbours swapped."""

from __future__ import annotations

import math
import random
import re
from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise

from softmatch.seeds import derive

__all__ = ["change_words", "words_of"]

CHANGED = 0.4
"""p: the share of words that is changed."""
DROPPED = 0.25
"""Of the words that are changed; the others are replaced."""
SWAPPED = 0.1
"""Of the words, with the one after them."""
COMMON = 0.1
"""Of the number of texts that the most common word stands in: a word must stand in so many to replace others."""
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|[^\s\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")
"""What stands between spaces; in Chinese and Japanese, which have none, a character."""
CORE = re.compile(r"\w(?:.*\w)?", re.DOTALL)
"""Of a word: without the punctuation around it."""
MARKUP = re.compile(r"[&;<>=/\\@#_{}|\[\]]|\A(?:amp|apos|br|gt|lt|nbsp|quot)\Z")
"""What is no word: one with such a sign in it, or a name that stands between them."""


def change_words(texts: Sequence[str], seed: int = 0) -> list[str]:
    """A changed version of each text, by the rule of UDA (Xie et al. 2020, appendix on TF-IDF based word replacement).

    Of the N texts, idf(w) = log(N / number of texts with w). In a text x of |x| words, t(w) = (number of w in x)/|x| · idf(w),
    C is the largest t(w) in it and Z the mean of C − t(w) over its words. A word is changed with the probability
    min(p·(C − t(w))/Z, 1), so that the most telling word never is; where all are equally telling, none is. A changed word is
    dropped (one in four) or replaced, by w′ with a probability in proportion to n(w′)·(max idf − idf(w′)), n(w′) being its number
    in all texts. w′ is common: it stands in at least a tenth as many texts as the most common word. It is no number, and no
    markup such as "39;s" or "lt;b&gt"; where all are, w′ is any. Then each word is swapped with the next one with the probability
    0.1. p = 0.4. Words are compared in lower case without the punctuation around them. That stays where it is, but goes with a
    dropped word; spaces and lines stay.

    UDA neither drops nor swaps, and draws w′ in proportion to max S − S, S = n·idf. Of a real vocabulary that is almost even,
    and most words of it are rare, names above all, which say more about another class than what they replace
    (benchmarks/LOG.md).

    Args:
        seed: another one makes another version. What becomes of a text depends on it, on the text, and on which words the texts
            have, but not on their order.
    """
    return _Vocabulary(texts).change_all(texts, seed)


def words_of(text: str) -> list[str]:
    """Its words in lower case, without punctuation."""
    return [core.lower() for word in WORD.findall(text) if (core := _core(word))]


class _Vocabulary:
    """Of all texts: how telling words are, and which are drawn how often.

    Attributes:
        words: that others are replaced by.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        total, holding, number = Counter[str](), Counter[str](), 0
        for text in texts:
            words = words_of(text)
            total.update(words)
            holding.update(set(words))
            number += bool(words)
        self.idf = {word: math.log(number / count) for word, count in holding.items()}
        common = COMMON * max((count for word, count in holding.items() if _replaces(word)), default=0)
        self.words = sorted(word for word, count in holding.items() if count >= common and _replaces(word)) or sorted(total)
        rarest = max(self.idf.values(), default=0.0)
        weights = [total[word] * (rarest - self.idf[word]) for word in self.words]
        self.limits = list(accumulate(weights if any(weights) else [1.0] * len(weights)))

    def draw(self, even: float) -> str:
        """A word by its probability, for a number in [0, 1)."""
        return self.words[min(bisect(self.limits, even * self.limits[-1]), len(self.words) - 1)]

    def change_all(self, texts: Sequence[str], seed: int) -> list[str]:
        made = {text: self.change(text, random.Random(derive(seed, "words", text))) for text in dict.fromkeys(texts)}
        return [made[text] for text in texts]

    def change(self, text: str, draws: random.Random) -> str:
        words = WORD.findall(text)
        gaps = WORD.split(text)
        places = [place for place, word in enumerate(words) if _core(word)]
        dropped = set[int]()
        for place, share in zip(places, self._shares([_core(words[place]).lower() for place in places]), strict=True):
            chosen, drop, even = draws.random() < share, draws.random() < DROPPED, draws.random()
            if chosen and drop:
                dropped.add(place)
            elif chosen:
                words[place] = _with_core(words[place], _like(_core(words[place]), self.draw(even)))
        kept = [place for place in places if place not in dropped]
        for place, after in pairwise(kept):
            if draws.random() < SWAPPED:
                one, other = _core(words[place]), _core(words[after])
                words[place], words[after] = _with_core(words[place], other), _with_core(words[after], one)
        parts = [gaps[0]]
        for place, word in enumerate(words):
            if place not in dropped:
                parts += [word, gaps[place + 1]]
            else:  # of the spaces around a dropped word the larger one stays
                parts[-1] = max(parts[-1], gaps[place + 1], key=lambda gap: ("\n" in gap, len(gap)))
        return "".join(parts).strip(" ") if dropped else "".join(parts)

    def _shares(self, words: Sequence[str]) -> list[float]:
        """The probability of each word of a text to be changed."""
        counts = Counter(words)
        telling = [counts[word] / len(words) * self.idf[word] for word in words]
        most = max(telling, default=0.0)
        mean = sum(most - each for each in telling) / max(len(words), 1)
        return [min(CHANGED * (most - each) / mean, 1.0) if mean else 0.0 for each in telling]


def _replaces(word: str) -> bool:
    """Whether it is a word to replace others by: neither a number nor markup."""
    return not MARKUP.search(word) and 2 * sum(map(str.isdigit, word)) < len(word)


def _core(word: str) -> str:
    found = CORE.search(word)
    return found[0] if found else ""


def _with_core(word: str, core: str) -> str:
    """The punctuation of one word around another."""
    before, _, after = word.partition(_core(word))
    return before + core + after


def _like(old: str, new: str) -> str:
    """With a capital letter where the old one has one."""
    return new[0].upper() + new[1:] if old[0].isupper() else new
