"""ω and Ω: the weak and strong views of each modality, computed for whole batches on the device."""

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Generator, Tensor

from softmatch.errors import InputError
from softmatch.views.image import ImageViews
from softmatch.views.own_views import OWN, OwnCode, OwnViews
from softmatch.views.series import SeriesViews
from softmatch.views.text import TextViews
from softmatch.views.vector import VectorViews

__all__ = ["ImageViews", "OwnViews", "SeriesViews", "TextViews", "VectorViews", "Views", "views_from_settings"]


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


KINDS: dict[str, type[ImageViews] | type[OwnViews] | type[SeriesViews] | type[TextViews] | type[VectorViews]]
KINDS = {"array": OwnViews, "image": ImageViews, "series": SeriesViews, "text": TextViews, "vector": VectorViews}


def views_from_settings(settings: Mapping[str, Any], own: OwnCode | None = None) -> Views:
    """Inverse of `Views.settings`, for a saved model. Raises InputError for settings that views cannot have saved.

    Args:
        own: code of the user's own views, for settings of such. The name in the settings is not followed: it would let a folder
            choose which code runs.
    """
    given = {name: value for name, value in settings.items() if name != "kind"}
    kind = settings.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(f"unknown kind of preprocessing {str(kind)[:99]!r}; this version has {sorted(KINDS)}.")
    if kind == OwnViews.kind:
        if own is None:
            raise InputError(
                f"it has views of your own, {str(given.get(OWN))[:99]}. Name them as `views`, --views on the command line."
            )
        given[OWN] = own
    elif own is not None:
        raise InputError("it has no views of your own. Leave out `views`.")
    try:
        for name in given.keys() & {"mean", "std"}:
            numbers = torch.tensor(given[name], dtype=torch.float64)
            fits = numbers.isfinite() & ((numbers >= 0) | (name == "mean"))
            if numbers.ndim != 1 or not 0 < len(numbers) == len(given["mean"]) or not bool(fits.all()):
                raise InputError(f"{name} must be finite numbers, a std of 0 or more for each mean.")
        views = KINDS[kind](**given)
    except (KeyError, TypeError, ValueError, RuntimeError, InputError) as error:
        raise InputError(f"the saved preprocessing cannot be used: {error}") from error
    if unknown := given.keys() - views.settings().keys():
        raise InputError(f"the saved preprocessing cannot be used: unknown settings {', '.join(sorted(unknown))[:99]}.")
    return views
