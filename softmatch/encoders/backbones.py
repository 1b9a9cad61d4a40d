"""Pretrained encoders of the transformers library as torch modules that turn a text, an image or a recording into one vector.

No code that comes with an encoder is ever run, and weights are read as safetensors only.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from softmatch.encoders.encoder_folder import ENCODER
from softmatch.encoders.layers import Layers, only_last, run_below
from softmatch.encoders.model_folder import SAFELY, import_transformers, load_pretrained, quiet, read_json, refuse_fetching
from softmatch.errors import InputError, first_line

Modality = Literal["text", "image", "sound"]
HALVES: Mapping[Modality, str] = {"text": "text_model", "image": "vision_model", "sound": "audio_model"}
"""Names of the part for a modality in models that have several."""
UNKEPT = ("_name_or_path", "transformers_version")
"""Settings of a model that only state its place and its origin."""


class Backbone(nn.Module):
    """The part of a pretrained model that reads one modality, with pooling.

    Args:
        model: the model made by transformers.
        of: the modality. For a model with both, like CLIP, the other half is left out; for a translator, like T5, the decoder.
        pooler: use the model's own pooling layer. It is never used for texts, where it is trained for another purpose, if at all.

    Attributes:
        config: the model's settings, as JSON.
        layers: its layers, if they were looked for.
        grid: height and width of the positions in `below`, for an encoder of convolutions.
    """

    def __init__(self, model: Any, of: Modality, pooler: bool = True) -> None:
        super().__init__()
        self.layers: Layers | None = None
        self.grid: tuple[int, int] | None = None
        self._still: list[nn.Module] = []
        self.of, self.config = of, {key: value for key, value in model.config.to_dict().items() if key not in UNKEPT}
        part = model.get_encoder() if self.config.get("is_encoder_decoder") else model
        self.model = getattr(part, HALVES[of], part)
        self.pooler = pooler and of != "text"
        if not self.pooler and isinstance(getattr(self.model, "pooler", None), nn.Module):
            self.model.pooler = None
        self._takes_vectors = "inputs_embeds" in inspect.signature(self.model.forward).parameters

    def train(self, mode: bool = True) -> "Backbone":
        """Set the mode; frozen modules stay in evaluation mode."""
        super().train(mode)
        for module in self._still:
            module.training = False
        return self

    def freeze(self, tuned: int | None = None, option: str = "--tuned-layers") -> None:
        """Train only the last `tuned` layers and the modules after them.

        The frozen part has no dropout, so its output for an input is always the same, and autograd stores nothing for it.

        Args:
            tuned: number of layers; None: no parameter is trained, but only batch normalisation is in evaluation mode.
        """
        if tuned is None:
            self._still = [module for module in self.modules() if isinstance(module, _BatchNorm)]
            self.model.requires_grad_(False)
            return
        if tuned and self.layers is None:
            raise InputError(f"{option}: no layers were found in this encoder. Use --tune head, or --tune all without it.")
        if self.layers is not None and tuned > self.layers.number:
            raise InputError(f"{option}: this encoder has {self.layers.number} layers. Give fewer, or --tune all.")

        def is_tuned(name: str) -> bool:
            return self.layers is not None and 0 < tuned >= self.layers.depth(name)

        self._still = [module for name, module in self.model.named_modules() if not is_tuned(name)]
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(is_tuned(name))

    def forward(self, inputs: Tensor, mask: Tensor | None = None, pooling: str = "mean", dropout: float = 0.0) -> Tensor:
        """(B, D) of images (B, 3, H, W), of token ids (B, L), or of what a `Listener` makes of sounds.

        Args:
            mask: for texts, (B, L), true for tokens. A token with a negative id has the zero vector as its word embedding.
            pooling: for texts, "mean" or "cls".
            dropout: dropout rate in training, of the tokens' vectors or of an image's vector.
        """
        pooled = self._read_text(inputs, mask, pooling, dropout) if self.of == "text" else self._read_signal(inputs)
        return F.dropout(pooled, dropout, self.training and self.of == "image")

    def below(self, last: int, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D): input of the last layers at all positions, which are tokens, patches, or pixels of a map of features.

        Args:
            last: number of these layers.
            inputs, mask: as in `forward`.
        """
        assert self.layers is not None
        given = {"pixel_values": inputs} if mask is None else {**self._words(inputs), "attention_mask": mask.long()}
        hidden = run_below(self.model, self.layers, last, lambda: self.model(**given))
        self.grid = (hidden.shape[2], hidden.shape[3]) if hidden.ndim == 4 else None
        return hidden if self.grid is None else hidden.flatten(2).transpose(1, 2)

    def above(self, last: int, hidden: Tensor, inputs: Tensor, mask: Tensor | None = None, *options: Any) -> Tensor:
        """(B, D), as `forward` computes it, from the input of the last layers.

        Args:
            hidden: result of `below`, for other items too.
            inputs: of the shape that these items have; values do not matter. One image serves for all.
            mask, options: further arguments of `forward`.
        """
        assert self.layers is not None
        if self.grid is not None:
            hidden = hidden.reshape(len(hidden), *self.grid, -1).permute(0, 3, 1, 2)  # channels last in memory
        with only_last(self.model, self.layers, last, hidden):
            found: Tensor = self(inputs, mask, *options)
        return found

    @torch.no_grad()
    def refuse_uncut(self, last: int, side: int, name: object) -> None:
        """Raise InputError unless `above` of `below` is `forward`, on a trial input."""
        inputs, mask = torch.arange(8).view(2, 4) % 5, torch.arange(4) < torch.tensor([[4], [2]])
        pixels = torch.linspace(-1.0, 1.0, 6 * side * side).view(2, 3, side, side)
        given = (inputs, mask) if self.of == "text" else (pixels, None)
        try:
            whole = self(*given)
            parts = self.above(last, self.below(last, *given), given[0][: 1 if self.of == "image" else None], given[1])
            same = torch.allclose(whole, parts, rtol=1e-3, atol=1e-3 * float(whole.abs().max()))
        except Exception:  # each model of the library has its own errors
            same = False
        if not same:
            raise InputError(
                f"--tune last-{last}: the layers of encoder {name} cannot be computed one after the other. Use --tune lora, "
                "--tune all or --tune head."
            )

    def _read_text(self, inputs: Tensor, mask: Tensor | None, pooling: str, dropout: float) -> Tensor:
        assert mask is not None
        found = self.model(**self._words(inputs), attention_mask=mask.long())
        states = F.dropout(found.last_hidden_state, dropout, self.training)
        if pooling == "cls":
            return states[:, 0]
        weight = mask.to(states.dtype)[..., None]
        return (states * weight).sum(1) / weight.sum(1)

    def _words(self, inputs: Tensor) -> dict[str, Tensor]:
        """Ids, or word embeddings if some ids are negative; a trace in training cannot depend on ids and uses embeddings."""
        without = inputs < 0
        if not (self.training and self._takes_vectors if is_traced() else bool(without.any())):
            return {"input_ids": inputs.long()}
        if not self._takes_vectors:
            raise InputError("this encoder takes whole words only: choose views without span cutoff (--views.span 0).")
        vectors: Tensor = self.model.get_input_embeddings()(inputs.clamp_min(0))
        return {"inputs_embeds": vectors.masked_fill(without[..., None], 0.0)}

    def _read_signal(self, inputs: Tensor) -> Tensor:
        out = self.model(**{"pixel_values" if self.of == "image" else self.model.main_input_name: inputs})
        if (pooled := getattr(out, "pooler_output", None)) is not None:
            return pooled.flatten(1)  # type: ignore[no-any-return]  # the library's output is untyped
        states: Tensor = out.last_hidden_state
        return states.mean((2, 3)) if states.ndim == 4 else states.mean(1)


def is_traced() -> bool:
    """True while torch traces or compiles the computation, which must then not depend on values."""
    tracing: bool = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]  # missing in torch's stubs
    return tracing or torch.compiler.is_compiling()


LISTED = "choose another encoder: `softmatch encoders` lists some."


class TimmBackbone(nn.Module):
    """A model of the library timm without its classifier, which turns an image into one vector."""

    of: Modality = "image"

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, D) of images (B, 3, H, W)."""
        return self.model(inputs).flatten(1)  # type: ignore[no-any-return]  # the library is untyped


def _load_timm(folder: Path, settings: Mapping[str, Any]) -> TimmBackbone:
    """The model of timm in a folder. Its weights are read here: timm itself would also read pickles and fetch other files."""
    try:
        import timm
    except Exception as error:  # ImportError, or an error of torchvision's, if that was built for another torch
        raise InputError(
            f"encoder {folder} is a model of timm, which cannot be imported: {first_line(error).rstrip('.')}. Run `pip install "
            f"timm` with a torchvision for this torch, or {LISTED}"
        ) from error
    name, options = str(settings["architecture"]), settings.get("model_args") or {}
    plain = isinstance(options, dict) and all(isinstance(value, int | float) for value in options.values())
    if not plain or not re.fullmatch(r"\w+", name):
        raise InputError(f"encoder {folder} cannot be used: its config.json asks timm for other files: {name[:99]!r}, {options}.")
    try:
        model = timm.create_model(name, pretrained=False, num_classes=0, **options)
        found = model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    except Exception as error:  # each model of the library has its own errors
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise InputError(f"encoder {folder} cannot be used by this timm: {reason}. Update timm, or {LISTED}") from error
    if found.missing_keys:
        raise ENCODER.incomplete(folder, found.missing_keys)
    return TimmBackbone(model).float().eval()


def load_frozen(folder: Path, of: Modality) -> "Backbone | TimmBackbone":
    """The encoder in a folder, of transformers or of timm, with float32 weights, in evaluation mode."""
    settings = read_json(folder, "config.json")
    if "architecture" not in settings or "model_type" in settings:
        return load_backbone(folder, of)
    if of != "image":
        raise InputError(f"encoder {folder} is a model of timm, for images only.")
    return _load_timm(folder, settings)


def load_backbone(folder: Path, of: Modality) -> Backbone:
    """The encoder of transformers in a folder, with float32 weights, in evaluation mode."""
    model, missing = load_pretrained(ENCODER, "AutoModel", folder, torch.float32)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    pooler = not any("pooler." in name for name in missing)
    backbone = Backbone(model, of, pooler)
    lost = [names[id(parameter)] for parameter in backbone.parameters() if names[id(parameter)] in missing]
    if lost:
        raise ENCODER.incomplete(folder, lost)
    return backbone.eval()


@torch.no_grad()
def feature_size(backbone: Backbone | TimmBackbone, side: int, name: object, heard: Tensor | None = None) -> int:
    """D, found by a trial pass, because models have many names for it.

    Args:
        side: side of the trial image.
        name: name of the encoder, for the message.
        heard: what an encoder of sounds is given instead.
    """
    ids = torch.zeros(1, 2, dtype=torch.int64)
    try:
        trial = torch.zeros(1, 3, side, side) if heard is None else heard
        found: Tensor = backbone(ids, ids == 0) if backbone.of == "text" else backbone(trial)
    except Exception as error:  # each model of the library has its own errors
        message = f"encoder {name} cannot read {backbone.of}s; is it for another kind of data? {first_line(error)}"
        raise InputError(message) from error
    return found.shape[1]


def make_backbone(config: Mapping[str, Any], of: Modality, pooler: bool) -> Backbone:
    """An encoder with these settings and random weights, into which saved ones can be loaded."""
    transformers = import_transformers(ENCODER)
    refuse_fetching(config, "encoder the saved network")
    rest = dict(config)
    try:
        with quiet():
            made = transformers.AutoConfig.for_model(rest.pop("model_type"), **rest)
            return Backbone(transformers.AutoModel.from_config(made, dtype=torch.float32, trust_remote_code=False), of, pooler)
    except Exception as error:  # each model of the library has its own errors
        raise ENCODER.unusable("the saved network", error) from error


@dataclass(frozen=True)
class Tokenizer:
    """Texts to token ids.

    Attributes:
        mask: id of the mask token; None: the encoder has none.
        special: ids that are not words: start, end, padding, mask.
    """

    rules: Any
    pad: int
    mask: int | None
    special: tuple[int, ...]

    @classmethod
    def from_saved(cls, rules: str, pad: int, mask: int | None, special: Sequence[int]) -> "Tokenizer":
        """Inverse of `rules.to_str()` and the rest."""
        try:
            import tokenizers
        except ImportError as error:
            raise ENCODER.missing(ENCODER.indefinite) from error
        try:
            return cls(tokenizers.Tokenizer.from_str(rules), pad, mask, tuple(special))
        except Exception as error:  # the library has no specific error class
            raise InputError(f"the saved tokenizer is damaged: {error}.") from error

    def __call__(self, texts: Sequence[str], length: int) -> list[list[int]]:
        """The ids of each text, between one and `length` of them."""
        self.rules.no_padding()
        self.rules.enable_truncation(length)
        return [found.ids or [self.pad] for found in self.rules.encode_batch_fast(list(texts))]


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer in an encoder's folder."""
    transformers = import_transformers(ENCODER)
    try:
        with quiet():
            found = transformers.AutoTokenizer.from_pretrained(folder, **SAFELY)
        rules = found.backend_tokenizer
    except Exception as error:  # each tokenizer of the library has its own errors
        raise ENCODER.unusable(folder, error) from error
    pad = next((value for value in (found.pad_token_id, found.eos_token_id) if value is not None), 0)
    return Tokenizer(rules, pad, found.mask_token_id, tuple(sorted({pad, *found.all_special_ids})))


Listener = Callable[[Sequence[Tensor]], Tensor]
"""Waves of one length → the input of an encoder."""


def load_listener(folder: Path) -> Listener:
    """The function in an encoder's folder that turns sounds into its input: scaled samples, or a spectrogram."""
    transformers = import_transformers(ENCODER)
    try:
        with quiet():
            found = transformers.AutoFeatureExtractor.from_pretrained(folder, **SAFELY)
    except Exception as error:  # each model of the library has its own errors
        raise ENCODER.unusable(folder, error) from error

    def listen(waves: Sequence[Tensor]) -> Tensor:
        made = found([wave.numpy() for wave in waves], sampling_rate=found.sampling_rate, return_tensors="pt")
        return made[found.model_input_names[0]].float()  # type: ignore[no-any-return]  # the library is untyped

    return listen


def padded(ids: Sequence[Sequence[int]], pad: int, length: int | None = None) -> Tensor:
    """int32 (n, length), padded on the right; by default to the longest text."""
    filled = np.full((len(ids), length or max(map(len, ids))), pad, dtype=np.int32)
    for row, found in zip(filled, ids, strict=True):
        row[: len(found)] = found
    return torch.from_numpy(filled)


def fit_images(images: Tensor, side: int) -> Tensor:
    """Convert float images (B, C, H, W) to three channels of side × side pixels."""
    if images.shape[1] == 1:
        images = images.expand(-1, 3, -1, -1)
    if images.shape[-2:] == (side, side):
        return images
    return F.interpolate(images, (side, side), mode="bilinear", antialias=True)
