"""Views of texts, which are token ids: words are hidden, none of them in ω and a share in Ω."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from softmatch.errors import InputError
from softmatch.views.rows import cut


class TextViews:
    """ω(x) hides each word with the probability w and Ω(x) with s; the medium view has the mean of both.

    A hidden word is replaced by the mask, or taken out where there is none. One word always stays, and what is no word always
    does. With w = 0 a weak view is the text itself: the dropout of pretrained networks still makes two of them differ.

    Args:
        pad: the id that fills up texts, on the right.
        mask: the id that stands for a hidden word; None: there is none.
        special: ids that are no words: start, end, padding, mask.
        weak, strong: w and s.
    """

    kind = "text"

    def __init__(
        self, pad: int, mask: int | None = None, special: Sequence[int] = (), weak: float = 0.0, strong: float = 0.15
    ) -> None:
        for name, share in (("weak", weak), ("strong", strong)):
            if not isinstance(share, int | float) or isinstance(share, bool) or not 0 <= share < 1:
                raise InputError(f"{name} must be a share of words from 0 to below 1, not {share!r}.")
        self.pad, self.mask, self.special = pad, mask, tuple(special)
        self.weak_share, self.strong_share = weak, strong

    def plain(self, items: Tensor) -> Tensor:
        return items

    def weak(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._hidden(items, self.weak_share, generator, part)

    def medium(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._hidden(items, (self.weak_share + self.strong_share) / 2.0, generator, part)

    def strong(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._hidden(items, self.strong_share, generator, part)

    def _hidden(self, items: Tensor, share: float, generator: Generator, part: slice | None) -> Tensor:
        items, rows = cut(items, part)
        if not share:
            return items
        draw = torch.rand((rows.number, *items.shape[1:]), generator=generator)[rows.part].to(items.device, non_blocking=True)
        words = ~torch.isin(items, torch.tensor([self.pad, *self.special], dtype=items.dtype, device=items.device))
        draw = torch.where(words, draw, -1.0)
        kept = torch.zeros_like(words).scatter_(1, draw.argmax(1, keepdim=True), True)
        chosen = words & (draw < share) & ~kept
        if self.mask is not None:
            return items.masked_fill(chosen, self.mask)
        order = torch.argsort((chosen | (items == self.pad)).to(torch.uint8), dim=1, stable=True)  # what stays moves to the left
        return items.masked_fill(chosen, self.pad).gather(1, order)

    def settings(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "pad": self.pad,
            "mask": self.mask,
            "special": list(self.special),
            "weak": self.weak_share,
            "strong": self.strong_share,
        }
