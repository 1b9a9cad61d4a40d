"""Checks of the settings of saved views, which may come from an untrusted file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

from softmatch.errors import InputError, explain

__all__ = ["check_settings"]

Positive = Annotated[FiniteFloat, Field(ge=0)]
Id = Annotated[int, Field(ge=0, lt=2**31)]
"""Id of a token."""


class _Settings(BaseModel):
    """Missing settings have defaults; the views themselves check shares."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Image(_Settings):
    kind: Literal["image"]
    mean: list[FiniteFloat] = Field(min_length=1)
    std: list[Positive] = Field(min_length=1)
    pad: Annotated[int, Field(ge=0, le=2**14)] = 0
    flip: bool = True
    reflect: bool = True
    operations: Annotated[int, Field(ge=0, le=1000)] = 0
    names: list[str] = Field(default=["identity"], min_length=1)
    cutout: FiniteFloat = 0.0
    order: str = ""


class _Text(_Settings):
    kind: Literal["text"]
    pad: Id
    mask: Id | None = None
    special: list[Id] = []
    weak: FiniteFloat = 0.0
    strong: FiniteFloat = 0.0
    replace: FiniteFloat = 0.0
    swap: FiniteFloat = 0.0
    drop: FiniteFloat = 0.0
    span: FiniteFloat = 0.0


class _Vector(_Settings):
    kind: Literal["vector"]
    mean: list[FiniteFloat] = Field(min_length=1)
    std: list[Positive] = Field(min_length=1)
    weak_noise: Positive = 0.0
    strong_noise: Positive = 0.0
    swap: FiniteFloat = 0.0
    drop: FiniteFloat = 0.0


_ANY: TypeAdapter[Any] = TypeAdapter(Annotated[_Image | _Text | _Vector, Field(discriminator="kind")])


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise InputError for settings that views cannot have saved."""
    try:
        found = _ANY.validate_json(json.dumps(settings))
    except ValidationError as error:
        raise InputError(f"the saved preprocessing cannot be used: {explain(error)}") from error
    if not isinstance(found, _Text) and len(found.mean) != len(found.std):
        raise InputError(f"the saved preprocessing cannot be used: {len(found.mean)} means, {len(found.std)} deviations.")
