"""Views of texts as token ids: ω hides few words or none, Ω changes a share of them in several ways."""

import math
from collections.abc import Sequence
from typing import Any

from torch import Generator, Tensor

from softmatch.errors import InputError
from softmatch.views import text_operations as ops
from softmatch.views.rows import check_number, cut
from softmatch.views.text_statistics import WordStatistics

SHARES = ("weak", "strong", "replace", "swap", "drop", "span")


class TextViews:
    """ω(x) hides each word with the probability w. Ω(x) replaces, swaps, drops, hides and cuts off words, in this order.

    A hidden word is replaced by the mask, or removed if there is no mask. One word always stays, as do all special tokens; after
    a removal the rest moves to the left. The medium view uses half of each share, and hides the mean of w and s.

    With w = 0 a weak view is the text itself. With all shares 0 a strong one is too, and they differ only by the dropout of the
    pretrained network, as in SimCSE (Gao et al. 2021).

    Args:
        pad: id of the padding, on the right.
        mask: id of the mask token; None: there is none.
        special: ids that are not words: start, end, padding, mask.
        weak, strong: w and s, shares of hidden words.
        replace: share of words replaced by others, mostly uninformative ones: `replace_words`, after UDA.
        swap: share of words that change places with a neighbour.
        drop: share of removed words.
        span: share of words that are cut off as one span: their ids are −1, with the zero vector as embedding.
        continues: for each id, true if it continues the previous word, so that changes apply to all pieces of a word. None: each
            token is a word.
        statistics: word statistics of the training texts, for `replace`. Like `continues`, they are not saved with a model.
    """

    kind = "text"

    def __init__(
        self,
        pad: int,
        mask: int | None = None,
        special: Sequence[int] = (),
        weak: float = 0.0,
        strong: float = 0.15,
        replace: float = 0.0,
        swap: float = 0.0,
        drop: float = 0.0,
        span: float = 0.0,
        continues: Tensor | None = None,
        statistics: WordStatistics | None = None,
    ) -> None:
        self.shares = dict(zip(SHARES, (weak, strong, replace, swap, drop, span), strict=True))
        for name, share in self.shares.items():
            check_number(name, share, "a share of words from 0 to below 1", math.nextafter(1.0, 0.0))
        for number in (pad, *(() if mask is None else (mask,)), *special):
            check_number("the id of a token", number, "a whole number from 0 to 2,147,483,647", 2**31 - 1, whole=True)
        self.pad, self.mask, self.special = pad, mask, tuple(special)
        self.continues, self.statistics = continues, statistics

    def plain(self, items: Tensor) -> Tensor:
        return items.long()

    def weak(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._changed(items, generator, part, hide=self.shares["weak"], most=0.0)

    def medium(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._changed(items, generator, part, hide=(self.shares["weak"] + self.shares["strong"]) / 2.0, most=0.5)

    def strong(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._changed(items, generator, part, hide=self.shares["strong"], most=1.0)

    def _changed(self, items: Tensor, generator: Generator, part: slice | None, hide: float, most: float) -> Tensor:
        """Hide a share `hide` of the words and apply `most` times the other shares. Nothing is drawn for a share of 0."""
        replace, swap, drop, span = (most * self.shares[name] for name in ("replace", "swap", "drop", "span"))
        items, rows = cut(items, part)
        ids = items.long()
        if not (hide or replace or swap or drop or span):
            return ids
        draw = ops.Draws(rows, generator, ids.device)
        self.continues = None if self.continues is None else self.continues.to(ids.device)
        text = ops.find_words(ids, self.pad, self.special, self.continues)
        if replace:
            if self.statistics is None:
                raise InputError(
                    "replace: views cannot replace words without statistics of the training texts, and a saved model has none. "
                    "Train from the texts, or with replace 0."
                )
            self.statistics = self.statistics.to(ids.device)
            text = ops.replace_words(text, replace, self.statistics, draw)
        if swap:
            text = ops.swap_words(text, swap, draw)
        if drop:
            text = ops.drop_words(text, drop, draw)
        if hide:
            text = ops.hide_words(text, hide, self.mask, draw)
        if span:
            text = ops.cut_span(text, span, self.mask, draw)
        return text.ids

    def settings(self) -> dict[str, Any]:
        return {"kind": self.kind, "pad": self.pad, "mask": self.mask, "special": list(self.special), **self.shares}
