"""Schema of the settings of saved preparations: a foreign file can hold anything, and only what fits is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

from softmatch.errors import InputError, explain

__all__ = ["check_settings"]

Side = Annotated[int, Field(ge=1, le=2**14)]
"""Side of an image, in pixels."""
Length = Annotated[int, Field(ge=1, le=2**16)]
"""Length of a text, in tokens."""
Position = Annotated[int, Field(ge=0, lt=2**31)]
"""Number of a token."""
Channels = Annotated[list[FiniteFloat], Field(min_length=3, max_length=3)]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Images(_Settings):
    kind: Literal["image"]
    channels: Literal[1, 3]
    height: Side
    width: Side
    resize: Side | None = None
    upright: bool = True


class _Arrays(_Settings):
    kind: Literal["array"]
    shape: list[Annotated[int, Field(ge=1, le=2**31)]] = Field(min_length=1, max_length=3)
    layout: Literal["d", "hw", "hwc", "chw"]
    brightest: Literal[1, 255] | None


class _Numbers(_Settings):
    name: str
    form: Literal["number", "date"]
    fill: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat
    scale: FiniteFloat
    indicator: bool


class _Categories(_Settings):
    name: str
    form: Literal["category"]
    categories: list[str]
    other: bool
    indicator: bool


class _Table(_Settings):
    kind: Literal["table"]
    columns: list[Annotated[_Numbers | _Categories, Field(discriminator="form")]] = Field(min_length=1)


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


class _TextReading(_Settings):
    pooling: Literal["mean", "cls"]
    normalize: bool
    length: Length
    lower: bool


class _ImageReading(_Settings):
    mean: Channels
    std: Channels
    side: Side


class _Encoder(_Settings):
    kind: Literal["encoder"]
    of: Literal["text", "image"]
    column: str
    encoder: str
    revision: str | None
    fingerprint: str
    reading: _TextReading | _ImageReading


_ANY: TypeAdapter[Any] = TypeAdapter(
    Annotated[_Images | _Arrays | _Table | _Tfidf | _Tokens | _Encoder, Field(discriminator="kind")]
)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise InputError for settings that no preparation has saved."""
    try:
        found = _ANY.validate_json(json.dumps(settings))
    except ValidationError as error:
        raise InputError(f"the saved preparation is damaged: {explain(error)}") from error
    if isinstance(found, _Arrays) and len(found.shape) != (1 if found.layout == "d" else 3):
        raise InputError(f"the saved preparation is damaged: {found.layout!r} is not a layout of shape {found.shape}.")
    if isinstance(found, _Encoder) and isinstance(found.reading, _ImageReading) != (found.of == "image"):
        raise InputError("the saved preparation is damaged: it does not say how the encoder reads its inputs.")
