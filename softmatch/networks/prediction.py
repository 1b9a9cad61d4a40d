"""Predictions of a network on many items, in bounded memory and on several processes."""

import math
from collections.abc import Callable, Generator
from contextlib import closing
from itertools import islice

import torch
from torch import Tensor, nn

from softmatch.data.batches import text_lengths
from softmatch.data.loading import PART, read_plain
from softmatch.data.pictures import ImageFiles
from softmatch.distributed import processes
from softmatch.views import TextViews, Views
from softmatch.views.activation_views import ActivationViews

MOST_VALUES = 1024 * 3 * 64 * 64
"""Default number of values in one pass: 1,024 images of 64×64 pixels, fewer larger ones."""


def predict_logits(network: nn.Module, views: Views, items: Tensor) -> Tensor:
    """Logits of items (B, C). If the views say so, the logarithm of the mean prediction on images and their mirror images."""
    inputs = views.plain(items)
    logits: Tensor = network(inputs)
    if not getattr(views, "mirror", False):
        return logits
    other: Tensor = network(inputs.flip(-1))
    return torch.logaddexp(torch.log_softmax(logits.float(), -1), torch.log_softmax(other.float(), -1)) - math.log(2.0)


@torch.no_grad()
def predict_probabilities(
    network: nn.Module,
    views: Views,
    items: Tensor | ImageFiles,
    device: torch.device,
    batch: int | None = None,
    workers: int | None = None,
    shared: bool = False,
    check: Callable[[], None] | None = None,
) -> Tensor:
    """p(y | x) of every item (N, C), on the host, in evaluation mode. Texts are grouped by length to reduce padding.

    Args:
        batch: items per pass; by default up to 1,024, fewer for large images.
        workers: worker processes that read files, as in `LoadedBatches`; only a few batches are in memory at a time.
        shared: all training processes call this at once; each predicts its share and gets the predictions of all.
        check: called before each batch, equally often in all processes; an exception it raises ends the predictions.
    """
    values = views.size if isinstance(views, ActivationViews) else math.prod(items.shape[1:])
    size = batch or min(1024, max(MOST_VALUES // values, 1))
    if isinstance(items, ImageFiles):
        size = -(-size // PART) * PART  # files are read in whole parts
    world = processes.world() if shared and len(items) else processes.World()
    shares = [processes.share(len(items), processes.World(rank, world.size)) for rank in range(world.size)]
    numbers = [share.stop - share.start for share in shares]
    rounds = max(-(-max(numbers) // size), 1)
    order = None
    if isinstance(views, TextViews | ActivationViews) and not isinstance(items, ImageFiles):  # longest first
        own = items[shares[world.rank]]
        lengths = text_lengths(own, views.pad) if isinstance(views, TextViews) else views.lengths[own[:, 0].cpu()]
        order = torch.argsort(lengths.cpu(), descending=True, stable=True)
    probs, was_training = list[Tensor](), network.training
    network.eval()
    try:
        with closing(_pieces(items, shares[world.rank], size, workers, order)) as pieces:
            for _ in range(rounds):
                if check is not None:
                    check()
                for piece in islice(pieces, 1):
                    probs.append(torch.softmax(predict_logits(network, views, piece.to(device)).float(), -1).cpu())
    finally:
        network.train(was_training)
    width = processes.largest(probs[0].shape[1] if probs else 0) if world.size > 1 else 0
    found = torch.cat(probs) if probs else torch.zeros(0, width)
    return processes.gather_rows(found if order is None else found[torch.argsort(order)], numbers)


def _pieces(
    items: Tensor | ImageFiles, rows: slice, size: int, workers: int | None, order: Tensor | None
) -> Generator[Tensor, None, None]:
    """These rows of the items, `size` at a time; none for an empty share, one empty piece if there are no items at all.

    Args:
        order: order of the rows of a tensor; None: unchanged.
    """
    if len(items) and rows.start == rows.stop:
        return
    if isinstance(items, ImageFiles):
        whole = rows.stop - rows.start == len(items)
        yield from read_plain(items if whole else items[torch.arange(rows.start, rows.stop)], size, workers)
    elif order is None:
        yield from torch.split(items[rows], size)
    else:
        yield from (items[rows][part] for part in torch.split(order, size))
