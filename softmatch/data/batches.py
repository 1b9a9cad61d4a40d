"""Infinite seeded batches of data that live on the device; the batch of a step follows from the step alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from softmatch.data.pictures import ImageFiles
from softmatch.data.shards.lanes import Lanes
from softmatch.data.shards.streamed import Kept
from softmatch.distributed import processes
from softmatch.seeds import derive, stream
from softmatch.step import Batch, Labeled
from softmatch.views import Views

Items = Tensor | ImageFiles


class Sampler:
    """Positions 0 … size − 1 in an endless row of reshuffled epochs, cut into batches.

    Nothing is remembered between calls but the shuffles of the epochs last used, so step t gives the same batch whether
    the run came there by itself or was resumed.
    """

    def __init__(self, size: int, batch_size: int, seed: int) -> None:
        self.size, self.batch_size, self.seed = size, batch_size, seed
        self._epochs: dict[int, Tensor] = {}

    def __call__(self, step: int) -> Tensor:
        start = step * self.batch_size
        parts, taken = [], 0
        while taken < self.batch_size:
            epoch, offset = divmod(start + taken, self.size)
            parts.append(self._epoch(epoch)[offset : offset + self.batch_size - taken])
            taken += len(parts[-1])
        return torch.cat(parts)

    def _epoch(self, epoch: int) -> Tensor:
        if epoch not in self._epochs:
            self._epochs = {e: order for e, order in self._epochs.items() if e >= epoch - 1}
            self._epochs[epoch] = torch.randperm(self.size, generator=stream(self.seed, "epoch", epoch))
        return self._epochs[epoch]


class BalancedSampler:
    """Batches in which every class is equally likely at each place, whatever its number of samples."""

    def __init__(self, labels: Tensor, batch_size: int, seed: int) -> None:
        self.batch_size, self.seed = batch_size, seed
        self.order = torch.argsort(labels.cpu(), stable=True)
        counts = torch.bincount(labels.cpu())
        self.starts, self.counts = (counts.cumsum(0) - counts)[counts > 0], counts[counts > 0]

    def __call__(self, step: int) -> Tensor:
        generator = stream(self.seed, "balanced", step)
        group = torch.randint(len(self.counts), (self.batch_size,), generator=generator)
        inside = (torch.rand(self.batch_size, generator=generator) * self.counts[group]).long()
        return self.order[self.starts[group] + inside.minimum(self.counts[group] - 1)]


Draws = Sampler | BalancedSampler | Lanes
"""Samples of a step: positions (batch_size,) that follow from the step alone."""


@dataclass(frozen=True)
class Role:
    """One of the parts of a batch: where its samples come from, the views of them, and which are drawn in a step.

    Attributes:
        labels: of the samples; None for the unlabelled ones.
        views: names of methods of the views object; a number after a name ("weak_2") makes a further, independent view.
        pool: where the samples are only a part of `items`, their positions in there; a part cut out would be a second copy
            in memory. What is drawn counts in the pool, not in the items.
        augmented: (n, A, …) versions of each of the items, where there are any: strong views are made of one of them.
    """

    items: Items
    labels: Tensor | None
    views: tuple[str, ...]
    sampler: Draws
    pool: Tensor | Kept | None = None
    augmented: Tensor | None = None

    def places(self, drawn: Tensor) -> Tensor:
        """Positions in the items of what was drawn."""
        return drawn if self.pool is None else self.pool[drawn]

    def on(self, device: torch.device, only_labels: bool = False) -> "Role":
        """Send all but the pool to a device, or only the labels where workers make the views."""
        names = ("labels",) if only_labels else ("items", "labels", "augmented")
        sent: dict[str, Any] = {name: part.to(device) for name in names if isinstance(part := getattr(self, name), Tensor)}
        return replace(self, **sent)


def own_rows(number: int) -> slice | None:
    """The rows of a batch that this process makes views of, where it has to share batches with others."""
    return processes.share(number) if processes.world().size > 1 else None


def draw_version(name: str, items: Tensor, augmented: Tensor, generator: torch.Generator) -> Tensor:
    """The version of each item that a view is made of: itself for ω, one of its A augmented ones, drawn, for stronger views.

    A method's second strong view gets another version than the first, where there are two; all views of a step must be given
    a generator in the same state.
    """
    method, _, number = name.partition("_")
    if method == "weak":
        return items
    order = torch.rand(augmented.shape[:2], generator=generator).argsort(1)
    place = (int(number or 1) - 1) % augmented.shape[1]
    return augmented[torch.arange(len(items), device=items.device), order[:, place].to(items.device, non_blocking=True)]


def make_roles(
    labeled_items: Items,
    labels: Tensor,
    unlabeled_items: Items,
    labeled_batch: int,
    unlabeled_batch: int,
    seed: int,
    labeled_views: Sequence[str] = ("weak",),
    unlabeled_views: Sequence[str] = ("weak", "strong"),
    pool: Tensor | Kept | None = None,
    streams: Sequence[str] = (),
    validation: tuple[Items, Tensor] | None = None,
    augmented: tuple[Tensor, Tensor] | None = None,
    unlabeled_draws: Draws | None = None,
) -> dict[str, Role]:
    """The parts of a batch: "labeled", "unlabeled" unless no views of it are asked for, and the streams of a method.

    Args:
        pool: positions of the unlabelled set in `unlabeled_items`; all of them by default.
        streams, validation: see `Method.streams`; items and labels of the stream "validation".
        augmented: versions of the labelled and of the unlabelled items.
        unlabeled_draws: which of the unlabelled samples a step gets; by default a `Sampler` of them all.
    """
    labeled_versions, versions = augmented or (None, None)
    draws: Draws = Sampler(len(labels), labeled_batch, derive(seed, "labeled"))
    roles = {"labeled": Role(labeled_items, labels, tuple(labeled_views), draws, augmented=labeled_versions)}
    if unlabeled_views:
        number = len(unlabeled_items if pool is None else pool)
        draws = unlabeled_draws or Sampler(number, unlabeled_batch, derive(seed, "unlabeled"))
        roles["unlabeled"] = Role(unlabeled_items, None, tuple(unlabeled_views), draws, pool, versions)
    if "balanced" in streams:
        roles["balanced"] = Role(labeled_items, labels, ("weak",), BalancedSampler(labels, labeled_batch, seed))
    if "validation" in streams:
        assert validation is not None, "the stream of validation samples needs samples"
        items, truth = validation
        size = min(len(truth), unlabeled_batch)
        roles["validation"] = Role(items, truth, ("weak",), Sampler(len(truth), size, derive(seed, "validation")))
    return roles


def assemble(roles: Mapping[str, Role], drawn: Mapping[str, Tensor], views: Mapping[str, dict[str, Tensor]]) -> Batch:
    """The batch of what was drawn and made for each role."""

    def labels(role: str) -> Tensor:
        found = roles[role].labels
        assert found is not None
        return found.index_select(0, drawn[role])

    return Batch(
        labeled=views["labeled"],
        labels=labels("labeled"),
        unlabeled=views.get("unlabeled", {}),
        index=drawn.get("unlabeled", drawn["labeled"][:0]),
        labeled_index=drawn["labeled"],
        streams={role: Labeled(views[role], labels(role)) for role in roles if role not in ("labeled", "unlabeled")},
    )


class Batches:
    """The batch of each step, from roles (`make_roles`) whose items are tensors; their truth is never given to this class.

    Where several processes train one network, each gets the same batch with the views of its own share of the rows.
    """

    def __init__(self, roles: Mapping[str, Role], views: Views, seed: int, device: torch.device) -> None:
        self.views, self.seed, self.device = views, seed, device
        self.roles = {name: role.on(device) for name, role in roles.items()}

    def __call__(self, step: int) -> Batch:
        drawn, views = {}, {}
        for name, role in self.roles.items():
            chosen = role.sampler(step)
            drawn[name] = self._send(chosen)
            assert isinstance(role.items, Tensor)
            places = drawn[name] if role.pool is None else self._send(role.places(chosen))
            augmented = None if role.augmented is None else role.augmented.index_select(0, places)
            views[name] = self._make(name, role.items.index_select(0, places), augmented, role.views, step)
        return assemble(self.roles, drawn, views)

    def close(self) -> None:
        """Nothing is to be ended here; `LoadedBatches` has workers."""

    def _send(self, positions: Tensor) -> Tensor:
        return positions.to(self.device, non_blocking=True)

    def _make(self, role: str, items: Tensor, augmented: Tensor | None, names: Sequence[str], step: int) -> dict[str, Tensor]:
        """Each view draws from a stream of its own, so a method with more views sees the same weak ones."""
        part, made = own_rows(len(items)), dict[str, Tensor]()
        for name in names:
            chosen = items
            if augmented is not None:
                chosen = draw_version(name, items, augmented, stream(self.seed, role, "version", step))
            made[name] = getattr(self.views, name.partition("_")[0])(chosen, stream(self.seed, role, name, step), part)
        return made


def text_lengths(items: Tensor, pad: int) -> Tensor:
    """Tokens of each text (N,), of token ids (N, L) that are filled up with `pad`."""
    return (items != pad).sum(1)


class LengthSampler(Sampler):
    """A `Sampler` with similar lengths in a batch.

    An epoch's shuffle is cut into windows of `buckets` batches. A window is sorted by length, those of equal length stay as
    they were drawn, and is cut into batches. These and the samples in each come in random order. Every sample is drawn once in
    each epoch. The batch that ends one epoch and begins the next is filled up with samples of any length.

    Args:
        lengths: of the samples (N,).
        buckets: batches in a window; more make batches of more similar lengths, and samples meet fewer others.
    """

    def __init__(self, lengths: Tensor, batch_size: int, seed: int, buckets: int) -> None:
        super().__init__(len(lengths), batch_size, seed)
        self.lengths, self.buckets = lengths.cpu(), buckets

    def _epoch(self, epoch: int) -> Tensor:
        if epoch not in self._epochs:
            self._epochs[epoch] = self._by_length(super()._epoch(epoch), epoch)
        return self._epochs[epoch]

    def _by_length(self, shuffled: Tensor, epoch: int) -> Tensor:
        """Everything between the first and the last border of a batch in this epoch, a window at a time."""
        generator = stream(self.seed, "lengths", epoch)
        before = min(-epoch * self.size % self.batch_size, self.size)
        within = (self.size - before) // self.batch_size * self.batch_size
        first, middle, last = torch.split(shuffled, [before, within, self.size - before - within])
        parts = [first]
        for window in torch.split(middle, self.buckets * self.batch_size) if within else ():
            batches = window[torch.argsort(self.lengths[window], stable=True)].view(-1, self.batch_size)
            within_batch = torch.rand(batches.shape, generator=generator).argsort(1)  # else one process would get all long ones
            batches = batches.gather(1, within_batch)
            parts.append(batches[torch.randperm(len(batches), generator=generator)].flatten())
        return torch.cat([*parts, last])
