"""Words in a batch of token ids: which tokens are words, and which pieces form one word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from softmatch.views.rows import Rows

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

    def ordered(self, order: Tensor) -> Words:
        """The tokens in another order (B, L)."""
        group = None if self.group is None else self.group.gather(1, order)
        return Words(self.ids.gather(1, order), self.are.gather(1, order), self.pad, group)

    def without(self, chosen: Tensor) -> Words:
        """Without the chosen tokens (B, L): the rest moves to the left."""
        order = torch.argsort((chosen | (self.ids == self.pad)).to(torch.uint8), dim=1, stable=True)
        return replace(self, ids=self.ids.masked_fill(chosen, self.pad), are=self.are & ~chosen).ordered(order)


def word_table(special: Sequence[int]) -> Tensor:
    """Table of ids that are words: all but the special ones. The last entry is for all ids that follow."""
    found = torch.ones(max(special) + 2, dtype=torch.bool)
    found[list(special)] = False
    return found


def find_words(ids: Tensor, pad: int, table: Tensor, continues: Tensor | None = None) -> Words:
    """Find the words in token ids (B, L).

    Args:
        table: for each id, whether it is a word (`word_table`).
        continues: for each id, whether it continues the word before it (`find_continuing`); None: no token does.
    """
    are = table[ids.clamp(max=len(table) - 1)]
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
