"""Graphs of trained models for other runtimes: pixels, token ids or prepared items in, calibrated probabilities out."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch.data.pictures import Picture
from softmatch.data.preparations import Preparation
from softmatch.data.preparations.encoder_features import EncoderPreparation
from softmatch.data.preparations.images import ImagePreparation
from softmatch.data.preparations.text_preparations import TokenPreparation, as_texts
from softmatch.data.records import Inputs, select_inputs
from softmatch.encoders.backbones import Tokenizer
from softmatch.encoders.encoder_folder import ImageReading, TextReading
from softmatch.networks.prediction import predict_logits
from softmatch.runs.model import Model

ITEMS, TOKENS = ("items",), ("input_ids", "attention_mask")
"""Names of a graph's inputs."""
SHORTEST = 3
"""Length of the texts that a graph is traced with, at least: shorter ones may fix the length."""


class Whole(nn.Module):
    """Items, or pixels for a frozen encoder → probabilities: encoder, normalisation, network, temperature and softmax."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        # Copies: views keep tensors, and those of an exporter's dry run have no values.
        self.network, self.views = copy.deepcopy(model.network), copy.deepcopy(model.views)
        self.temperature = model.temperature
        self.preparation = model.preparation if isinstance(model.preparation, EncoderPreparation) else None
        self.encoder = None if self.preparation is None else self.preparation.load()[0]

    def forward(self, items: Tensor) -> Tensor:
        return self.probabilities(items)

    def probabilities(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Probabilities (B, C); the mask is for a frozen encoder of texts."""
        items = inputs
        if self.preparation is not None and self.encoder is not None:
            items = self.preparation.reduce(self.preparation.encode(self.encoder, inputs, mask))
        return torch.softmax(predict_logits(self.network, self.views, items).float() / self.temperature, -1)


class WholeText(Whole):
    """Token ids (B, L) of an encoder, frozen or fine-tuned, and their mask, 0 for padding → probabilities."""

    def __init__(self, model: Model, pad: int) -> None:
        super().__init__(model)
        self.pad = pad

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:  # type: ignore[override]  # a graph has its own inputs
        given = attention_mask > 0
        first = torch.arange(input_ids.shape[1], device=input_ids.device) == 0  # a text without tokens has one, its padding
        return self.probabilities(torch.where(given, input_ids, self.pad), given | first)


@dataclass(frozen=True)
class Tokens:
    """Texts → inputs of `WholeText`.

    Attributes:
        length: maximum number of tokens; longer texts are truncated.
        lower: convert the text to lower case first.
        prefix: put before the text.
    """

    tokenizer: Tokenizer
    length: int
    lower: bool
    prefix: str = ""

    @classmethod
    def of(cls, preparation: Preparation) -> "Tokens | None":
        """Tokens that an encoder takes; None if the graph does not take tokens."""
        if isinstance(preparation, TokenPreparation):
            return cls(preparation.tokenizer, preparation.length, preparation.lower)
        if isinstance(preparation, EncoderPreparation) and isinstance(reading := preparation.reading, TextReading):
            tokenizer = preparation.load()[1]
            assert tokenizer is not None
            return cls(tokenizer, reading.length, reading.lower, reading.prefix)
        return None

    @property
    def rules(self) -> Any:
        """Tokenizer of the tokenizers library that truncates, and pads to the longest text, by itself."""
        rules, pad = copy.deepcopy(self.tokenizer.rules), self.tokenizer.pad
        rules.enable_truncation(self.length)
        rules.enable_padding(direction="right", pad_id=pad, pad_token=rules.id_to_token(pad) or "")
        return rules

    def __call__(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Token ids and mask, int64 (n, L)."""
        given = [self.prefix + text for text in texts]
        found = self.rules.encode_batch([text.lower() for text in given] if self.lower else given)
        return torch.tensor([each.ids for each in found]), torch.tensor([each.attention_mask for each in found])


def pixels_of(preparation: EncoderPreparation) -> ImagePreparation:
    """Preparation of the pixels that a frozen encoder of images takes."""
    assert isinstance(preparation.reading, ImageReading)
    return ImagePreparation(3, preparation.reading.side, preparation.reading.side)


@dataclass(frozen=True)
class Samples:
    """Real samples.

    Attributes:
        items: as the original takes them.
        inputs: as the graph takes them.
    """

    items: Tensor
    inputs: tuple[Tensor, ...]

    @classmethod
    def of_items(cls, preparation: Preparation, items: Tensor) -> "Samples":
        """Samples that are prepared already, for a graph without a frozen encoder."""
        masks = ((items != preparation.tokenizer.pad).long(),) if isinstance(preparation, TokenPreparation) else ()
        return cls(items, (items, *masks))

    @classmethod
    def of_inputs(cls, preparation: Preparation, inputs: Inputs) -> "Samples":
        """Samples of texts, files or rows. Images that a frozen encoder cannot read are left out."""
        if (tokens := Tokens.of(preparation)) is not None:
            return cls(preparation(inputs), tokens(as_texts(inputs)))
        if isinstance(preparation, EncoderPreparation):
            prepared = preparation.read(cast("Sequence[Picture]", inputs))
            return cls(cast("Tensor", prepared.items), (pixels_of(preparation)(select_inputs(inputs, prepared.kept)),))
        return cls.of_items(preparation, preparation(inputs))

    def first(self, number: int) -> tuple[Tensor, ...]:
        """Inputs of the first samples; texts without the columns that are padding for all of them."""
        found = tuple(each[:number] for each in self.inputs)
        if len(found) == 1:
            return found
        places = torch.arange(1, found[1].shape[1] + 1)
        width = int(torch.where(found[1].any(0), places, 1).max())
        return tuple(each[:, :width] for each in found)

    def two(self) -> tuple[Tensor, ...]:
        """Two samples to trace the graph with, the same one twice if there is only one: a single one may fix the batch size."""
        found = tuple(torch.cat([each, each])[:2] for each in self.first(2))
        return found if len(found) == 1 else tuple(F.pad(each, (0, max(SHORTEST - each.shape[1], 0))) for each in found)
