"""The folder of a pretrained encoder: where it is, what its files say, and their fingerprint. Nothing in it is executed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from softmatch.data.places import expand_home
from softmatch.errors import InputError
from softmatch.foreign_text import parse_json, read_text

__all__ = [
    "ImageReading",
    "TextReading",
    "find_encoder",
    "missing_extra",
    "read_image_settings",
    "read_settings",
    "read_text_settings",
    "take_fingerprint",
]

WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors")
FILES = (
    "config.json",
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.txt", "vocab.json", "merges.txt", "sentencepiece.bpe.model", "spiece.model", "spm.model", "tokenizer.model"),
    *("modules.json", "sentence_bert_config.json", "1_Pooling/config.json"),
    "preprocessor_config.json",
)
"""What decides the features, besides the weights: all that is fetched from the hub, and all that the fingerprint is of."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
CONVERT = "import transformers as t; t.AutoModel.from_pretrained('OLD').save_pretrained('NEW')"
MOST_TOKENS = 256
USUAL_MEAN, USUAL_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet, which an encoder that does not say otherwise was trained on."""
USUAL_SIDE = 224
LARGEST_SIDE = 2**13
"""More pixels than any encoder takes: a number beyond is a mistake, and would take all memory."""


@dataclass(frozen=True)
class TextReading:
    """How an encoder makes one vector of a text.

    Attributes:
        pooling: the mean of all tokens' vectors, or the first token's.
        normalize: scale the vector to length 1.
        length: most tokens; what is longer is cut off.
        lower: put the text into lower case first.
    """

    pooling: Literal["mean", "cls"]
    normalize: bool
    length: int
    lower: bool


@dataclass(frozen=True)
class ImageReading:
    """What an encoder expects of images: pixel values in 0 … 1, minus `mean`, over `std`, in a square of `side` pixels."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    side: int

    @classmethod
    def from_saved(cls, values: Mapping[str, Any]) -> ImageReading:
        """From JSON, which has lists for tuples."""
        return cls(tuple(values["mean"]), tuple(values["std"]), int(values["side"]))


def find_encoder(encoder: str, revision: str | None = None) -> Path:
    """The folder of an encoder, which is fetched from the hub and kept in its library's cache where it is no folder here.

    Args:
        encoder: a folder, or an id of the Hugging Face hub.
        revision: the commit on the hub; by default the newest one.

    Raises:
        InputError: there is none, or its weights are pickled: those can execute anything when they are read.
    """
    folder = expand_home(encoder)
    if not folder.exists() and HUB_ID.fullmatch(encoder):
        folder = _fetch(encoder, revision)
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise InputError(
            f"encoder {encoder!r}: the folder {what}. Give the folder of an encoder, or its id on the Hugging Face hub."
        )
    if not (folder / "config.json").is_file():
        raise InputError(f"encoder {encoder!r}: there is no config.json in it: this is not a folder of a pretrained encoder.")
    if not any(folder.glob("model*.safetensors")):
        raise InputError(
            f"encoder {encoder!r} has no weights as model.safetensors; other formats can run code when they are read, and are "
            f"not opened. If you trust where it comes from, convert it: python -c {CONVERT!r}, and copy its other files too."
        )
    return folder.resolve()


@cache  # once in a process: each time, the hub is asked whether there is a newer one
def _fetch(encoder: str, revision: str | None) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise missing_extra(f"encoder {encoder!r} is no folder here; fetching it from the Hugging Face hub") from error
    try:
        return Path(snapshot_download(encoder, revision=revision, allow_patterns=[*FILES, *WEIGHTS]))
    except Exception as error:  # the network, the hub, its library: each has errors of its own
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(
            f"encoder {encoder!r} is no folder here, and cannot be had from the Hugging Face hub: {reason}. Check the name and "
            "the connection, or give the folder of a copy that you have."
        ) from error


def missing_extra(what: str) -> InputError:
    """`what` needs the libraries of the extra `text`."""
    return InputError(f"{what} needs further libraries: pip install 'softmatch[text]'.")


def take_fingerprint(folder: Path) -> str:
    """sha256 over all files that decide the features; copies of an encoder have the same one wherever they lie."""
    found = [folder / name for name in FILES if (folder / name).is_file()]
    found += sorted(path for pattern in WEIGHTS for path in folder.glob(pattern))
    total = hashlib.sha256()
    for path in found:
        with path.open("rb") as stream:
            total.update(f"{path.relative_to(folder).as_posix()} {hashlib.file_digest(stream, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()


def read_settings(folder: Path) -> dict[str, Any]:
    """What the model's own config.json says."""
    return _json(folder, "config.json")


def read_text_settings(folder: Path, most: int = MOST_TOKENS) -> TextReading:
    """As sentence-transformers saves them, with its defaults where the encoder is not from there.

    Mean and first-token pooling, the length, the case and a final normalisation are followed; dense layers are not: the
    classifier has linear layers of its own.

    Args:
        most: tokens of a text, where the encoder takes so many.
    """
    pooling, sentence = _json(folder, "1_Pooling/config.json"), _json(folder, "sentence_bert_config.json")
    modules = _json(folder, "modules.json")
    first = pooling.get("pooling_mode_cls_token") is True or pooling.get("pooling_mode") == "cls"
    listed = modules.get("list")
    parts = [part for part in listed if isinstance(part, dict)] if isinstance(listed, list) else []
    normalize = any(str(part.get("type", "")).endswith("Normalize") for part in parts)
    tokenizer, config = _json(folder, "tokenizer_config.json"), _json(folder, "config.json")
    known = (sentence.get("max_seq_length"), tokenizer.get("model_max_length"), config.get("max_position_embeddings"))
    length = min([most, *(int(number) for number in known if isinstance(number, int | float) and number >= 4)])
    return TextReading("cls" if first else "mean", normalize, length, sentence.get("do_lower_case") is True)


def read_image_settings(folder: Path) -> ImageReading:
    """From preprocessor_config.json. Images are resized to the final square as a whole, instead of being cropped to it."""
    found = _json(folder, "preprocessor_config.json")
    size = found.get("crop_size") if found.get("do_center_crop") else found.get("size")
    size = size or found.get("size") or _json(folder, "config.json").get("image_size") or USUAL_SIDE
    if isinstance(size, dict):
        size = size.get("height") or size.get("shortest_edge") or USUAL_SIDE
    side: Any = size[0] if isinstance(size, list) and size else size
    normalized = found.get("do_normalize", True)
    mean = found.get("image_mean", USUAL_MEAN) if normalized else (0.0,) * 3
    std = found.get("image_std", USUAL_STD) if normalized else (1.0,) * 3
    try:
        # (v·f − o − mean)/std for a level v in 0 … 255 is (v/255 − (mean + o)/255f)/(std/255f)
        factor = 255.0 * (found.get("rescale_factor", 1 / 255) if found.get("do_rescale", True) else 1.0)
        offset = 1.0 if found.get("rescale_offset") else 0.0
        means, stds = (tuple(float(value) for value in values) for values in (mean, std))
        if not (len(means) == len(stds) == 3 and min(stds) > 0 and 0 < int(side) <= LARGEST_SIDE and factor > 0):
            raise ValueError(f"mean {mean}, std {std}, size {side}")
        return ImageReading(tuple((m + offset) / factor for m in means), tuple(s / factor for s in stds), int(side))
    except (TypeError, ValueError) as error:
        raise InputError(f"{folder / 'preprocessor_config.json'} cannot be used: {error}.") from error


def _json(folder: Path, name: str) -> dict[str, Any]:
    """The content of a file of settings, {} where there is none; a list stands under "list"."""
    path = folder / name
    if not path.is_file():
        return {}
    found = parse_json(read_text(path), path)
    return found if isinstance(found, dict) else {"list": found}
