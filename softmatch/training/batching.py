"""The batches of a task: which samples each step draws, and of which parts they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from softmatch.data import Split
from softmatch.data.batches import Batches, Draws, make_roles
from softmatch.data.length_batches import LengthSampler, text_lengths
from softmatch.data.loading import LoadedBatches, make_batches
from softmatch.data.split import hold_out_labels
from softmatch.methods import Method
from softmatch.seeds import derive
from softmatch.training.opening import split_seed
from softmatch.training.tuning import length_buckets
from softmatch.views import TextViews

if TYPE_CHECKING:
    from softmatch.training.setup import Task

__all__ = ["hold_out", "make_task_batches"]


def hold_out(task: Task, split: Split, method: Method) -> tuple[Tensor, Tensor]:
    """The labelled samples that are trained on, and those that the method keeps out."""
    labels = task.examples.labels[split.labeled]
    return hold_out_labels(split.labeled, labels, method.validation_share, split_seed(task.config))


def make_task_batches(task: Task, method: Method, added: Tensor | None) -> Batches | LoadedBatches:
    """Of a method.

    Args:
        added: labels of unlabelled samples that the method has added to the labelled ones; −1 for the others.
    """
    config, examples, split = task.config, task.examples, task.split
    labeled, validation = split.labeled, None
    if "validation" in method.streams:
        labeled, held_out = hold_out(task, split, method)
        validation = examples.items[held_out], examples.labels[held_out]
    labels = examples.labels[labeled]
    if added is not None:
        chosen = (added.cpu() >= 0).nonzero().flatten()
        labeled = torch.cat([labeled, split.unlabeled[chosen]])
        labels = torch.cat([labels, added.cpu()[chosen].to(labels.dtype)])
    roles = make_roles(
        labeled_items=examples.items[labeled],
        labels=labels,
        unlabeled_items=examples.items,
        labeled_batch=config.labeled_batch,
        unlabeled_batch=config.unlabeled_batch,
        seed=config.seed,
        labeled_views=method.labeled_views,
        unlabeled_views=method.unlabeled_views,
        pool=split.unlabeled,
        streams=method.streams,
        validation=validation,
        augmented=None if examples.augmented is None else (examples.augmented[labeled], examples.augmented),
        unlabeled_draws=_draws_by_length(task),
    )
    return make_batches(roles, task.views, config.seed, task.device, config.workers)


def _draws_by_length(task: Task) -> Draws | None:
    """Batches of texts of similar lengths; None where all items are of one size, or batches are to be as they are drawn."""
    config, items, pool = task.config, task.examples.items, task.split.unlabeled
    buckets = length_buckets(config, task.examples.kind)
    if buckets is None or buckets == 1:
        return None
    assert isinstance(items, Tensor)
    assert isinstance(task.views, TextViews)
    lengths = text_lengths(items, task.views.pad)[pool]
    return LengthSampler(lengths, config.unlabeled_batch, derive(config.seed, "unlabeled"), buckets)
