"""Batches made by worker processes: of images that stay in files, or are too large to be changed as whole batches on a CPU.

As in `batches`, the batch of a step follows from the seed and the step alone, whatever the number of workers.
"""

import math
import os
import shutil
import signal
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from softmatch.data.batches import Batches, Items, Role, assemble, own_rows
from softmatch.data.pictures import ImageFiles
from softmatch.data.shards.lanes import Lanes
from softmatch.data.shards.members import Member, Members
from softmatch.data.shards.remote import Ahead, is_remote
from softmatch.distributed.launching import neighbours, usable_cpus
from softmatch.errors import InputError, LoadingError
from softmatch.seeds import stream
from softmatch.step import Batch
from softmatch.views import ImageViews, Views
from softmatch.views.image import channel_statistics
from softmatch.views.pillow import PillowViews, to_image

Source = int | str | Member
"""Place of an image: in a tensor, its path, or inside a shard."""
Made = dict[str, Tensor] | str
"""Result of a worker: views by name, uint8 (n, C, H, W), or what went wrong."""

LOST_WORKER = "a process that reads images ended, perhaps for lack of memory: give fewer --workers, or free memory."
PART, SMALL_PART = 16, 64
"""Images that a worker makes at a time: few, so that workers share even one batch and little lies between processes; more of
small images, where handing over a part costs as much as making it (benchmarks/shards.py)."""
SMALL = 2**14
"""Numbers in a small image."""
LARGE = 128
"""Above this side, whole batches on a CPU save little (benchmarks/views.py) and take much memory: workers get the images."""


def make_batches(
    roles: Mapping[str, Role], views: Views, seed: int, device: torch.device, workers: int | None = None
) -> "Batches | LoadedBatches":
    """`Batches` on the device where that is possible and quicker, else `LoadedBatches`.

    Args:
        workers: processes for images that need them, see `LoadedBatches`. Given and not 0, they get all images, the small
            ones too. Vectors need none.
    """
    items = [role.items for role in roles.values()]
    if all(isinstance(each, Tensor) for each in items):
        quick = device.type != "cpu" or max((max(each.shape[2:], default=0) for each in items), default=0) <= LARGE
        if not isinstance(views, ImageViews) or (quick and not workers):
            return Batches(roles, views, seed, device)
    if not isinstance(views, ImageViews):
        raise InputError(f"files are read as images; views of kind {views.kind!r} cannot be made of them.")
    return LoadedBatches(roles, views, seed, device, workers)


class LoadedBatches:
    """`Batches` made by worker processes that read and change single images; the device only normalises them.

    The workers start with the first batch and prepare the next ones meanwhile. Any step may be asked for, but one that is
    not the next lets them begin anew. They end with `close`, or with the object. Where several processes share the batches,
    the workers of each make its own rows.

    Args:
        workers: number of processes; 0 works in this one. None is one for each CPU, at most 8 (`count_workers`).
    """

    def __init__(
        self, roles: Mapping[str, Role], views: ImageViews, seed: int, device: torch.device, workers: int | None = None
    ) -> None:
        self.views, self.seed, self.device = views, seed, device
        self.workers = count_workers() if workers is None else workers
        self._roles = {name: role.on(device, only_labels=True) for name, role in roles.items()}
        self._row = _Row(self._roles)
        self._workers: _Workers | None = None
        self._next = 0

    def __call__(self, step: int) -> Batch:
        if self._workers is None or step != self._next:
            self._begin(step)
        try:
            views = {role: self._collect(role) for role in self._roles}
        except BaseException:
            self.close()
            raise
        self._next = step + 1
        drawn = {role: places.to(self.device, non_blocking=True) for role, places in self._row.begun.popleft().items()}
        return assemble(self._roles, drawn, views)

    def close(self) -> None:
        """End the workers. A later call starts new ones."""
        self._row.ahead.close()
        self._row.ahead = Ahead()
        if self._workers is not None:
            self._workers.close()
        self._workers = None

    def _begin(self, step: int) -> None:
        self._row.first = step
        self._row.begun.clear()
        if self._workers is None:
            makers = {name: _Maker(role.items, self.views, role.views) for name, role in self._roles.items()}
            samples = sum(len(_rows_of(role)) for role in self._roles.values())
            self._workers = _Workers(makers, self.seed, self._row, self.workers, 2 * samples, self.device)
        self._workers.begin()

    def _collect(self, role: str) -> dict[str, Tensor]:
        """The views of the next batch of this role, gathered on the device and normalised there."""
        assert self._workers is not None
        number, gathered = len(_rows_of(self._roles[role])), dict[str, Tensor]()
        for start in range(0, number, _part_size(self._roles[role].items)):
            for name, part in self._workers.receive().items():
                if name not in gathered:
                    gathered[name] = torch.empty((number, *part.shape[1:]), dtype=part.dtype, device=self.device)
                gathered[name][start : start + len(part)].copy_(part, non_blocking=True)
        return {name: self.views.plain(images) for name, images in gathered.items()}


def read_plain(files: ImageFiles, batch: int, workers: int | None = None) -> Iterator[Tensor]:
    """All images in their order as uint8 batches (n, C, side, side), resized and cropped for evaluation, not normalised."""
    starts = range(0, len(files), PART)
    parts = (_Part("", 0, start, _sources(files, range(start, min(start + PART, len(files))))) for start in starts)
    makers = {"": _Maker(files, ImageViews([0.0] * 3, [1.0] * 3), ("plain",))}
    number = min(count_workers() if workers is None else workers, len(starts))
    with closing(_Workers(makers, 0, parts, number, 2 * batch, torch.device("cpu"))) as reading:
        reading.begin()
        gathered: list[Tensor] = []
        for start in starts:
            gathered.append(reading.receive()["plain"])
            if sum(map(len, gathered)) >= batch or start == starts[-1]:
                yield torch.cat(gathered)
                gathered = []


def item_statistics(items: Items, chosen: Tensor | None = None, workers: int | None = None) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel, in 0 … 1: of all chosen images, or of 1,024 of them where they are files."""
    if isinstance(items, Tensor):
        return channel_statistics(items, chosen)
    among = torch.arange(len(items)) if chosen is None else chosen
    some = items[among[torch.linspace(0, len(among) - 1, min(len(among), 1024)).round().long()]]
    return channel_statistics(torch.cat(list(read_plain(some, PART, workers))))


def count_workers() -> int:
    """One for each CPU that this process may use, at most 8. Processes on one machine that train together share its CPUs."""
    return min(max(usable_cpus() // neighbours(), 1), 8)


def _part_size(items: Items) -> int:
    return SMALL_PART if math.prod(items.shape[1:]) < SMALL else PART


def _rows_of(role: Role) -> range:
    """Places in a batch that this process makes views of."""
    number = role.sampler.batch_size
    return range(number)[own_rows(number) or slice(None)]


class _Part(NamedTuple):
    """A piece of work: some samples of one role in one step; `start` counts in the batch."""

    role: str
    step: int
    start: int
    sources: Sequence[Source]


class _Row:
    """All parts from step `first` on, without end. Remembers what was drawn for the steps that were begun."""

    def __init__(self, roles: Mapping[str, Role]) -> None:
        self.roles, self.first, self.ahead = roles, 0, Ahead()
        self.begun: deque[dict[str, Tensor]] = deque()

    def __iter__(self) -> Iterator[_Part]:
        for step in count(self.first):
            drawn = {name: role.sampler(step) for name, role in self.roles.items()}
            self.begun.append(drawn)
            for name, role in self.roles.items():
                places, rows = role.places(drawn[name]), _rows_of(role)
                self._fetch_ahead(role, step, rows)
                size = _part_size(role.items)
                for start in rows[::size]:
                    chosen = places[start : min(start + size, rows.stop)]
                    yield _Part(name, step, start, _sources(role.items, chosen.tolist()))

    def _fetch_ahead(self, role: Role, step: int, rows: range) -> None:
        """Bring remote shards onto this disk while the workers are busy with those before them."""
        if isinstance(role.sampler, Lanes) and isinstance(role.items, ImageFiles):
            members = role.items.paths
            if isinstance(members, Members) and is_remote(members.shards[0].place):
                self.ahead.want([members.shards[number] for number in role.sampler.ahead(step, rows)])


def _sources(items: Items, positions: Iterable[int]) -> Sequence[Source]:
    """Give the places of images for a worker: paths, so that it needs no list of all files, or positions in its tensor."""
    if not isinstance(items, ImageFiles):
        return list(positions)
    found = [items.paths[position] for position in positions]
    return [each if isinstance(each, Member) else str(each) for each in found]


class _Maker:
    """Part of a role that a worker needs: how to open an image given by its position or path, and which views to make of it."""

    def __init__(self, items: Items, views: ImageViews, names: Sequence[str]) -> None:
        self.items = items if isinstance(items, Tensor) else items[torch.arange(0)]  # how to open files; the parts name them
        self.views, self.names = PillowViews(views, items.side if isinstance(items, ImageFiles) else None), names
        self.part = _part_size(items)
        self.bytes = self.part * len(names) * math.prod(items.shape[1:])

    def open(self, source: Source) -> Image.Image:
        if isinstance(self.items, Tensor):
            assert isinstance(source, int)
            return to_image(self.items[source])
        return self.items.open(source if isinstance(source, Member) else Path(str(source)))


class _Parts(Dataset[Made]):
    """Runs in the workers: a part in, its views out. What a user can fix comes back as a message, without a traceback."""

    def __init__(self, makers: dict[str, _Maker], seed: int) -> None:
        self.makers, self.seed = makers, seed

    def __getitem__(self, part: _Part) -> Made:
        maker = self.makers[part.role]
        made: dict[str, list[Tensor]] = {name: [] for name in maker.names}
        for position, source in enumerate(part.sources, part.start):
            try:
                image = maker.open(source)
            except InputError as error:
                return str(error)
            for name in maker.names:
                draws = () if name == "plain" else (stream(self.seed, part.role, name, part.step, position),)
                made[name].append(getattr(maker.views, name.partition("_")[0])(image, *draws).permute(1, 2, 0))
        return {name: torch.stack(pixels).permute(0, 3, 1, 2) for name, pixels in made.items()}


class _Workers:
    """Processes that work through the parts, `ahead` samples in advance where the memory between processes allows it.

    They end with `close` or with this object. torch ends them at once only when the last reference to its loader goes, not
    when the garbage collector finds the loader in a cycle, such as that of an exception: hence the list and the finaliser.
    """

    def __init__(
        self, makers: dict[str, _Maker], seed: int, parts: Iterable[_Part], number: int, ahead: int, device: torch.device
    ) -> None:
        size, images = max(maker.bytes for maker in makers.values()), min(maker.part for maker in makers.values())
        ready = min(-(-ahead // images), _shared_memory() // 2 // size // neighbours())
        with quiet():
            loader: DataLoader[Made] = DataLoader(
                _Parts(makers, seed),
                sampler=parts,
                batch_size=None,
                num_workers=number,
                prefetch_factor=max(ready // number, 1) if number else None,
                persistent_workers=number > 0,
                pin_memory=device.type == "cuda",
                worker_init_fn=begin_worker,
                generator=torch.Generator(),  # else the loader draws a seed from the global one, which training depends on
            )
        self._running: list[Any] = [loader]  # and then what it makes
        self.close = weakref.finalize(self, self._running.clear)

    def begin(self) -> None:
        """Go to the first of the parts, at the start and again later; processes that are there stay."""
        with quiet():
            self._running[1:] = [iter(self._running[0])]

    def receive(self) -> dict[str, Tensor]:
        """The views of the next part."""
        try:
            part: Made = next(self._running[1])
        except (RuntimeError, ConnectionError, EOFError) as error:  # the latter: it ended while it handed a part over
            if isinstance(error, RuntimeError) and "DataLoader worker" not in str(error):
                raise
            ended = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        else:
            if isinstance(part, str):
                raise InputError(part)
            return part
        raise LoadingError(f"{LOST_WORKER} ({ended}.)")


def begin_worker(worker: int) -> None:
    """One thread, and deaf to signals that a terminal or a scheduler sends to all: they ask the process that trains to end.

    It then writes a checkpoint, for which it needs no worker, but the loss of one would break it off.
    """
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGUSR1"):
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    if hasattr(signal, "sigwaitinfo"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    """SIGTERM ends a worker if its parent sent it."""
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
        pass
    os._exit(0)


def _shared_memory() -> int:
    """Free bytes of the memory through which workers hand over tensors; in containers often 64 MB."""
    try:
        return shutil.disk_usage("/dev/shm").free
    except OSError:
        return 2**30


@contextmanager
def quiet() -> Iterator[None]:
    """Without two warnings that are no news: more workers than CPUs, and (Python 3.12) that a process with threads forks."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"This DataLoader will create", category=UserWarning)
        warnings.filterwarnings("ignore", message=r".*use of fork\(\)", category=DeprecationWarning)
        yield
