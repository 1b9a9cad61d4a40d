"""The folder of a pretrained encoder: its place, its settings and its fingerprint. Nothing in it is executed."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, FiniteFloat

from softmatch.encoders.downloads import FILES
from softmatch.encoders.model_folder import Kind, find_model, model_fingerprint, read_json
from softmatch.encoders.named import NAMED, resolve
from softmatch.errors import InputError, nearest

CONVERT = "import transformers as t; t.AutoModel.from_pretrained('OLD').save_pretrained('NEW')"
MOST_TOKENS = 256
USUAL_MEAN, USUAL_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""ImageNet's statistics, the default for encoders that do not state their own."""
USUAL_SIDE = 224
LARGEST_SIDE = 2**13
"""Upper bound of a plausible image side: a larger number is a mistake and would take all memory."""
Side = Annotated[int, Field(ge=1, le=2**14)]
"""Side of an image, in pixels."""
Length = Annotated[int, Field(ge=1, le=2**16)]
"""Length of a text, in tokens."""
Channels = Annotated[tuple[FiniteFloat, ...], Field(min_length=3, max_length=3)]
STRICT = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True)
class TextReading:
    """Settings with which an encoder turns a text into one vector.

    Attributes:
        pooling: mean of all tokens' vectors, or the first token's.
        normalize: scale the vector to length 1.
        length: maximum number of tokens; longer texts are truncated.
    """

    __pydantic_config__ = STRICT
    pooling: Literal["mean", "cls"]
    normalize: bool
    length: Length
    lower: bool
    prefix: Annotated[str, Field(max_length=99)] = ""


@dataclass(frozen=True)
class ImageReading:
    """Images as an encoder expects them: pixel values in 0 … 1, minus `mean`, over `std`, in a square of `side` pixels."""

    __pydantic_config__ = STRICT
    mean: Channels
    std: Channels
    side: Side


@dataclass(frozen=True)
class SoundReading:
    """Sounds as an encoder expects them, in one channel.

    Attributes:
        rate: samples in a second.
        length: samples that are used at most, of the middle.
    """

    __pydantic_config__ = STRICT
    rate: Annotated[int, Field(ge=100, le=2**20)]
    length: Annotated[int, Field(ge=1, le=2**25)]


def _absent(folder: Path) -> str:
    if folder.is_dir():
        return "it has no config.json, so it is not the folder of a pretrained encoder."
    what = "is a file" if folder.exists() else "does not exist"
    return f"the folder {what}. Give the folder of an encoder, its id on the Hugging Face hub, or one of: {', '.join(NAMED)}."


ENCODER = Kind(
    noun="encoder",
    indefinite="a pretrained encoder",
    extra="text",
    files=FILES,
    absent=_absent,
    conversion=lambda name: f": python -c {CONVERT!r}, and copy its other files too.",
    copies="give the folder of a local copy.",
    usable="Choose an encoder that the transformers library supports itself.",
)


def find_encoder(encoder: str, revision: str | None = None) -> Path:
    """Give the folder of an encoder, which is a folder, a name of `softmatch encoders`, an id of the hub, or timm:NAME."""
    name, pinned = resolve(encoder)
    try:
        return find_model(ENCODER, name, revision or pinned)
    except InputError as error:
        close = nearest(encoder, NAMED)
        raise (InputError(f"{error} {close}") if close.startswith("Did") else error) from error


take_fingerprint = partial(model_fingerprint, ENCODER)
"""sha256 over all files that determine the features; it is the same for every copy of an encoder."""


def read_text_settings(folder: Path, most: int = MOST_TOKENS, prefix: str = "") -> TextReading:
    """Text settings as sentence-transformers saves them; its defaults for other encoders.

    Pooling (mean or first token), length, case and a final normalisation are followed; dense layers are not, because the
    classifier has its own linear layers.

    Args:
        most: upper bound of the length in tokens.
    """
    pooling, sentence = read_json(folder, "1_Pooling/config.json"), read_json(folder, "sentence_bert_config.json")
    modules = read_json(folder, "modules.json")
    first = pooling.get("pooling_mode_cls_token") is True or pooling.get("pooling_mode") == "cls"
    listed = modules.get("list")
    types = [str(part.get("type")) for part in listed if isinstance(part, dict)] if isinstance(listed, list) else []
    normalize = any(name.endswith("Normalize") for name in types)
    tokenizer, config = read_json(folder, "tokenizer_config.json"), read_json(folder, "config.json")
    known = (sentence.get("max_seq_length"), tokenizer.get("model_max_length"), config.get("max_position_embeddings"))
    length = min([most, *(int(number) for number in known if isinstance(number, int | float) and number >= 4)])
    return TextReading("cls" if first else "mean", normalize, length, sentence.get("do_lower_case") is True, prefix)


def read_sound_rate(folder: Path) -> int:
    """Sampling rate from preprocessor_config.json, which encoders of sounds have."""
    found = read_json(folder, "preprocessor_config.json").get("sampling_rate")
    if not isinstance(found, int) or not 100 <= found <= 2**20:
        raise InputError(f"encoder {folder} is not for recordings: its preprocessor_config.json has no sampling_rate.")
    return found


def read_image_settings(folder: Path) -> ImageReading:
    """Image settings from preprocessor_config.json. Whole images are resized to the final square, not cropped to it."""
    found = read_json(folder, "preprocessor_config.json")
    if not found and isinstance(timm := read_json(folder, "config.json").get("pretrained_cfg"), dict):
        found = {f"image_{key}": timm[key] for key in ("mean", "std") if key in timm} | {"size": timm.get("input_size", [0])[-1:]}
    size = found.get("crop_size") if found.get("do_center_crop") else found.get("size")
    size = size or found.get("size") or read_json(folder, "config.json").get("image_size") or USUAL_SIDE
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
