"""Words in a batch of token ids, and the operations of strong views on them. One word of a text always stays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from softmatch.views.rows import Rows
from softmatch.views.text_statistics import WordStatistics, replacement_chances

SPACED = 0x590
"""Scripts before this code point (Latin, Greek, Cyrillic, …) have spaces between words."""


@dataclass(frozen=True)
class Words:
    """Token ids, and which of them may be changed.

    Attributes:
        ids: int64 (B, L).
        are: (B, L) true where the token is a word or a piece of one.
        pad: the id that fills up texts, on the right.
        group: (B, L) numbers below L, the same for all pieces of a word and different for its neighbours. None: each token is
            a word of its own.
    """

    ids: Tensor
    are: Tensor
    pad: int
    group: Tensor | None = None

    def starts(self) -> Tensor:
        """(B, L) true at the first token of every word."""
        if self.group is None:
            return self.are
        first = torch.ones_like(self.are)
        first[:, 1:] = self.group[:, 1:] != self.group[:, :-1]
        return self.are & first

    def spread(self, values: Tensor) -> Tensor:
        """Values (B, L) in which all pieces of a word have the value of the first."""
        return values if self.group is None else values.gather(1, self.group)

    def ordered(self, order: Tensor) -> "Words":
        """The tokens in another order (B, L)."""
        group = None if self.group is None else self.group.gather(1, order)
        return Words(self.ids.gather(1, order), self.are.gather(1, order), self.pad, group)

    def without(self, chosen: Tensor) -> "Words":
        """Without the chosen tokens (B, L): the rest moves to the left."""
        order = torch.argsort((chosen | (self.ids == self.pad)).to(torch.uint8), dim=1, stable=True)
        return replace(self, ids=self.ids.masked_fill(chosen, self.pad), are=self.are & ~chosen).ordered(order)


def find_words(ids: Tensor, pad: int, special: Sequence[int], continues: Tensor | None = None) -> Words:
    """Find the words in token ids (B, L).

    Args:
        continues: for each id, whether it continues the word before it (`find_continuing`); None: no token does.
    """
    are = ids != pad
    for number in special:
        are &= ids != number
    if continues is None:
        return Words(ids, are, pad)
    inner = are & continues[ids]
    inner[:, 1:] &= are[:, :-1]
    inner[:, 0] = False
    places = torch.arange(ids.shape[1], device=ids.device)
    return Words(ids, are, pad, torch.where(inner, 0, places).cummax(1).values)


def find_continuing(vocabulary: Mapping[str, int]) -> Tensor | None:
    """Table of ids that continue the word before them, found by the marks of tokenizers; None if there are no marks.

    WordPiece marks continuations ("##ing"); SentencePiece and byte-level BPE mark beginnings ("▁play", "Ġplay"). Only letters
    and digits of scripts with spaces between words continue a word: elsewhere a whole sentence would be one word.
    """
    marks = {mark: sum(token.startswith(mark) for token in vocabulary) for mark in ("##", "▁", "Ġ")}
    mark = max(marks, key=lambda each: marks[each])
    if not marks[mark]:
        return None
    last = 0x80 if mark == "Ġ" else SPACED  # bytes above are parts of any letter
    found = [False] * (max(vocabulary.values()) + 1)
    for token, number in vocabulary.items():
        rest = token.removeprefix(mark)
        found[number] = (rest != token) == (mark == "##") and rest.isalnum() and max(map(ord, rest)) < last
    return torch.tensor(found)


class Draws:
    """Random numbers for the rows of a batch: drawn for the whole batch, so that a part gets those of its rows."""

    def __init__(self, rows: Rows, generator: Generator, device: torch.device) -> None:
        self.rows, self.generator, self.device = rows, generator, device

    def __call__(self, number: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """(rows, number), uniform in [0, 1)."""
        drawn = torch.rand((self.rows.number, number), generator=self.generator, dtype=dtype)
        return drawn[self.rows.part].to(self.device, non_blocking=True)


CUT_OFF = -1
"""Id of a position that has the zero vector as its word embedding."""


def replace_words(text: Words, share: float, statistics: WordStatistics, draw: Draws) -> Words:
    """UDA's TF-IDF replacement (Xie et al. 2020): replace words that carry little information about a text.

    The probabilities are those of `replacement_chances`, with t = number in the text · idf; replacements are drawn from
    `statistics`. A word of several pieces has the largest t of them, and becomes one token.
    """
    scores = torch.where(text.are, statistics.scores(text.ids), 0.0)
    if text.group is not None:
        scores = text.spread(torch.zeros_like(scores).scatter_reduce_(1, text.group, scores, "amax"))
    starts, length = text.starts(), text.ids.shape[1]
    chosen = draw(length) < replacement_chances(scores, starts, share)
    others = statistics.words_at(draw(length, torch.float64))
    replaced = replace(text, ids=torch.where(chosen, others, text.ids))
    if text.group is None:
        return replaced
    # Before words are swapped, the number of a group is the place of its first piece, which holds the choice.
    return replaced.without(text.are & ~starts & text.spread(chosen))


def swap_words(text: Words, share: float, draw: Draws) -> Words:
    """Swap a share of the words with a neighbour, in disjoint pairs.

    The pairs are words 1–2, 3–4, … or 2–3, 4–5, …, each alternative with probability ½; a pair is swapped with probability
    share · n / (n − 1), at most 1, which is the given share of n words. Words separated by a special token are not swapped.
    """
    starts, width = text.starts(), text.ids.shape[1]
    number = starts.cumsum(1) - 1  # of the word; other tokens have that of the word before and stay behind it
    words = starts.sum(1, keepdim=True)
    shifted = number + (draw(1) < 0.5)
    pair, right = shifted.clamp_min(0) // 2, shifted % 2 == 1
    whole = starts & right
    whole[:, 1:] &= text.are[:, :-1]
    whole[:, 0] = False
    pairs = torch.zeros((len(starts), width + 1), dtype=torch.bool, device=starts.device)  # the last is for words without a pair
    pairs.scatter_(1, torch.where(whole, pair, width), True)
    exchanged = pairs[:, :width] & (draw(width) < share * words / (words - 1).clamp_min(1))
    moved = text.are & exchanged.gather(1, pair)
    return text.ordered(torch.argsort(number + torch.where(moved, torch.where(right, -1, 1), 0), dim=1, stable=True))


def drop_words(text: Words, share: float, draw: Draws) -> Words:
    """Remove each word with this probability."""
    return text.without(_choose(text, share, draw))


def hide_words(text: Words, share: float, mask: int | None, draw: Draws) -> Words:
    """Replace each word, all of its pieces, by the mask with this probability; remove it if there is no mask."""
    if mask is None:
        return drop_words(text, share, draw)
    return replace(text, ids=text.ids.masked_fill(_choose(text, share, draw), mask))


def cut_span(text: Words, share: float, mask: int | None, draw: Draws) -> Words:
    """Cut off a span of words in the space of embeddings (Shen et al. 2020), where they keep their places.

    The span has ⌊share · n + u⌋ of n words, u uniform in [0, 1): the share on average, and never all of them. Every span of
    this length is equally likely. It spares the last words that no mask hides.
    """
    starts = text.starts()
    number, words = starts.cumsum(1) - 1, starts.sum(1, keepdim=True)
    length, place = torch.split(draw(2, torch.float64), 1, 1)
    length = torch.minimum((share * words + length).long(), (words - 1).clamp_min(0))
    begin = (place * (words - length + 1)).long()
    inside = text.are & (number >= begin) & (number < begin + length)
    seen = text.are if mask is None else text.are & (text.ids != mask)
    inside &= ~seen | (seen & ~inside).any(1, keepdim=True)
    return replace(text, ids=text.ids.masked_fill(inside, CUT_OFF))


def _choose(text: Words, share: float, draw: Draws) -> Tensor:
    """(B, L), true for each word with this probability, but never for all of them."""
    drawn = torch.where(text.are, text.spread(draw(text.ids.shape[1])), -1.0)
    last = drawn.argmax(1, keepdim=True)
    places = torch.arange(drawn.shape[1], device=drawn.device)
    kept = places == last if text.group is None else text.group == text.group.gather(1, last)
    return text.are & (drawn < share) & ~kept
