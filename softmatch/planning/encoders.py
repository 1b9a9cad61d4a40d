"""What a pretrained encoder of texts costs, by formula from its sizes: its files need not be here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from softmatch.config import Config
from softmatch.errors import InputError
from softmatch.files.paths import expand_home
from softmatch.planning.networks import NetworkCost

FLOAT = 4


@dataclass(frozen=True)
class EncoderSizes:
    """Sizes of a transformer encoder as BERT is one.

    Attributes:
        positions: most tokens of a text.
    """

    layers: int
    width: int
    inner: int
    heads: int
    words: int
    positions: int

    @property
    def layer_weights(self) -> int:
        """Numbers in the matrices of a layer: query, key, value, output, and the two of the perceptron."""
        return 4 * self.width**2 + 2 * self.width * self.inner

    @property
    def layer_parameters(self) -> int:
        """All of a layer: matrices, biases, and two layer normalisations."""
        return self.layer_weights + 4 * self.width + self.inner + self.width + 4 * self.width

    @property
    def embeddings(self) -> int:
        """Of words, positions and two kinds of sentences, with a layer normalisation."""
        return (self.words + self.positions + 2) * self.width + 2 * self.width


KNOWN: Mapping[str, EncoderSizes] = {
    "google-bert/bert-base-uncased": EncoderSizes(12, 768, 3072, 12, 30522, 512),
    "google-bert/bert-large-uncased": EncoderSizes(24, 1024, 4096, 16, 30522, 512),
    "sentence-transformers/all-MiniLM-L6-v2": EncoderSizes(6, 384, 1536, 12, 30522, 512),
}
"""Of the config.json of each on the Hugging Face hub."""
KEPT, KEPT_OF_EMBEDDINGS = 40, 8
"""Bytes kept of a token for each number of its width: in a layer, besides the two sets of the perceptron's inner numbers, and in
the embeddings. Counted on the transformers library's own network (benchmarks/results/plan.md)."""
OPERATIONS = (33, 40)
"""Of a layer, forward and backward; counted there too, with attention in single operations: fewer on a GPU."""
KEYS = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "vocab_size", "max_position_embeddings")


def encoder_sizes(name: str) -> EncoderSizes:
    """Of a known encoder, or of the config.json in its folder."""
    if name in KNOWN:
        return KNOWN[name]
    path = expand_home(name) / "config.json"
    found = _read(path)
    missing = [key for key in KEYS if not (isinstance(found.get(key), int) and found[key] > 0)]
    if missing:
        raise InputError(
            f"{path} has no {missing[0]}: this encoder is not built as BERT is, and cannot be planned by its sizes. Measure a "
            "step instead: softmatch train … --dry-run."
        )
    return EncoderSizes(*(found[key] for key in KEYS))


def _read(path: Path) -> dict[str, int]:
    if not path.is_file():
        raise InputError(
            f"the sizes of the encoder {str(path.parent)!r} are not known: give its folder, with its config.json, or one of "
            f"{', '.join(KNOWN)}."
        )
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}.") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} must hold a JSON object, it holds a {type(found).__name__}.")
    return found


def count_encoder(sizes: EncoderSizes, config: Config, num_classes: int, tokens: float) -> NetworkCost:
    """An encoder that is trained, with its head.

    Forward: two FLOPs for each number of a layer's matrices and each token, and 4·L·width for attention among L tokens; backward
    twice that, but for layers that are not trained: nothing below the first trained one, and where only low-rank additions are
    trained, the derivatives by the weights are left out. Activations: what the transformers library keeps of a BERT, without
    the L × L matrices, which attention on a GPU does not keep.

    Args:
        tokens: L, that a text of a batch is filled up to.
    """
    width = sizes.width
    head = (width**2 + width if config.head == "gelu" else 0) + (width + 1) * num_classes
    frozen = sizes.embeddings + sizes.layers * sizes.layer_parameters
    layer = tokens * (2 * sizes.layer_weights + 4 * tokens * width)
    backward, saved_layers, trained = 2.0 * sizes.layers * layer, sizes.layers, frozen + head
    if config.tuned_layers is not None:
        saved_layers = min(config.tuned_layers, sizes.layers)
        trained = saved_layers * sizes.layer_parameters + head
        backward = 2.0 * saved_layers * layer
    added = 0
    if config.lora is not None:
        added = sizes.layers * config.lora * (4 * 2 * width + 2 * (width + sizes.inner))
        trained, backward = added + head, 1.0 * sizes.layers * layer
    kept = tokens * (saved_layers * (KEPT * width + 2 * FLOAT * sizes.inner) + KEPT_OF_EMBEDDINGS * width)
    return NetworkCost(
        parameters=frozen + head + added,
        trained=trained,
        state=FLOAT * (frozen + head + added),
        forward=sizes.layers * layer,
        backward=backward,
        saved=kept,
        largest=FLOAT * tokens * sizes.inner,
        forward_operations=OPERATIONS[0] * sizes.layers,
        backward_operations=OPERATIONS[1] * saved_layers,
        norms=(),
        features=width,
        work="texts",
    )
