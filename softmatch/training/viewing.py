"""The views of the data that a run trains on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from torch import Tensor

from softmatch.data import Examples, Split
from softmatch.data.loading import item_statistics
from softmatch.data.preparations.tokens import TokenPreparation
from softmatch.errors import InputError, nearest
from softmatch.views import ImageViews, TextViews, VectorViews, Views
from softmatch.views.text_statistics import word_statistics
from softmatch.views.text_words import find_continuing

AnyViews = TypeVar("AnyViews", bound=Views)


def make_views(examples: Examples, split: Split, options: dict[str, Any], workers: int | None = None) -> Views:
    """The views of a modality, with the statistics of the training items."""
    if isinstance(examples.preparation, TokenPreparation):
        return _text_views(examples.preparation, examples, split, options)
    kind: type[ImageViews] | type[VectorViews] = ImageViews if examples.kind == "image" else VectorViews
    mean: Sequence[float]
    std: Sequence[float]
    if examples.statistics is not None:
        mean, std = examples.statistics
    elif examples.kind == "image":
        mean, std = item_statistics(examples.items, split.unlabeled, workers)
    else:
        assert isinstance(examples.items, Tensor)
        items = examples.items[split.unlabeled].double()
        mean = items.mean(0).tolist()
        spread = items.std(0)
        if examples.preparation is not None and examples.preparation.takes in ("text", "image"):
            # Directions of an embedding share a scale: those that hardly vary are noise, and would be as loud as the rest.
            spread = spread.square().mean().sqrt().expand_as(spread)
        std = [value if value > 1e-6 else 1.0 for value in spread.tolist()]  # what never varied has no scale
    return _build_views(kind, {"mean": mean, "std": [max(value, 1e-6) for value in std]}, options)


def _text_views(preparation: TokenPreparation, examples: Examples, split: Split, options: Mapping[str, Any]) -> Views:
    """Texts are counted only where the views need it."""
    continues = find_continuing(preparation.tokenizer.rules.get_vocab())
    views = _build_views(TextViews, {**preparation.view_options, "continues": continues, "statistics": None}, options)
    if views.shares["replace"]:
        assert isinstance(examples.items, Tensor)
        views.statistics = word_statistics(examples.items, split.unlabeled, (views.pad, *views.special), continues)
    return views


def _build_views(kind: Callable[..., AnyViews], own: Mapping[str, Any], options: Mapping[str, Any]) -> AnyViews:
    known = inspect.signature(kind).parameters
    for name in options:
        if name not in known or name in own:
            raise InputError(
                f"views: this kind of data has no option {name!r}. {nearest(name, [k for k in known if k not in own])}"
            )
    try:
        return kind(**own, **options)
    except (TypeError, ValueError) as error:
        raise InputError(f"views: {error}") from error
