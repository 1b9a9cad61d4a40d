"""Fine-tuning of pretrained encoders (extra `text`): `features(x)` come from the encoder, the `head` is new."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from softmatch.encoders.backbones import (
    Backbone,
    Modality,
    feature_size,
    fit_images,
    is_traced,
    load_backbone,
    load_tokenizer,
    make_backbone,
)
from softmatch.encoders.encoder_folder import find_encoder, read_image_settings, read_text_settings
from softmatch.encoders.layers import find_layers, recorded_calls
from softmatch.encoders.model_folder import read_json
from softmatch.errors import InputError
from softmatch.networks.heads import FeatureNetwork, Head, Tuning, add_adapters

PIECE = 64
"""Texts per pass without gradients."""
MOST_PADDING = 64
"""Tokens of padding in a pass on a CPU, beyond which another pass costs less."""
DROPOUT = 0.1
"""Dropout rate below the hidden layer of the GELU head."""


class Pretrained(FeatureNetwork):
    """An encoder and a head: a linear layer, for "gelu" on GELU(W·dropout(x) + b) of the encoder's output.

    Attributes:
        last: number of trained layers, if the network also takes activations below them.
    """

    def __init__(self, backbone: Backbone, num_features: int, num_classes: int, head: Head = "linear") -> None:
        super().__init__()
        self.backbone = backbone
        self.last = 0
        self.hidden = nn.Linear(num_features, num_features) if head == "gelu" else None
        self.head = nn.Linear(num_features, num_classes)

    def features(self, inputs: Tensor) -> Tensor:
        """A batch → (B, D), the input of the linear layer; of items, or of activations (B, T, D + 1) below the last layers.

        The last number of an activation is 1 where there is one and 0 where there is none, which is to the right.
        """
        found = self.resume(inputs) if inputs.ndim == 3 else self.encode(inputs)
        return found if self.hidden is None else F.gelu(self.hidden(found))

    def encode(self, inputs: Tensor) -> Tensor:
        """A batch → (B, D), the output of the encoder."""
        raise NotImplementedError  # each modality has its own, below

    def below(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Activations (B, T, D) below the last layers, and the number of each item's positions (B,)."""
        raise NotImplementedError  # each modality has its own, below

    def resume(self, activations: Tensor) -> Tensor:
        """Activations → (B, D), the output of the encoder."""
        raise NotImplementedError  # each modality has its own, below

    @property
    def dropout(self) -> float:
        """Dropout rate of the encoder's output in training."""
        return 0.0 if self.hidden is None else DROPOUT

    def architecture(self) -> dict[str, Any]:
        """JSON from which `build_pretrained` makes the same network, with other weights and without the encoder's files."""
        backbone, features = self.backbone, self.head.in_features
        found = {"config": backbone.config, "of": backbone.of, "pooler": backbone.pooler, "features": features}
        return found if self.hidden is None else {**found, "head": "gelu"}


class PretrainedImage(Pretrained):
    """An encoder for images, which are resized to the size the encoder was trained on."""

    def __init__(self, backbone: Backbone, num_features: int, num_classes: int, side: int, head: Head = "linear") -> None:
        super().__init__(backbone, num_features, num_classes, head)
        self.side = side

    def encode(self, inputs: Tensor) -> Tensor:
        """(B, 1 or 3, H, W), normalised with the encoder's own statistics → (B, D)."""
        out: Tensor = self.backbone(fit_images(inputs, self.side), dropout=self.dropout)
        return out

    def below(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        found = self.backbone.below(self.last, fit_images(inputs, self.side))
        return found, torch.full((len(found),), found.shape[1])

    def resume(self, activations: Tensor) -> Tensor:
        blank = activations.new_zeros(1, 3, self.side, self.side)
        return self.backbone.above(self.last, activations[..., :-1], blank, None, "mean", self.dropout)

    def architecture(self) -> dict[str, Any]:
        return {**super().architecture(), "side": self.side}


class PretrainedText(Pretrained):
    """An encoder for token ids that are padded on the right."""

    def __init__(
        self, backbone: Backbone, num_features: int, num_classes: int, pad: int, pooling: str, head: Head = "linear"
    ) -> None:
        super().__init__(backbone, num_features, num_classes, head)
        self.pad, self.pooling = pad, pooling

    def encode(self, inputs: Tensor) -> Tensor:
        """(B, L) → (B, D)."""
        if is_traced():  # then the length must not depend on the values
            return self._encode(inputs, inputs != self.pad)
        return self._in_pieces(inputs, self._lengths(inputs), self._trimmed)

    def below(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        lengths = self._lengths(inputs)
        inputs = inputs[:, : int(lengths.max())]
        mask = torch.arange(inputs.shape[1], device=inputs.device) < lengths[:, None]
        return self.backbone.below(self.last, inputs, mask), lengths

    def resume(self, activations: Tensor) -> Tensor:
        return self._in_pieces(activations, activations[..., -1].sum(1).long(), self._resume)

    def _resume(self, activations: Tensor) -> Tensor:
        mask = activations[..., -1] > 0
        length = int(mask.sum(1).max()) if len(mask) else 1
        mask, given = mask[:, :length], activations[:, :length, :-1]
        return self.backbone.above(self.last, given, torch.zeros_like(mask, dtype=torch.int64), mask, self.pooling, self.dropout)

    def _in_pieces(self, inputs: Tensor, lengths: Tensor, run: Callable[[Tensor], Tensor]) -> Tensor:
        """Run texts of these lengths, in passes over texts of similar ones if that takes less time than one pass."""
        most = len(inputs) if torch.is_grad_enabled() else PIECE
        if inputs.device.type != "cpu":
            return torch.cat([run(piece) for piece in torch.split(inputs, max(most, 1))])
        order, sizes = _similar(lengths, most)
        if len(sizes) <= 1:
            return run(inputs)
        found = torch.cat([run(piece) for piece in torch.split(inputs[order], sizes)])
        return found[torch.argsort(order)]

    def _lengths(self, inputs: Tensor) -> Tensor:
        """Number of tokens of each text, at least one."""
        places = torch.arange(1, inputs.shape[1] + 1, device=inputs.device)
        return torch.where(inputs != self.pad, places, 1).amax(1)

    def _trimmed(self, inputs: Tensor) -> Tensor:
        """Encode without the columns that are padding for all texts."""
        length = int(self._lengths(inputs).max()) if len(inputs) else 1
        return self._encode(inputs[:, :length], inputs[:, :length] != self.pad)

    def _encode(self, inputs: Tensor, mask: Tensor) -> Tensor:
        first = torch.arange(inputs.shape[1], device=inputs.device) == 0  # an empty text has one token, its padding
        out: Tensor = self.backbone(inputs, mask | first, self.pooling, self.dropout)
        return out

    def architecture(self) -> dict[str, Any]:
        return {**super().architecture(), "pad": self.pad, "pooling": self.pooling}


def _similar(lengths: Tensor, most: int) -> tuple[Tensor, list[int]]:
    """The order of texts from long to short, and the number of texts in each pass."""
    sorted_, order = torch.sort(lengths, descending=True, stable=True)
    sizes, longest, padding = list[int](), 0, 0
    for length in sorted_.tolist():
        padding += longest - length
        if not sizes or padding > MOST_PADDING or sizes[-1] == most:
            sizes.append(0)
            longest, padding = length, 0
        sizes[-1] += 1
    return order, sizes


def build_pretrained(
    encoder: str,
    shape: Sequence[int],
    num_classes: int,
    batch_norm_momentum: float,
    architecture: Mapping[str, Any] | None = None,
    tuning: Tuning | None = None,
) -> PretrainedImage | PretrainedText:
    """An encoder with its pretrained weights and a new head, for images (C, H, W) or token ids (L).

    Args:
        encoder: a folder, or an id of the Hugging Face hub.
        batch_norm_momentum: share of a new batch in the running statistics, if the encoder has any.
        architecture: that of a saved network, whose weights are loaded next; the encoder itself is then not needed.
        tuning: trained part and head; ignored for a saved network.
    """
    of: Modality = "image" if len(shape) == 3 else "text"
    if architecture is None:
        network = _load(encoder, of, num_classes, tuning or Tuning())
    else:
        try:
            if architecture["of"] != of:
                raise InputError(f"the saved network is for {architecture['of']}s, and the items are {of}s.")
            backbone = make_backbone(architecture["config"], of, architecture["pooler"])
            network = _assemble(backbone, num_classes, architecture)
        except KeyError as error:
            raise InputError(f"the saved network's architecture is damaged: {error} is missing.") from error
    for module in network.modules():
        if isinstance(module, _BatchNorm):
            module.momentum = batch_norm_momentum
    return network.train()


def _load(encoder: str, of: Modality, num_classes: int, tuning: Tuning) -> PretrainedImage | PretrainedText:
    folder = find_encoder(encoder)
    if "pretrained_cfg" in read_json(folder, "config.json"):
        raise InputError(f"encoder {encoder} is a model of timm, which is only used frozen: leave out --tune.")
    backbone, side = load_backbone(folder, of), read_image_settings(folder).side if of == "image" else 0
    with recorded_calls(backbone.model) as calls:
        num_features = feature_size(backbone, side, encoder)  # before the tokenizer: it also checks the modality
    backbone.layers = find_layers(backbone.model, calls)
    settings: dict[str, Any] = {"features": num_features, "head": tuning.head, "side": side}
    if of == "text":
        settings |= {"pad": load_tokenizer(folder).pad, "pooling": read_text_settings(folder).pooling}
    network = _assemble(backbone, num_classes, settings)
    if tuning.layers is not None or tuning.lora is not None:
        option = f"--tune last-{tuning.layers}" if tuning.cached else f"--tuned-layers {tuning.layers}"
        backbone.freeze(tuning.layers, option)
    if tuning.cached and tuning.layers:
        backbone.refuse_uncut(tuning.layers, side, encoder)
        network.last = tuning.layers
    if tuning.lora is not None:
        add_adapters(backbone.model, () if backbone.layers is None else backbone.layers.lists, tuning.lora, encoder)
    return network


def _assemble(backbone: Backbone, num_classes: int, settings: Mapping[str, Any]) -> PretrainedImage | PretrainedText:
    features, head = settings["features"], settings.get("head", "linear")
    if backbone.of == "image":
        return PretrainedImage(backbone, features, num_classes, settings["side"], head)
    return PretrainedText(backbone, features, num_classes, settings["pad"], settings["pooling"], head)
