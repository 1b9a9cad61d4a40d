"""Features of a pretrained encoder that stays as it is (extra `text`): computed once, kept on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from softmatch.data.preparations.images import ImagePreparation
from softmatch.data.preparations.texts import as_texts
from softmatch.data.records import Finding, Inputs
from softmatch.distributed.devices import choose_device
from softmatch.encoders.backbones import Backbone, Modality, Tokenizer, feature_size, load_backbone, load_tokenizer, padded
from softmatch.encoders.encoder_folder import (
    ImageReading,
    TextReading,
    find_encoder,
    read_image_settings,
    read_text_settings,
    take_fingerprint,
)
from softmatch.encoders.feature_cache import digest, load_features, store_features
from softmatch.errors import InputError
from softmatch.files.paths import expand_home
from softmatch.views.pictures import Picture

__all__ = ["EncoderPreparation", "fit_image_encoder", "fit_text_encoder"]

Progress = Callable[[int, int], None]
"""Told how many of how many inputs are done."""
TEXTS, IMAGES = 4096, 512
"""Inputs whose features are kept in one file: what an interruption costs at most. Images are in memory meanwhile."""
AT_ONCE = 64
"""Inputs that go through the encoder at once."""
CHECKED_SIDE = 8


class _Loaded(NamedTuple):
    backbone: Backbone
    tokenizer: Tokenizer | None
    size: int


class EncoderPreparation:
    """Texts or images → float32 features (n, D) of a pretrained encoder, which is loaded when it is first needed.

    Args:
        encoder: its folder, or its id on the Hugging Face hub.
        of: "text" or "image".
        column: name of the texts' column; "" for images.
        reading: how it makes one vector of a text, or what it expects of images.
        fingerprint: of the encoder's files: others in the same place are refused.
        revision: the commit on the hub.
        keep: whether new features are kept on disk; those that are there are used in any case.

    Attributes:
        device: where the encoder computes; by default CUDA or MPS where there is one.
        progress: what to tell how far it is.
    """

    def __init__(
        self,
        encoder: str,
        of: Modality,
        column: str,
        reading: TextReading | ImageReading,
        fingerprint: str,
        revision: str | None = None,
        keep: bool = False,
    ) -> None:
        self.takes: Modality = of
        self.columns = (column,) if of == "text" else ()
        self.encoder, self.reading, self.fingerprint, self.revision, self.keep = encoder, reading, fingerprint, revision, keep
        self.device = choose_device("auto")
        self.progress: Progress | None = None
        self._loaded: _Loaded | None = None

    @classmethod
    def from_saved(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> EncoderPreparation:
        """Inverse of `settings`. New features are not kept: what is to be predicted may be larger than the disk."""
        of, found = settings["of"], settings["reading"]
        reading = ImageReading.from_saved(found) if of == "image" else TextReading(**found)
        return cls(settings["encoder"], of, settings["column"], reading, settings["fingerprint"], settings["revision"])

    @classmethod
    def find(cls, encoder: str, of: Modality, column: str = "") -> EncoderPreparation:
        """The encoder in a folder or of the hub; features are kept.

        Raises:
            InputError: it cannot be found, or is not safe to open.
        """
        folder = find_encoder(encoder)
        reading = read_text_settings(folder) if of == "text" else read_image_settings(folder)
        local = expand_home(encoder).exists()
        name, revision = (str(folder), None) if local else (encoder, folder.name)
        return cls(name, of, column, reading, take_fingerprint(folder), revision, keep=True)

    def __call__(self, inputs: Inputs | Sequence[Picture]) -> Tensor:
        taken: Sequence[Any] = as_texts(inputs) if self.takes == "text" else inputs  # type: ignore[arg-type, assignment]  # as said
        step = TEXTS if self.takes == "text" else IMAGES
        parts = []
        for start in range(0, len(taken), step):
            part = taken[start : start + step]
            key = digest(self._maker(), part)
            features = load_features(key)
            if features is None or len(features) != len(part):
                features = self._compute(part, start, len(taken))
                if self.keep:
                    store_features(key, features)
            parts.append(features)
            self._tell(start + len(part), len(taken))
        return torch.cat(parts) if parts else torch.zeros(0, self._load().size)

    def _maker(self) -> str:
        """Whatever decides the features, and not where the encoder or the texts happen to be."""
        return json.dumps([self.takes, self.fingerprint, asdict(self.reading)], sort_keys=True)

    def _tell(self, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(done, total)

    @torch.no_grad()
    def _compute(self, inputs: Sequence[Any], before: int, total: int) -> Tensor:
        backbone, tokenizer, size = self._load()
        order = list(range(len(inputs)))
        make: Callable[[Sequence[int]], Tensor]
        if isinstance(self.reading, TextReading):
            assert tokenizer is not None
            ids = tokenizer([text.lower() if self.reading.lower else text for text in inputs], self.reading.length)
            order.sort(key=lambda row: -len(ids[row]))  # the texts of a batch then need little padding
            make = partial(_of_texts, backbone, ids, tokenizer.pad, self.reading, self.device)
        else:
            pixels = ImagePreparation(3, self.reading.side, self.reading.side)(inputs)
            make = partial(_of_images, backbone, pixels, self.reading, self.device)
        features = torch.empty(len(inputs), size)
        for start in range(0, len(order), AT_ONCE):
            chosen = order[start : start + AT_ONCE]
            features[chosen] = make(chosen)
            self._tell(before + start + len(chosen), total)
        return features

    def _load(self) -> _Loaded:
        if self._loaded is None:
            folder = find_encoder(self.encoder, self.revision)
            if take_fingerprint(folder) != self.fingerprint:
                raise InputError(
                    f"encoder {self.encoder!r} is not the one that this model was trained with: its files are others. "
                    "Put the former ones back, or train again."
                )
            backbone = load_backbone(folder, self.takes)
            size = feature_size(backbone, getattr(self.reading, "side", 0), self.encoder)
            self._loaded = _Loaded(backbone, load_tokenizer(folder) if self.takes == "text" else None, size)
        self._loaded.backbone.to(self.device)
        return self._loaded

    def settings(self) -> dict[str, Any]:
        return {
            "kind": "encoder",
            "of": self.takes,
            "column": self.columns[0] if self.columns else "",
            "encoder": self.encoder,
            "revision": self.revision,
            "fingerprint": self.fingerprint,
            "reading": asdict(self.reading),
        }

    def tensors(self) -> dict[str, Tensor]:
        return {}

    def describe(self) -> str:
        return f"{self.takes}s as features of the pretrained encoder {self.encoder}"


def fit_text_encoder(
    encoder: str, column: str, progress: Progress | None = None, device: str = "auto", most: int | None = None
) -> EncoderPreparation:
    """The preparation of texts by a frozen encoder, in a folder or of the hub.

    Args:
        most: tokens that it reads of a text, and never more than it takes; None: as it says, and at most 256.
    """
    found = EncoderPreparation.find(encoder, "text", column)
    if most is not None:
        found.reading = read_text_settings(find_encoder(encoder), most)
    found.progress, found.device = progress, choose_device(device)
    return found


def fit_image_encoder(
    encoder: str,
    paths: Sequence[Picture],
    progress: Progress | None = None,
    names: Sequence[str] | None = None,
    device: str = "auto",
) -> tuple[EncoderPreparation, Tensor, list[int], list[Finding]]:
    """The preparation of images by a frozen encoder, and the features of all images that can be read.

    Args:
        paths: files, images in memory, or Pillow images.
        names: what to call them in findings; None: their paths.

    Returns:
        the preparation, the features, the positions of the paths that they are of, what was noticed.
    """
    found = EncoderPreparation.find(encoder, "image")
    found.device = choose_device(device)
    _, kept, findings = ImagePreparation(3, CHECKED_SIDE, CHECKED_SIDE).read(paths, names)
    found.progress = progress
    return found, found([paths[position] for position in kept]), kept, findings


def _of_texts(
    backbone: Backbone, ids: Sequence[Sequence[int]], pad: int, reading: TextReading, device: torch.device, chosen: Sequence[int]
) -> Tensor:
    rows = [ids[row] for row in chosen]
    tokens = padded(rows, pad)
    mask = torch.arange(tokens.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]
    features: Tensor = backbone(tokens.to(device), mask.to(device), reading.pooling).float().cpu()
    return F.normalize(features, dim=1) if reading.normalize else features


def _of_images(backbone: Backbone, pixels: Tensor, reading: ImageReading, device: torch.device, chosen: Sequence[int]) -> Tensor:
    mean, std = (torch.tensor(values, device=device)[:, None, None] for values in (reading.mean, reading.std))
    features: Tensor = backbone((pixels[chosen].to(device).float() / 255.0 - mean) / std)
    return features.float().cpu()
