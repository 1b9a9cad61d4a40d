"""Features of a frozen pretrained encoder (extra `text`): computed once, cached on disk."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from softmatch.data.pictures import Picture
from softmatch.data.preparations import Prepared
from softmatch.data.preparations.feature_cache import FeatureCache
from softmatch.data.preparations.file_reading import by_threads, unreadable
from softmatch.data.preparations.images import ImagePreparation, picture_names
from softmatch.data.preparations.sounds import about_lengths, about_sounds, hear, look_at, sound_paths
from softmatch.data.preparations.text_preparations import as_texts
from softmatch.data.records import Inputs, Progress, UnreadableFile
from softmatch.distributed.devices import choose_device, has_bf16_units
from softmatch.encoders.backbones import (
    Backbone,
    Listener,
    Modality,
    TimmBackbone,
    Tokenizer,
    feature_size,
    load_frozen,
    load_listener,
    load_tokenizer,
    padded,
)
from softmatch.encoders.encoder_folder import (
    MOST_TOKENS,
    ImageReading,
    SoundReading,
    TextReading,
    find_encoder,
    read_image_settings,
    read_sound_rate,
    read_text_settings,
    take_fingerprint,
)
from softmatch.encoders.named import prefix_of, resolve
from softmatch.errors import InputError
from softmatch.files.paths import expand_home


def _silent(done: int, total: int) -> None:
    """Ignore progress."""


TEXTS, IMAGES, SOUNDS = 4096, 512, 64
"""Inputs whose features are cached together: the most that an interruption costs. Pixels and waves are in memory meanwhile."""
AT_ONCE, HEARD_AT_ONCE = 64, 8
"""Inputs that go through the encoder at once, and recordings: ten seconds take a hundred megabytes in a wav2vec 2.0."""
DIRECTIONS, FITTED = 128, 5000
"""Directions that are kept of the features of files, and the most files that they are computed from."""
Reading = TextReading | ImageReading | SoundReading


class EncoderPreparation:
    """Texts, images or recordings → float32 features (n, D) of a pretrained encoder, which is loaded when it is first needed.

    Features of images and recordings have length 1 and are reduced to their principal directions (`fit_directions`): noise of a
    strong view then changes what distinguishes them, and is not lost in hundreds of directions that say nothing.

    Args:
        encoder: its folder, or its id on the Hugging Face hub; see `find_encoder`.
        of: "text", "image" or "sound".
        column: name of the texts' column; "" for files.
        reading: how it makes one vector of a text, or what it expects of images or recordings.
        fingerprint: of the encoder's files: other files in the same place are refused.
        revision: the commit on the hub.
        keep: cache new features on disk; cached ones are used in any case.

    Attributes:
        origin, directions: mean (D) of the features of files, and orthogonal directions (D, R); None: features as they are.
        device: where the encoder computes; by default CUDA or MPS where there is one.
        progress: called as features are computed.
        cached: use the features in the cache; False to time the encoder.
        half: multiply in bf16 where the device has units for it.
    """

    def __init__(
        self,
        encoder: str,
        of: Modality,
        column: str,
        reading: Reading,
        fingerprint: str,
        revision: str | None = None,
        keep: bool = False,
    ) -> None:
        self.takes: Modality = of
        self.columns = (column,) if of == "text" else ()
        self.encoder, self.reading, self.fingerprint, self.revision, self.keep = encoder, reading, fingerprint, revision, keep
        self.device = choose_device("auto")
        self.progress: Progress = _silent
        self.cached = self.half = True
        self.origin: Tensor | None = None
        self.directions: Tensor | None = None
        self._loaded: tuple[Backbone | TimmBackbone, Tokenizer | None, int] | None = None
        self._listener: Listener | None = None

    @classmethod
    def from_saved(cls, saved: Any, tensors: Mapping[str, Tensor]) -> "EncoderPreparation":
        """Invert `settings`. New features are not cached: the data to predict may be larger than the disk."""
        found = cls(saved.encoder, saved.of, saved.column, saved.reading, saved.fingerprint, saved.revision)
        found.half = saved.half
        if "directions" in tensors:
            found.origin, found.directions = tensors["origin"], tensors["directions"]
            if found.origin.ndim != 1 or found.directions.ndim != 2 or len(found.origin) != len(found.directions):
                raise InputError("the saved preparation is damaged: its directions do not fit its features.")
        return found

    @classmethod
    def find(
        cls, encoder: str, of: Modality, column: str = "", most: int | None = None, seconds: float = 0.0
    ) -> "EncoderPreparation":
        """Find the encoder in a folder or on the hub; features are cached.

        Args:
            most: tokens that it reads of a text.
            seconds: most that it hears of a recording.
        """
        folder = find_encoder(encoder)
        reading: Reading
        if of == "text":
            reading = read_text_settings(folder, most or MOST_TOKENS, prefix_of(encoder))
        elif of == "image":
            reading = read_image_settings(folder)
        else:
            rate = read_sound_rate(folder)
            reading = SoundReading(rate, max(round(seconds * rate), 1))
        name = resolve(encoder)[0]
        name, revision = (str(folder), None) if expand_home(name).exists() else (name, folder.name)
        return cls(name, of, column, reading, take_fingerprint(folder), revision, keep=True)

    def __call__(self, inputs: Inputs | Sequence[Picture]) -> Tensor:
        if self.takes != "text":
            files = sound_paths(inputs) if self.takes == "sound" else inputs  # type: ignore[arg-type]  # as `takes` says
            features, _, failed, _ = self._read_files(files)  # type: ignore[arg-type]  # as `takes` says
            if failed:
                raise next(iter(failed.values()))
            return features
        texts, parts = as_texts(inputs), list[Tensor]()  # type: ignore[arg-type]  # as `takes` says
        for start in range(0, len(texts), TEXTS):
            part = texts[start : start + TEXTS]
            contents = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in part]
            parts.append(self._features(contents, part, start, len(texts)))
        return self._joined(parts)

    def read(self, files: Sequence[Picture], names: Sequence[str] | None = None) -> Prepared:
        """Make features of all files that can be read, and report the others. Each file is opened and decoded once."""
        features, contents, failed, odd = self._read_files(files)
        kept = [position for position in range(len(files)) if position not in failed]
        names = picture_names(files, names)
        findings = about_sounds(failed, *odd, names) if self.takes == "sound" else unreadable(failed, names)
        return Prepared(self, features, kept, findings, contents)

    def _read_files(
        self, files: Sequence[Picture]
    ) -> tuple[Tensor, list[bytes], dict[int, UnreadableFile], tuple[list[int], list[int]]]:
        """Give features, digests, errors by position, and the positions of recordings that are silent or cut off."""
        parts, every, errors, odd = list[Tensor](), list[bytes](), dict[int, UnreadableFile](), (list[int](), list[int]())
        size = IMAGES if self.takes == "image" else SOUNDS
        for start in range(0, len(files), size):
            items, contents, failed = self._decoded(files[start : start + size], start, odd)
            errors |= {start + position: error for position, error in failed.items()}
            parts += [self.reduce(self._features(contents, items, start, len(files)))] if contents else []
            every += contents
        return self._joined(parts), every, errors, odd

    def _decoded(
        self, files: Sequence[Any], start: int, odd: tuple[list[int], list[int]]
    ) -> tuple[Tensor | list[Tensor], list[bytes], dict[int, UnreadableFile]]:
        """Give pixels or waves, digests, and errors by position in this part, which begins at `start` of all files."""
        if isinstance(self.reading, ImageReading):
            return ImagePreparation(3, self.reading.side, self.reading.side).read_part(files)
        assert isinstance(self.reading, SoundReading)
        waves, contents, failed = list[Tensor](), list[bytes](), dict[int, UnreadableFile]()
        for position, made in enumerate(by_threads(partial(hear, rate=self.reading.rate, length=self.reading.length), files)):
            if isinstance(made, UnreadableFile):
                failed[position] = made
                continue
            waves.append(made[0])
            contents.append(made[1])
            for positions, one in zip(odd, (not made[0].any(), made[2]), strict=True):
                positions += [start + position] if one else []
        return waves, contents, failed

    def fit_to_some(self, files: Sequence[Picture]) -> None:
        """Choose the directions by 5,000 to 10,000 files, so that the features of the others never are in memory in full."""
        progress, number = self.progress, len(files)
        self.progress = lambda done, _: progress(done, number)
        features = self._read_files(files[:: number // FITTED])[0]
        self.progress = progress
        if len(features) > 1:
            self.fit_directions(features)

    def fit_directions(self, features: Tensor) -> None:
        """Choose the principal directions of normalised features (n, D): at most 128, and fewer of few images."""
        chosen = features[:: max(1, len(features) // FITTED)]
        directions = F.normalize(chosen.double(), dim=1)
        origin = directions.mean(0)
        directions = torch.linalg.svd(directions - origin, full_matrices=False).Vh[: min(DIRECTIONS, len(chosen) - 1)].T
        # The sign of a direction is arbitrary; its largest entry is made positive.
        directions = directions * directions.gather(0, directions.abs().argmax(0, keepdim=True)).sign()
        self.origin, self.directions = origin.float(), directions.float().contiguous()

    def reduce(self, features: Tensor) -> Tensor:
        """Turn what the encoder gives (n, D) into items (n, R)."""
        if self.directions is None or self.origin is None:
            return features
        device = features.device
        return (F.normalize(features, dim=1) - self.origin.to(device)) @ self.directions.to(device)

    def _features(self, contents: Sequence[bytes], inputs: Sequence[Any] | Tensor, start: int, total: int) -> Tensor:
        """Load the features of a part of the inputs from the cache, and compute those that it lacks."""
        cache = FeatureCache(self._maker())
        known = cache.find(contents) if self.cached else {}
        missing = [position for position, content in enumerate(contents) if content not in known]
        if missing:
            new = [contents[position] for position in missing]
            left = inputs[missing] if isinstance(inputs, Tensor) else [inputs[position] for position in missing]
            computed = self._compute(left, start + len(contents) - len(missing), total)
            if self.keep:
                cache.add(new, computed)
            known |= dict(zip(new, computed, strict=True))
        self.progress(start + len(contents), total)
        return torch.stack([known[content] for content in contents])

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(parts)) if parts else self.reduce(torch.zeros(0, self.load()[2]))

    def _maker(self) -> str:
        """Describe whatever decides the features, but not where the encoder or the texts happen to be."""
        reading = {key: value for key, value in asdict(self.reading).items() if value != ""}  # no prefix: as in version 0.1
        precision = ["bf16"] if self.in_bf16 else []
        return json.dumps([self.takes, self.fingerprint, reading, *precision], sort_keys=True)

    @property
    def in_bf16(self) -> bool:
        """True if the encoder multiplies in bf16 on its device."""
        return self.half and has_bf16_units(self.device)

    @torch.no_grad()
    def _compute(self, inputs: Any, before: int, total: int) -> Tensor:
        """Run texts, pixels or waves through the encoder."""
        (backbone, tokenizer, size), reading, device = self.load(), cast("Any", self.reading), self.device
        order, ids = list(range(len(inputs))), list[list[int]]()
        if tokenizer is not None:
            texts = (f"{reading.prefix}{text}" for text in inputs)
            ids = tokenizer([text.lower() if reading.lower else text for text in texts], reading.length)
            order.sort(key=lambda row: -len(ids[row]))  # the texts of a batch then need little padding
        listener, at_once = self._listener, AT_ONCE
        if listener is not None:
            at_once = HEARD_AT_ONCE
            order.sort(key=lambda row: len(inputs[row]))  # so that those of one length go together

        def run(chosen: Sequence[int]) -> Tensor:
            if listener is not None:  # not padded: an encoder would hear silence too
                alike = (list(rows) for _, rows in groupby(chosen, key=lambda row: len(inputs[row])))
                return torch.cat([backbone(listener([inputs[row] for row in rows]).to(device)).float() for rows in alike])
            if tokenizer is None:
                return self.encode(backbone, inputs[chosen].to(device).to(memory_format=torch.channels_last))
            tokens = padded([ids[row] for row in chosen], tokenizer.pad)
            mask = torch.arange(tokens.shape[1]) < torch.tensor([len(ids[row]) for row in chosen])[:, None]
            return self.encode(backbone, tokens.to(device), mask.to(device))

        features = torch.empty(len(inputs), size)
        for start in range(0, len(order), at_once):
            chosen = order[start : start + at_once]
            with torch.autocast(device.type, torch.bfloat16, enabled=self.in_bf16):
                features[chosen] = run(chosen).cpu()
            self.progress(before + start + len(chosen), total)
        return features

    def encode(self, backbone: Backbone | TimmBackbone, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Compute features (B, D) of uint8 pixels (B, 3, side, side), or of token ids and their mask (B, L); may be traced."""
        reading = cast("Any", self.reading)
        if mask is None:
            mean, std = (torch.tensor(values, device=inputs.device)[:, None, None] for values in (reading.mean, reading.std))
            pixels: Tensor = backbone((inputs.float() / 255.0 - mean) / std)
            return pixels.float()
        found: Tensor = backbone(inputs, mask, reading.pooling).float()
        return F.normalize(found, dim=1) if reading.normalize else found

    def move(self, encoder: str) -> None:
        """Use the encoder in another place from now on; InputError unless it is the same one."""
        folder = find_encoder(encoder)
        if take_fingerprint(folder) != self.fingerprint:
            raise InputError(
                f"--encoder-path {encoder}: this is another encoder than {self.encoder!r}, which the model was trained with: "
                "its files differ."
            )
        self.encoder, self.revision, self._loaded = str(folder), None, None

    def load(self) -> tuple[Backbone | TimmBackbone, Tokenizer | None, int]:
        """Load the encoder, its tokenizer for texts, and the number of its features; once."""
        if self._loaded is None:
            try:
                folder = find_encoder(self.encoder, self.revision)
            except InputError as error:
                if self.keep:
                    raise
                raise InputError(f"{error} If you have moved it, give its folder with --encoder-path.") from error
            if take_fingerprint(folder) != self.fingerprint:
                raise InputError(
                    f"encoder {self.encoder!r} is not the one that this model was trained with: its files have changed. "
                    "Restore the former files and give their folder with --encoder-path, or train again."
                )
            backbone, heard = load_frozen(folder, self.takes), None
            if isinstance(self.reading, SoundReading):
                self._listener = load_listener(folder)
                heard = self._listener([torch.zeros(self.reading.rate)])
            size = feature_size(backbone, getattr(self.reading, "side", 0), self.encoder, heard)
            self._loaded = backbone, load_tokenizer(folder) if self.takes == "text" else None, size
        backbone = self._loaded[0].to(self.device)
        if self.takes == "image":
            cast("Any", backbone).to(memory_format=torch.channels_last)  # which nn.Module's types leave out
        return self._loaded

    def settings(self) -> dict[str, Any]:
        given = {"of": self.takes, "column": "".join(self.columns), "encoder": self.encoder, "revision": self.revision}
        return {"kind": "encoder", **given, "fingerprint": self.fingerprint, "reading": asdict(self.reading), "half": self.half}

    def tensors(self) -> dict[str, Tensor]:
        if self.origin is None or self.directions is None:
            return {}
        return {"origin": self.origin, "directions": self.directions}

    def describe(self) -> str:
        return f"{self.takes}s as features of the pretrained encoder {self.encoder}"


def fit_text_encoder(
    encoder: str,
    column: str,
    progress: Progress | None = None,
    device: str = "auto",
    most: int | None = None,
    half: bool = True,
) -> EncoderPreparation:
    """Give the preparation of texts by a frozen encoder, in a folder or on the hub.

    Args:
        most: tokens that it reads of a text, and never more than it takes; None: its own limit, up to 256.
        half: multiply in bf16 where the device has units for it.
    """
    found = EncoderPreparation.find(encoder, "text", column, most)
    found.progress, found.device, found.half = progress or _silent, choose_device(device), half
    return found


def fit_sound_encoder(encoder: str, paths: Sequence[Path], names: Sequence[str], *options: Any) -> Prepared:
    """Give the preparation of recordings by a frozen encoder, and the features of all recordings that can be read.

    Args:
        names: of the recordings in findings.
        options: `progress`, `device` and `half`, as for images.
    """
    headers, seconds = look_at(paths)
    found = EncoderPreparation.find(encoder, "sound", seconds=seconds)
    assert isinstance(found.reading, SoundReading)
    made = _fit_to_files(found, paths, names, *options)
    lengths = about_lengths(headers, names, found.reading.rate, found.reading.length) if headers else []
    return made._replace(findings=[*made.findings, *lengths])


def fit_image_encoder(
    encoder: str,
    paths: Sequence[Picture],
    progress: Progress | None = None,
    names: Sequence[str] | None = None,
    device: str = "auto",
    half: bool = True,
) -> Prepared:
    """Give the preparation of images by a frozen encoder, and the features of all images that can be read.

    Args:
        paths: image files, images in memory, or Pillow images.
        names: of the images in findings; None: their paths.
        half: multiply in bf16 where the device has units for it.
    """
    return _fit_to_files(EncoderPreparation.find(encoder, "image"), paths, names, progress, device, half)


def _fit_to_files(
    found: EncoderPreparation,
    paths: Sequence[Picture],
    names: Sequence[str] | None,
    progress: Progress | None,
    device: str,
    half: bool,
) -> Prepared:
    """Read all files, and choose the directions of their features."""
    found.progress, found.device, found.half = progress or _silent, choose_device(device), half
    if len(paths) > 2 * FITTED:
        found.fit_to_some(paths)
        return found.read(paths, names)
    made = found.read(paths, names)
    assert isinstance(made.items, Tensor)
    if len(made.items) > 1:
        found.fit_directions(made.items)
    return made._replace(items=found.reduce(made.items))
