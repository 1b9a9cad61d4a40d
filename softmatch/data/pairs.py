"""Labelled and unlabelled batches in step, for a training loop of your own."""

import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from softmatch.data.batches import Sampler
from softmatch.data.loading import begin_worker, quiet
from softmatch.distributed.processes import World, share, world
from softmatch.errors import InputError
from softmatch.seeds import derive, stream

ROLES = ("labeled", "unlabeled")
Data = Any
"""A map-style dataset, a tensor or an array; for the labelled samples also a pair of these, items and labels."""


class PairBatch(NamedTuple):
    """One step: labelled items x with labels y, and the views of unlabelled items, which stand at `index` in their dataset."""

    x: Tensor
    y: Tensor
    weak: Tensor
    strong: Tensor
    index: Tensor  # type: ignore[assignment]  # a field with the name of a method of tuples


class PairLoader:
    """Endless batches of labelled and unlabelled samples, which follow from the seed and the step alone.

    The same batches come with any number of workers, after a resume, and from several processes together: each of them gets its
    share of every batch. Epochs of both datasets are reshuffled for themselves.

    Args:
        labeled: gives (item, label); or a pair of tensors or arrays.
        unlabeled: gives an item, or a tuple that begins with it; without `views`, it gives (weak, strong).
        views: object with weak(items, generator) and strong(items, generator) for whole batches on the device, such as those of
            `softmatch.views`; or a pair of functions (weak, strong) of single items; or None where the datasets make the views.
        labeled_batch, unlabeled_batch: samples per step in all processes together.
        seed: random seed of batches and views.
        length: batches per iteration and `len`, for frameworks that count epochs; the next iteration goes on from there.
        workers: number of processes that read items and call functions of single items.
        device: where batches go; by default they stay where they are.
        rank, size: number of this process, and of all processes; by default those of torch.distributed.

    Raises:
        InputError: a number is below 1, rank comes without size, or data and views cannot be used.

    Attributes:
        step: number of batches given so far.

    Example:
        >>> x, y, u = torch.rand(8, 3), torch.arange(8) % 2, torch.rand(32, 3)
        >>> views = softmatch.views.VectorViews(mean=[0.5] * 3, std=[0.3] * 3)
        >>> loader = PairLoader((x, y), u, views, labeled_batch=4, unlabeled_batch=28, length=2)
        >>> [len(batch.weak) for batch in loader]
        [28, 28]
    """

    def __init__(
        self,
        labeled: Data,
        unlabeled: Data,
        views: Any = None,
        *,
        labeled_batch: int,
        unlabeled_batch: int,
        seed: int = 0,
        length: int | None = None,
        workers: int = 0,
        device: torch.device | str | None = None,
        rank: int | None = None,
        size: int | None = None,
    ) -> None:
        for name, value in {"labeled_batch": labeled_batch, "unlabeled_batch": unlabeled_batch, "length": length}.items():
            if value is not None and value < 1:
                raise InputError(f"{name} must be 1 or more, not {value}.")
        if (rank is None) != (size is None):
            raise InputError("give rank and size together, or neither.")
        self._parts = _Parts((labeled, unlabeled), (labeled_batch, unlabeled_batch), views, seed)
        self._given = None if rank is None or size is None else World(rank, size)
        self.length, self.workers, self.step = length, workers, 0
        self.device = None if device is None else torch.device(device)

    def __len__(self) -> int:
        if self.length is None:
            raise TypeError("a PairLoader without `length` has no end. Give length=…, the batches of an epoch.")
        return self.length

    def __iter__(self) -> Iterator[PairBatch]:
        """Go on after the last batch given, to the end of the `length`, if there is one."""
        parts = self._parts.among(self._given or world())
        end = None if self.length is None else (self.step // self.length + 1) * self.length
        with quiet():
            loader: DataLoader[Any] = DataLoader(
                parts,
                sampler=count(self.step) if end is None else range(self.step, end),
                batch_size=None,
                num_workers=self.workers,
                pin_memory=self.device is not None and self.device.type == "cuda",
                worker_init_fn=begin_worker,
                generator=torch.Generator(),  # else the loader draws a seed from the global one, which training depends on
            )
            made = iter(loader)
        for step, (found, labels, index) in enumerate(made, self.step):
            views = zip(("x", "weak", "strong"), found, strict=True)
            x, weak, strong = (parts.view(name, self._sent(items), step) for name, items in views)
            self.step = step + 1
            yield PairBatch(x, self._sent(labels), weak, strong, self._sent(index))

    def state_dict(self) -> dict[str, int]:
        """The step, and what the batches follow from."""
        return {"step": self.step, **self._parts.identity()}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on where another loader was. Raises InputError if this one would give other batches."""
        own = self._parts.identity()
        if other := [f"{name} {state.get(name)}, not {own[name]}" for name in own if state.get(name) != own[name]]:
            raise InputError(f"the saved PairLoader had {'; '.join(other)}. Make this one in the same way.")
        self.step = int(state["step"])

    def _sent(self, value: Tensor) -> Tensor:
        return value if self.device is None else value.to(self.device, non_blocking=True)


class _Parts(Dataset[Any]):
    """Runs in the workers: a step in; what x, weak and strong are made of, labels and positions out."""

    def __init__(self, data: tuple[Data, Data], sizes: tuple[int, int], views: Any, seed: int) -> None:
        self.data: list[Any] = [_readable(role, given) for role, given in zip(ROLES, data, strict=True)]
        each = zip(ROLES, self.data, sizes, strict=True)
        self.samplers = [Sampler(len(found), number, derive(seed, role)) for role, found, number in each]
        self.single = views is None or isinstance(views, Sequence)
        self.views, self.seed, self.world = views, seed, World()
        wanted = list(views) if isinstance(views, Sequence) else [getattr(views, name, None) for name in ("weak", "strong")]
        if views is not None and not (len(wanted) == 2 and all(map(callable, wanted))):
            raise InputError("views must be an object with weak(items, generator) and strong, or two functions of single items.")

    def identity(self) -> dict[str, int]:
        """Numbers from which the samples of a step follow."""
        found = {"seed": self.seed}
        for role, sampler in zip(ROLES, self.samplers, strict=True):
            found |= {role: sampler.size, f"{role}_batch": sampler.batch_size}
        return found

    def among(self, processes: World) -> "_Parts":
        """The same for one of several processes."""
        for role, sampler in zip(ROLES, self.samplers, strict=True):
            if sampler.batch_size % processes.size:
                what = f"{role}_batch {sampler.batch_size} cannot be shared equally by {processes.size} processes"
                raise InputError(f"{what}. Give a multiple: it counts the samples of all processes.")
        self.world = processes
        return self

    def __getitem__(self, step: int) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor, Tensor]:
        labeled, unlabeled = (sampler(step) for sampler in self.samplers)
        if self.single:
            x, y = default_collate(self._singles(0, labeled, step))
            weak, strong = default_collate(self._singles(1, unlabeled, step))
        else:
            x, y = _batch(self.data[0], labeled, _labeled)
            y, weak = y[self._own(y)], _batch(self.data[1], unlabeled, _item)
            strong = weak
        return (x, weak, strong), y, unlabeled[self._own(unlabeled)]

    def view(self, name: str, items: Tensor, step: int) -> Tensor:
        """This process's rows of the view of a whole batch. Views of single items are there already."""
        if self.single:
            return items
        make, generator = getattr(self.views, "strong" if name == "strong" else "weak"), stream(self.seed, name, step)
        if "part" in inspect.signature(make).parameters and self.world.size > 1:
            made: Tensor = make(items, generator, self._own(items))
            return made
        whole: Tensor = make(items, generator)
        return whole[self._own(whole)]

    def _own(self, whole: Tensor) -> slice:
        return share(len(whole), self.world)

    def _singles(self, part: int, positions: Tensor, step: int) -> list[tuple[Any, Any]]:
        """(item, label) or (weak, strong) of this process's rows; random numbers follow from the place in the batch."""
        found = []
        with _restored_draws():
            for row in range(len(positions))[self._own(positions)]:
                seed = derive(self.seed, ROLES[part], step, row)
                random.seed(seed)
                np.random.seed(seed % 2**32)  # what libraries of transforms use
                torch.default_generator.manual_seed(seed)
                sample = self.data[part][int(positions[row])]
                if part == 0:
                    item, label = _labeled(sample)
                    found.append((self.views[0](item) if self.views else item, label))
                else:
                    item = _item(sample)
                    found.append((self.views[0](item), self.views[1](item)) if self.views else _weak_strong(sample))
        return found


def _readable(role: str, given: Data) -> Dataset[Any]:
    """A dataset as it is; tensors and arrays as a dataset of their rows."""
    parts = given if isinstance(given, tuple) else (given,)
    if all(isinstance(part, Tensor | np.ndarray) for part in parts):
        if len(parts) != (2 if role == "labeled" else 1) or len({len(part) for part in parts}) > 1:
            wants = "(items, labels), as many labels as items" if role == "labeled" else "one tensor or array"
            raise InputError(f"{role} must be {wants}, or a dataset; not {', '.join(str(tuple(part.shape)) for part in parts)}.")
        given = TensorDataset(*map(torch.as_tensor, parts))
        if role == "labeled" and bool((given.tensors[1] < 0).any()):
            raise InputError("labeled has labels below 0. Give only the samples that have a label.")
    if not (hasattr(given, "__len__") and hasattr(given, "__getitem__")):
        raise InputError(f"{role} must have a length and be read by position; {type(given).__name__} is not such a dataset.")
    if not len(given):
        raise InputError(f"{role} is empty.")
    return given  # type: ignore[no-any-return]  # as was checked


def _batch(data: Dataset[Any], positions: Tensor, of: Callable[[Any], Any]) -> Any:
    """Collect one part of all samples, chosen by `of`, as a batch."""
    if isinstance(data, TensorDataset):
        return of(data[positions.to(data.tensors[0].device)])
    return default_collate([of(data[position]) for position in positions.tolist()])


def _item(sample: Any) -> Any:
    return sample[0] if isinstance(sample, tuple | list) else sample


def _labeled(sample: Any) -> tuple[Any, Any]:
    if not isinstance(sample, tuple | list) or len(sample) != 2:
        raise InputError(f"labeled must give (item, label), not {_shown(sample)}.")
    return sample[0], sample[1]


def _weak_strong(sample: Any) -> tuple[Any, Any]:
    views = sample if not isinstance(_item(sample), tuple | list) else _item(sample)  # ((weak, strong), label) too
    if not isinstance(views, tuple | list) or len(views) != 2 or np.ndim(views[0]) != np.ndim(views[1]):
        raise InputError(f"without views, unlabeled must give (weak, strong), not {_shown(sample)}.")
    return views[0], views[1]


def _shown(sample: Any) -> str:
    return f"{len(sample)} values" if isinstance(sample, tuple | list) else type(sample).__name__


@contextmanager
def _restored_draws() -> Iterator[None]:
    """Leave the global generators as they were."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng([]):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
