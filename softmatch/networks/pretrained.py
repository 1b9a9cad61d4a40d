"""Pretrained encoders that are trained further (extra `text`): `features(x)` are the encoder's, a linear `head` is new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from softmatch.errors import InputError
from softmatch.networks.backbones import (
    Backbone,
    Modality,
    feature_size,
    fit_images,
    load_backbone,
    load_tokenizer,
    make_backbone,
)
from softmatch.networks.encoder_folder import find_encoder, read_image_settings, read_text_settings

__all__ = ["PretrainedImage", "PretrainedText", "build_pretrained", "encoder_statistics"]

PIECE = 64
"""Texts at a time where no gradients are needed: a piece of short texts is cut shorter than the whole batch could be."""


class PretrainedImage(nn.Module):
    """An image encoder and a linear head. Images of another size are resized to the one that the encoder was trained on.

    Args:
        backbone: the encoder.
        num_features: size of what it makes of an image.
        side: of the images it was trained on.
    """

    def __init__(self, backbone: Backbone, num_features: int, num_classes: int, side: int) -> None:
        super().__init__()
        self.backbone, self.side = backbone, side
        self.head = nn.Linear(num_features, num_classes)

    def features(self, inputs: Tensor) -> Tensor:
        """(B, 1 or 3, H, W), normalised with the encoder's own statistics → (B, D)."""
        out: Tensor = self.backbone(fit_images(inputs, self.side))
        return out

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(inputs))
        return logits

    def architecture(self) -> dict[str, Any]:
        """JSON from which `build_pretrained` makes the same network, with other weights, and without the encoder's files."""
        return {**_shared(self.backbone, self.head), "side": self.side}


class PretrainedText(nn.Module):
    """A text encoder and a linear head, for token ids that are padded on the right.

    Args:
        backbone: the encoder.
        num_features: size of what it makes of a text.
        pad: the id that fills up.
        pooling: "mean" or "cls".
    """

    def __init__(self, backbone: Backbone, num_features: int, num_classes: int, pad: int, pooling: str) -> None:
        super().__init__()
        self.backbone, self.pad, self.pooling = backbone, pad, pooling
        self.head = nn.Linear(num_features, num_classes)

    def features(self, inputs: Tensor) -> Tensor:
        """(B, L) → (B, D)."""
        tracing: bool = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]  # missing in torch's stubs
        if tracing or torch.compiler.is_compiling():  # the length must then not depend on the values
            return self._features(inputs, inputs != self.pad)
        if torch.is_grad_enabled():
            return self._trimmed(inputs)
        return torch.cat([self._trimmed(piece) for piece in torch.split(inputs, PIECE)])

    def _trimmed(self, inputs: Tensor) -> Tensor:
        """Without the columns that are padding for all of them."""
        mask = inputs != self.pad
        used = mask.any(0).nonzero()
        length = int(used[-1]) + 1 if len(used) else 1
        return self._features(inputs[:, :length], mask[:, :length])

    def _features(self, inputs: Tensor, mask: Tensor) -> Tensor:
        first = torch.arange(inputs.shape[1], device=inputs.device) == 0  # an empty text has one token, if only a padding
        out: Tensor = self.backbone(inputs, mask | first, self.pooling)
        return out

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(inputs))
        return logits

    def architecture(self) -> dict[str, Any]:
        """JSON from which `build_pretrained` makes the same network, with other weights, and without the encoder's files."""
        return {**_shared(self.backbone, self.head), "pad": self.pad, "pooling": self.pooling}


def _shared(backbone: Backbone, head: nn.Linear) -> dict[str, Any]:
    return {"config": backbone.config, "of": backbone.of, "pooler": backbone.pooler, "features": head.in_features}


def build_pretrained(
    encoder: str,
    shape: Sequence[int],
    num_classes: int,
    batch_norm_momentum: float,
    architecture: Mapping[str, Any] | None = None,
) -> PretrainedImage | PretrainedText:
    """An encoder with its pretrained weights and a new head, for images (C, H, W) or token ids (L).

    Args:
        encoder: a folder, or an id of the Hugging Face hub.
        batch_norm_momentum: share of a new batch in the running statistics, where the encoder has any.
        architecture: of a saved network, whose weights are loaded next: the encoder itself is then not needed.
    """
    of: Modality = "image" if len(shape) == 3 else "text"
    network = _load(encoder, of, num_classes) if architecture is None else _rebuild(architecture, of, num_classes)
    for module in network.modules():
        if isinstance(module, _BatchNorm):
            module.momentum = batch_norm_momentum
    return network.train()


def _load(encoder: str, of: Modality, num_classes: int) -> PretrainedImage | PretrainedText:
    folder = find_encoder(encoder)
    backbone = load_backbone(folder, of)
    if of == "image":
        side = read_image_settings(folder).side
        return PretrainedImage(backbone, feature_size(backbone, side, encoder), num_classes, side)
    num_features = feature_size(backbone, 0, encoder)  # before the tokenizer: it also finds out whether it is for texts at all
    return PretrainedText(backbone, num_features, num_classes, load_tokenizer(folder).pad, read_text_settings(folder).pooling)


def _rebuild(saved: Mapping[str, Any], of: Modality, num_classes: int) -> PretrainedImage | PretrainedText:
    try:
        if saved["of"] != of:
            raise InputError(f"the saved network is for {saved['of']}s, and the items are {of}s.")
        backbone = make_backbone(saved["config"], of, saved["pooler"])
        if of == "image":
            return PretrainedImage(backbone, saved["features"], num_classes, saved["side"])
        return PretrainedText(backbone, saved["features"], num_classes, saved["pad"], saved["pooling"])
    except KeyError as error:
        raise InputError(f"the saved network's architecture is damaged: {error} is missing.") from error


def encoder_statistics(encoder: str) -> tuple[tuple[float, ...], tuple[float, ...], int]:
    """Mean and standard deviation per channel that an image encoder's images are normalised with, and their side."""
    reading = read_image_settings(find_encoder(encoder))
    return reading.mean, reading.std, reading.side
