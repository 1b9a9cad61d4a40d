"""Description of an exported graph's input, for use without this package where possible."""

from typing import Any

from softmatch.data.preparations import Preparation
from softmatch.data.preparations.encoder_features import EncoderPreparation
from softmatch.data.preparations.images import ImagePreparation
from softmatch.data.preparations.sounds import SoundPreparation
from softmatch.data.preparations.table import CategoryColumn, NumberColumn, TablePreparation
from softmatch.inference.graphs import Tokens, pixels_of

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
    """Entries for the JSON of a graph: `how_to_use`, and `image`, `text` or `features` for images, tokens and tables.

    Args:
        name: name of the graph's file.
    """
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
