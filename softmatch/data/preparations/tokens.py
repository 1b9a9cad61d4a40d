"""Texts as token ids, for a pretrained encoder that is trained further (extra `text`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softmatch.data.preparations.text_inputs import as_texts, stored_text
from softmatch.data.records import InputKind, Inputs
from softmatch.encoders.backbones import Tokenizer, load_tokenizer, padded
from softmatch.encoders.encoder_folder import find_encoder, read_text_settings
from softmatch.errors import InputError

__all__ = ["TokenPreparation", "fit_tokens"]

MOST_TOKENS = 128
TEXTS = 4096
"""Texts at a time: the output of a tokenizer takes far more memory than the ids."""


class TokenPreparation:
    """Texts → int32 token ids (n, L), padded on the right. Its tokenizer is saved with the model: no encoder is needed again.

    Args:
        column: name of the texts' column.
        encoder: whose tokenizer it is.
        tokenizer: texts to ids.
        length: L; what is longer is cut off.
        lower: put texts into lower case first.
    """

    takes: InputKind = "text"

    def __init__(self, column: str, encoder: str, tokenizer: Tokenizer, length: int, lower: bool) -> None:
        self.columns = (column,)
        self.encoder, self.tokenizer, self.length, self.lower = encoder, tokenizer, length, lower
        self._ready: list[tuple[list[str], Tensor]] = []

    @classmethod
    def from_saved(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> TokenPreparation:
        """Invert `settings` and `tensors`."""
        try:
            rules = stored_text(tensors["tokenizer"])
            tokenizer = Tokenizer.from_saved(rules, settings["pad"], settings["mask"], settings["special"])
            return cls(settings["column"], settings["encoder"], tokenizer, settings["length"], settings["lower"])
        except (KeyError, UnicodeDecodeError) as error:
            raise InputError(f"the saved preparation of texts is damaged: {type(error).__name__} {error}.") from error

    def __call__(self, inputs: Inputs) -> Tensor:
        texts = as_texts(inputs)
        for place, (known, items) in enumerate(self._ready):
            if known == texts:
                del self._ready[place]
                return items
        items, start = torch.empty((len(texts), self.length), dtype=torch.int32), 0
        for ids in self._ids(texts):
            items[start : start + len(ids)] = padded(ids, self.tokenizer.pad, self.length)
            start += len(ids)
        return items

    def _ids(self, texts: Sequence[str]) -> Iterator[list[list[int]]]:
        for start in range(0, len(texts), TEXTS):
            some = texts[start : start + TEXTS]
            yield self.tokenizer([text.lower() for text in some] if self.lower else some, self.length)

    @property
    def view_options(self) -> dict[str, Any]:
        """Give the options of `TextViews` that depend on the tokens."""
        return {"pad": self.tokenizer.pad, "mask": self.tokenizer.mask, "special": list(self.tokenizer.special)}

    def settings(self) -> dict[str, Any]:
        rest = {"encoder": self.encoder, "length": self.length, "lower": self.lower}
        return {"kind": "tokens", "column": self.columns[0], **rest, **self.view_options}

    def tensors(self) -> dict[str, Tensor]:
        return {"tokenizer": torch.from_numpy(np.frombuffer(self.tokenizer.rules.to_str().encode(), np.uint8).copy())}

    def describe(self) -> str:
        return f"up to {self.length} tokens of the pretrained encoder {self.encoder}"


def fit_tokens(columns: Sequence[Sequence[str]], column: str, encoder: str, most: int = MOST_TOKENS) -> TokenPreparation:
    """Fit the preparation of an encoder in a folder or on the hub: up to as many tokens as the longest text has.

    The ids are kept until the preparation is called with the same texts: everything is tokenised once.

    Args:
        columns: all texts that are trained on, and each column of their augmented versions.
        column: name of that of the texts.
        most: tokens that are kept of a text, and never more than the encoder takes.
    """
    folder = find_encoder(encoder)
    reading = read_text_settings(folder, most)
    found = TokenPreparation(column, encoder, load_tokenizer(folder), reading.length, reading.lower)
    parts = [[padded(ids, found.tokenizer.pad).int() for ids in found._ids(texts)] for texts in columns]
    found.length = max((part.shape[1] for each in parts for part in each), default=1)
    for texts in columns:
        found._ready.append((list(texts), _joined(parts.pop(0), len(texts), found.length, found.tokenizer.pad)))
    return found


def _joined(parts: Sequence[Tensor], number: int, length: int, pad: int) -> Tensor:
    """Join pieces of different widths in one tensor."""
    items, start = torch.full((number, length), pad, dtype=torch.int32), 0
    for part in parts:
        items[start : start + len(part), : part.shape[1]] = part
        start += len(part)
    return items
