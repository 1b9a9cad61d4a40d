"""What strong views do to the words of whole batches. One word of a text always stays."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from softmatch.views.text_statistics import WordStatistics, replacement_chances
from softmatch.views.text_words import Draws, Words

CUT_OFF = -1
"""In place of an id: the position has the zero vector as its word embedding."""


def replace_words(text: Words, share: float, statistics: WordStatistics, draw: Draws) -> Words:
    """UDA's TF-IDF replacement (Xie et al. 2020): mostly words that say little about the topic of a text are replaced.

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
    # Before words change places, the number of a group is the place of its first piece, where it was chosen.
    return replaced.without(text.are & ~starts & text.spread(chosen))


def swap_words(text: Words, share: float, draw: Draws) -> Words:
    """A share of the words change places with a neighbour, in pairs that have no word in common.

    The pairs are words 1–2, 3–4, … or 2–3, 4–5, …, either with the probability ½; each of them is exchanged with the
    probability share · n / (n − 1), at most 1: that makes the share of n words. What stands between two words keeps them apart.
    """
    starts, width = text.starts(), text.ids.shape[1]
    number = starts.cumsum(1) - 1  # of the word; what is no word has that of the word before it, and stays behind that one
    words = starts.sum(1, keepdim=True)
    shifted = number + (draw(1) < 0.5)
    pair, right = shifted.clamp_min(0) // 2, shifted % 2 == 1
    whole = starts & right
    whole[:, 1:] &= text.are[:, :-1]
    whole[:, 0] = False
    pairs = torch.zeros((len(starts), width + 1), dtype=torch.bool, device=starts.device)  # the last is for what is in no pair
    pairs.scatter_(1, torch.where(whole, pair, width), True)
    exchanged = pairs[:, :width] & (draw(width) < share * words / (words - 1).clamp_min(1))
    moved = text.are & exchanged.gather(1, pair)
    return text.ordered(torch.argsort(number + torch.where(moved, torch.where(right, -1, 1), 0), dim=1, stable=True))


def drop_words(text: Words, share: float, draw: Draws) -> Words:
    """Each word is taken out with this probability."""
    return text.without(_choose(text, share, draw))


def hide_words(text: Words, share: float, mask: int | None, draw: Draws) -> Words:
    """Each word is replaced by the mask with this probability, all of its pieces; taken out where there is no mask."""
    if mask is None:
        return drop_words(text, share, draw)
    return replace(text, ids=text.ids.masked_fill(_choose(text, share, draw), mask))


def cut_span(text: Words, share: float, mask: int | None, draw: Draws) -> Words:
    """Words that follow each other are cut off in the space of embeddings (Shen et al. 2020), where they still have a place.

    Of n words ⌊share · n + u⌋ are cut off, u even in [0, 1): the share on average, and never all of them. Every span of this
    length is equally likely. Words that no mask hides stay where they are the last ones.
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
    """(B, L) true for each word with this probability; never for all of them."""
    drawn = torch.where(text.are, text.spread(draw(text.ids.shape[1])), -1.0)
    last = drawn.argmax(1, keepdim=True)
    places = torch.arange(drawn.shape[1], device=drawn.device)
    kept = places == last if text.group is None else text.group == text.group.gather(1, last)
    return text.are & (drawn < share) & ~kept
