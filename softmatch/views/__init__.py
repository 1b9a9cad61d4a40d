"""ω and Ω: the weak and strong views of each modality, computed for whole batches on the device."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError
from torch import Generator, Tensor

from softmatch.errors import InputError, explain
from softmatch.views.image import ImageViews
from softmatch.views.text import TextViews
from softmatch.views.vector import VectorViews

__all__ = ["ImageViews", "TextViews", "VectorViews", "Views", "views_from_settings"]


class Views(Protocol):
    """Interface of every modality: raw items (B, …) in, network input out. The same generator state gives the same view.

    With `part`, only these rows of the view are made, equal bit for bit to those of the whole batch: if several processes share
    a batch, each makes its own rows.
    """

    kind: str

    def plain(self, items: Tensor) -> Tensor:
        """The input for evaluation: no randomness."""

    def weak(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        """ω: small changes that certainly keep the label."""

    def medium(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        """Changes between ω and Ω (SequenceMatch)."""

    def strong(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        """Ω: large changes that keep the label."""

    def settings(self) -> dict[str, Any]:
        """Numbers and strings from which `views_from_settings` restores the object."""


def views_from_settings(settings: Mapping[str, Any]) -> Views:
    """Inverse of `Views.settings`, for a saved model."""
    rest = dict(settings)
    kind = rest.pop("kind", None)
    kinds: dict[str, type[ImageViews] | type[TextViews] | type[VectorViews]]
    kinds = {"image": ImageViews, "text": TextViews, "vector": VectorViews}
    if not isinstance(kind, str) or kind not in kinds:
        raise InputError(f"unknown kind of preprocessing {str(kind)[:99]!r}; this version has {sorted(kinds)}.")
    check_settings(settings)
    try:
        return kinds[kind](**rest)
    except TypeError as error:
        raise InputError(f"the saved preprocessing cannot be used: {error}") from error


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
