"""Graphs of trained models for other runtimes: pixels, token ids or prepared items in, calibrated probabilities out.

Their inputs are described for use without this package where possible.
"""

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
from softmatch.data.preparations.sounds import SoundPreparation
from softmatch.data.preparations.table import CategoryColumn, NumberColumn, TablePreparation
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
    """Texts → inputs of `WholeText`."""

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


INSIDE = {
    "image": "uint8 pixels: read and resize images first",
    "array": "the numbers of the arrays",
    "sound": "the spectrogram that the preparation makes of a recording, not the recording itself",
    "table": "the features that the preparation makes from the columns, not their cells",
    "tfidf": "the output of the preparation for a text, not the text itself",
    "tokens": "token ids and their mask: tokenise texts first, with the tokenizer beside the file",
}
"""Input of the graph, by the kind of preparation."""
WITHIN = "Normalisation, network, temperature and softmax are inside the graph: its output is calibrated probabilities."
ENCODED = f"Encoder, {WITHIN.lower()}"
TABLE = (
    "The input is float32 features in the order of `features`; columns are in the order of preparation.columns.",
    "A column of form number or date with scale > 0 becomes (min(max(x, low), high) − fill) / scale; a missing x is fill.",
    "With indicator, a column adds a last feature that is 1 if the cell is missing, not finite or unreadable, else 0.",
    "A number is used as it is; true is 1, false is 0. A date is the days, with fractions, since 1970-01-01 00:00 UTC.",
    "A column of form category becomes one feature per category, 1 if the cell without outer spaces is this word, else 0 "
    "(1 and 1.0 are one word); with other, one more feature is 1 for any other word.",
)


def begins(preparation: Preparation) -> str:
    """Describe the input of the graph in a sentence."""
    if isinstance(preparation, EncoderPreparation):
        inside = INSIDE["image" if preparation.takes == "image" else "tokens"]
        return f"The model's input is {inside}. It includes the encoder {preparation.encoder}."
    return f"The model's input is {INSIDE[preparation.settings()['kind']]} ({preparation.describe()})."


def about_inputs(preparation: Preparation, name: str) -> dict[str, Any]:
    """Entries for the JSON of a graph: `how_to_use`, and `image`, `text` or `features` for images, tokens and tables."""
    if isinstance(preparation, ImagePreparation):
        return _image(preparation)
    if (tokens := Tokens.of(preparation)) is not None:
        return _text(tokens, f"{name}.tokenizer.json")
    if isinstance(preparation, EncoderPreparation):
        return _image(pixels_of(preparation), ENCODED)
    if isinstance(preparation, TablePreparation):
        features = [feature for part in preparation.parts for feature in _features(part)]
        return {"how_to_use": [*TABLE, WITHIN], "features": features}
    return {"how_to_use": [*_elsewhere(preparation, name), WITHIN]}


def _image(made: ImagePreparation, within: str = WITHIN) -> dict[str, Any]:
    size, channels = f"width×height = {made.width}×{made.height}", "RGB" if made.channels == 3 else "grey"
    to = size if made.resize is None else f"{made.resize}×{made.resize}, then centre-cropped to {size}"
    resampling = f"bilinear (as in Pillow, with averaging when it shrinks), whole image squashed to {to}"
    pixels = (
        f"Read an image, {'apply its EXIF orientation, ' if made.upright else ''}put transparent parts over white, convert it "
        f"to {channels}, resize it ({resampling}), and pass its values 0 … 255 as uint8 (batch, channels, height, width)."
    )
    image = {
        "channels": channels,
        "layout": "NCHW",
        "type": "uint8",
        "width": made.width,
        "height": made.height,
        "resampling": resampling,
        "exif_orientation": "applied" if made.upright else "ignored",
        "transparency": "over white",
    }
    return {"how_to_use": [pixels, within], "image": image}


def _text(tokens: Tokens, file: str) -> dict[str, Any]:
    steps = [
        *([f"Put {tokens.prefix!r} before each text."] if tokens.prefix else []),
        *(["Convert texts to lower case."] if tokens.lower else []),
        f"Tokenise texts with tokenizers.Tokenizer.from_file('{file}').encode_batch(texts), which also truncates and pads them.",
        "Pass their ids and attention_mask as int64 (batch, length).",
    ]
    text = {"tokenizer": file, "prefix": tokens.prefix, "lower": tokens.lower, "length": tokens.length}
    return {"how_to_use": [*steps, ENCODED], "text": text}


def _features(part: NumberColumn | CategoryColumn) -> list[str]:
    """Names of the features of a column, in their order."""
    if isinstance(part, NumberColumn):
        found = [part.name] if part.scale > 0 else []
    else:
        found = [f"{part.name} = {category}" for category in part.categories]
        found += [f"{part.name} is another word"] if part.other else []
    return [*found, f"{part.name} is missing"] if part.indicator else found


def _elsewhere(preparation: Preparation, name: str) -> list[str]:
    settings = preparation.settings()
    ready = "softmatch.load_model(RUN).preparation(inputs) makes the input of the graph; RUN is the run folder."
    if preparation.tensors():
        file = f"{name}.preparation.safetensors"
        return [
            f"The input is made by the preparation in this file and {file}. {ready}",
            "Without the run: softmatch.data.preparations.preparation_from(json['preparation'], "
            f"safetensors.torch.load_file('{file}'))(texts); json is the content of this file.",
        ]
    if isinstance(preparation, SoundPreparation):
        return [f"The input is spectrograms, as float32 (batch, bands, frames), made from sound files by the run. {ready}"]
    if settings["layout"] == "any":
        return [
            f"The input is the numbers of the arrays as float32 (batch, {', '.join(map(str, settings['shape']))}), unchanged."
        ]
    if len(settings["shape"]) == 3:
        return ["The input is images as uint8 values 0 … 255 (batch, channels, height, width); three channels are RGB as given."]
    return ["The input is the numbers of the array as float32 (batch, features), unchanged and in their order."]
