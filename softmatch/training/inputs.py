"""Views and batches of a task."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from softmatch.config import Config
from softmatch.data import Examples, Split
from softmatch.data.batches import Batches, Draws, Items, LengthSampler, make_roles, text_lengths
from softmatch.data.loading import LoadedBatches, item_statistics, make_batches
from softmatch.data.preparations.text_preparations import TokenPreparation
from softmatch.data.shards.streamed import Kept
from softmatch.data.split import hold_out_labels
from softmatch.errors import InputError, nearest
from softmatch.methods import Method
from softmatch.seeds import derive
from softmatch.training.opening import split_seed
from softmatch.training.task import Task
from softmatch.views import KINDS, OwnViews, TextViews, Views
from softmatch.views.own_views import OWN
from softmatch.views.series import SOUNDS
from softmatch.views.text_operations import find_continuing
from softmatch.views.text_statistics import word_statistics

EMBEDDED = ("text", "image", "sound")
"""Inputs that become vectors as embeddings."""
BUCKETS = 50
HELD_OUT = 0.01
"""Share of the texts from which on words are counted again without those that a fold holds out; fewer hardly change them."""
AnyViews = TypeVar("AnyViews", bound=Views)


def make_views(examples: Examples, split: Split, options: dict[str, Any], workers: int | None = None) -> Views:
    """Make the views of a modality with the statistics of the training items."""
    if isinstance(examples.preparation, TokenPreparation):
        return _text_views(examples.preparation, examples, split, options)
    if OWN in options and examples.kind != OwnViews.kind:
        raise InputError(f"--views {options[OWN]} is for arrays of your own (.npz, .npy, or in Python); this source has none.")
    kind: Callable[..., Views] = KINDS[examples.kind]
    mean: Sequence[float]
    std: Sequence[float]
    if examples.statistics is not None:
        mean, std = examples.statistics
    elif examples.kind == "image":
        mean, std = item_statistics(examples.items, split.unlabeled, workers)
    else:
        assert isinstance(examples.items, Tensor)
        items = examples.items[split.unlabeled].double()
        if items.ndim > 2:
            items = items.movedim(1, -1).flatten(0, -2)
        mean = items.mean(0).tolist()
        spread = items.std(0)
        if examples.kind == "vector" and examples.preparation is not None and examples.preparation.takes in EMBEDDED:
            # Directions of an embedding share a scale: scaled by itself, one that hardly varies would amplify noise.
            spread = spread.square().mean().sqrt().expand_as(spread)
        std = [value if value > 1e-6 else 1.0 for value in spread.tolist()]  # a constant feature has no scale
    scale: dict[str, Any] = {"mean": mean, "std": [max(value, 1e-6) for value in std]}
    if examples.kind == OwnViews.kind:
        given = {name: value for name, value in options.items() if name != OWN}
        return OwnViews(options[OWN], **scale, shape=examples.items.shape[1:], options=given)
    if examples.kind == "series" and examples.preparation is not None and examples.preparation.takes == "sound":
        options = {"allowed": SOUNDS, **options}
    return build_views(kind, scale, options)


def _text_views(preparation: TokenPreparation, examples: Examples, split: Split, options: Mapping[str, Any]) -> Views:
    """Make the views of texts; word statistics are counted only where they are needed."""
    continues = find_continuing(preparation.tokenizer.rules.get_vocab())
    views = build_views(TextViews, {**preparation.view_options, "continues": continues, "statistics": None}, options)
    if views.shares["replace"]:
        assert isinstance(examples.items, Tensor)
        views.statistics = word_statistics(examples.items, split.unlabeled, (views.pad, *views.special), continues)
    return views


def fold_task(task: Task, split: Split) -> Task:
    """The task of a part of a cross-fit: words are counted without the texts that it holds out, where they could matter."""
    examples, held_out = task.examples, len(task.split.unlabeled) - len(split.unlabeled)
    if examples.refit is not None and held_out >= HELD_OUT * len(examples):
        items, augmented = examples.refit(split.unlabeled)
        examples = replace(examples, items=items, augmented=augmented)
    elif examples.kind != "text" or task.activations is not None:
        return replace(task, split=split)
    return replace(task, split=split, examples=examples, views=make_views(examples, split, task.config.views))


def build_views(kind: Callable[..., AnyViews], own: Mapping[str, Any], options: Mapping[str, Any]) -> AnyViews:
    """Make views with options of the user; `own` are those that follow from the data."""
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


def hold_out(task: Task, split: Split, method: Method) -> tuple[Tensor, Tensor]:
    """Split the labelled samples into those for training and those that the method keeps out."""
    labels = task.examples.labels[split.labeled]
    return hold_out_labels(split.labeled, labels, method.validation_share, split_seed(task.config))


def make_task_batches(task: Task, method: Method, added: Tensor | None) -> Batches | LoadedBatches:
    """Make the batches of a method.

    Args:
        added: labels that the method has added to unlabelled samples; −1 for the others.
    """
    config, examples, split = task.config, task.examples, task.split
    items: Items
    pool: Tensor | Kept
    labeled, validation = split.labeled, None
    if "validation" in method.streams:
        labeled, held_out = hold_out(task, split, method)
        validation = task.items[held_out], examples.labels[held_out]
    labels = examples.labels[labeled]
    if added is not None:
        chosen = (added.cpu() >= 0).nonzero().flatten()
        labeled = torch.cat([labeled, split.unlabeled[chosen]])
        labels = torch.cat([labels, added.cpu()[chosen].to(labels.dtype)])
    items, pool, draws = task.items, split.unlabeled, _draws_by_length(task)
    if (streamed := examples.streamed) is not None:
        items, pool = streamed.items, streamed.pool(split.unlabeled)
        draws = streamed.draws(pool, config.unlabeled_batch, derive(config.seed, "unlabeled"))
    roles = make_roles(
        labeled_items=task.items[labeled],
        labels=labels,
        unlabeled_items=items,
        labeled_batch=config.labeled_batch,
        unlabeled_batch=config.unlabeled_batch,
        seed=config.seed,
        labeled_views=method.labeled_views,
        unlabeled_views=method.unlabeled_views,
        pool=pool,
        streams=method.streams,
        validation=validation,
        augmented=None if task.augmented is None else (task.augmented[labeled], task.augmented),
        unlabeled_draws=draws,
    )
    return make_batches(roles, task.views, config.seed, task.device, config.workers)


def _draws_by_length(task: Task) -> Draws | None:
    """Sampler for batches of texts with similar lengths; None for items of one size, or without sorting."""
    config, items, pool = task.config, task.examples.items, task.split.unlabeled
    buckets = length_buckets(config, task.examples.kind)
    if buckets is None or buckets == 1:
        return None
    assert isinstance(items, Tensor)
    views = task.item_views
    assert isinstance(views, TextViews)
    lengths = text_lengths(items, views.pad)[pool]
    return LengthSampler(lengths, config.unlabeled_batch, derive(config.seed, "unlabeled"), buckets)


def length_buckets(config: Config, kind: str) -> int | None:
    """Number of batches among which texts are sorted by length; 1 for no sorting, None for items of another kind."""
    if kind != "text":
        return None
    return BUCKETS if config.length_buckets is None else config.length_buckets
