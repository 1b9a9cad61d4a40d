"""Preparations: from the inputs of a source to the items of views and networks, fitted once, saved with the model."""

import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from torch import Tensor

from softmatch.data.pictures import ImageFiles
from softmatch.data.preparations.table import CategoryColumn, NumberColumn
from softmatch.data.records import Finding, InputKind, Inputs
from softmatch.encoders.encoder_folder import ImageReading, Length, Side, SoundReading, TextReading
from softmatch.errors import InputError, explain

__all__ = ["Preparation", "Prepared", "plain_preparation", "preparation_from"]

KINDS = {
    "image": ("images", "ImagePreparation"),
    "array": ("numeric_arrays", "ArrayPreparation"),
    "sound": ("sounds", "SoundPreparation"),
    "table": ("table", "TablePreparation"),
    "tfidf": ("text_preparations", "TfidfPreparation"),
    "encoder": ("encoder_features", "EncoderPreparation"),
    "tokens": ("text_preparations", "TokenPreparation"),
}
"""Module and class of each kind, imported when first used: some need libraries that take seconds to import."""


class Preparation(Protocol):
    """Deterministic; nothing in it depends on labels."""

    @property
    def takes(self) -> InputKind:
        """The kind of inputs."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of a table that it needs; none for images, and for arrays that were not made of a table."""

    def __call__(self, inputs: Inputs) -> Tensor:
        """Make items (n, …): uint8 images (n, C, H, W), float vectors (n, D), series or spectrograms (n, C, T), or others."""

    def settings(self) -> dict[str, Any]:
        """Give JSON from which, with `tensors`, `preparation_from` makes the same object again; has "kind"."""

    def tensors(self) -> dict[str, Tensor]:
        """Give the state that is too large for JSON."""

    def describe(self) -> str:
        """Describe it in a few words: '24 features of 18 columns', 'grey images resized to 32×32'."""


class Prepared(NamedTuple):
    """Items that were made of inputs.

    Attributes:
        kept: positions of the inputs that the items come from.
        contents: SHA-256 digests of the images that the items come from, computed while they were read; None for other kinds.
    """

    preparation: Preparation
    items: Tensor | ImageFiles
    kept: Sequence[int]
    findings: list[Finding]
    contents: list[bytes] | None = None


def preparation_from(settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Preparation:
    """Invert `settings` and `tensors`, for a saved model. Nothing in them is executed."""
    try:
        saved = _ANY.validate_json(json.dumps(settings))
    except ValidationError as error:
        raise InputError(f"the saved preparation is damaged: {explain(error)}") from error
    sizes = {"d": (1,), "t": (2,), "ct": (2,), "any": range(9)}
    if isinstance(saved, _Arrays) and len(saved.shape) not in sizes.get(saved.layout, (3,)):
        raise InputError(f"the saved preparation is damaged: {saved.layout!r} is not a layout of shape {saved.shape}.")
    if isinstance(saved, _Arrays) and saved.grid is not None and len(saved.grid.columns) != saved.shape[0]:
        raise InputError(f"the saved preparation is damaged: it has {len(saved.grid.columns)} columns for shape {saved.shape}.")
    readings = {"text": TextReading, "image": ImageReading, "sound": SoundReading}
    if isinstance(saved, _Encoder) and not isinstance(saved.reading, readings[saved.of]):
        raise InputError("the saved preparation is damaged: it does not say how the encoder reads its inputs.")
    module, name = KINDS[saved.kind]
    try:
        found: Preparation = getattr(importlib.import_module(f"{__name__}.{module}"), name).from_saved(saved, tensors)
    except (KeyError, UnicodeDecodeError) as error:  # only preparations of texts have tensors
        raise InputError(f"the saved preparation of texts is damaged: {type(error).__name__} {error}.") from error
    return found


def plain_preparation(kind: str, shape: Sequence[int]) -> Preparation:
    """Give the preparation of data that came as arrays: images are resized to their size, vectors are taken as they are."""
    if kind == "image":
        channels, height, width = shape
        return preparation_from({"kind": "image", "channels": channels, "height": height, "width": width}, {})
    return preparation_from({"kind": "array", "shape": list(shape), "layout": "d", "brightest": None}, {})


Position = Annotated[int, Field(ge=0, lt=2**31)]
"""Number of a token."""


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Images(_Settings):
    kind: Literal["image"]
    channels: Literal[1, 3]
    height: Side
    width: Side
    resize: Side | None = None
    upright: bool = True


class _Grid(_Settings):
    series: str
    time: str | None
    columns: tuple[str, ...] = Field(min_length=1)
    step: float = Field(gt=0, allow_inf_nan=False)


class _Arrays(_Settings):
    kind: Literal["array"]
    shape: tuple[Annotated[int, Field(ge=1, le=2**31)], ...] = Field(min_length=1, max_length=8)
    layout: Literal["d", "t", "ct", "hw", "hwc", "chw", "any"]
    brightest: Literal[1, 255] | None
    grid: _Grid | None = None


class _Sounds(_Settings):
    kind: Literal["sound"]
    rate: Annotated[int, Field(ge=100, le=2**20)]
    length: Annotated[int, Field(ge=8, le=2**25)]
    shape: tuple[Annotated[int, Field(ge=8, le=1024)], Annotated[int, Field(ge=8, le=2**16)]]


class _Table(_Settings):
    kind: Literal["table"]
    columns: list[Annotated[NumberColumn | CategoryColumn, Field(discriminator="form")]] = Field(min_length=1)


class _Tfidf(_Settings):
    kind: Literal["tfidf"]
    column: str


class _Tokens(_Settings):
    kind: Literal["tokens"]
    column: str
    encoder: str
    length: Length
    lower: bool
    pad: Position
    mask: Position | None
    special: list[Position]


class _Encoder(_Settings):
    kind: Literal["encoder"]
    of: Literal["text", "image", "sound"]
    column: str
    encoder: str
    revision: str | None
    fingerprint: str
    reading: TextReading | ImageReading | SoundReading
    half: bool = False  # models of before computed in float32


_ANY: TypeAdapter[Any] = TypeAdapter(
    Annotated[_Images | _Arrays | _Sounds | _Table | _Tfidf | _Tokens | _Encoder, Field(discriminator="kind")]
)
