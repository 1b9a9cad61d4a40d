"""The network as a method calls it: views in, logits and features of the whole batch out."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from softmatch.distributed.processes import Draws, gather_rows, numbers_of_rows, own_rows, world
from softmatch.methods.neighbours import Neighbours

BatchStatistics = Literal["joint", "separate"]


class Encoded(NamedTuple):
    """A network's output for a view: the input of its head (B, D), and the logits (B, C)."""

    features: Tensor
    logits: Tensor


class Forward:
    """The network as a method calls it: it decides which views share batch statistics, and which have a gradient.

    "joint" runs all views of a call in one forward pass, so that they share the statistics of batch normalisation, as the
    paper's code base does. "separate" runs one pass per view, those without gradient cheaply. Without batch normalisation
    both compute the same.

    Args:
        network: returns logits; for methods that use features it has `features(x)`, a linear `head`, and the method's own heads
            in `heads`.
        micro_batch: with "separate", the largest number of samples in a pass. Each pass has its own batch statistics (ghost
            batches), and its activations stay in the processor's cache.
        average: the network of averaged weights, for methods with a teacher.
        compiled: compile the network with torch.compile.
        taught: the averaged weights answer for views without gradient, so that they make the pseudo-labels.
        neighbours: smooths the predictions of the averaged weights where these answer.
        strong_share: share of the unlabelled batch whose strong views a match method trains on.
        sharded: views hold this process's share of the rows (`processes.share`), and results the rows of all processes, the same
            everywhere. Each process then has a part of the network's gradient, to be summed over the processes.

    Attributes:
        by_share: a method may ask for its own rows' logits only, and make its loss of sums over the processes.
    """

    def __init__(
        self,
        network: nn.Module,
        batch_statistics: BatchStatistics = "joint",
        micro_batch: int | None = None,
        average: nn.Module | None = None,
        compiled: bool = False,
        *,
        sharded: bool = False,
        taught: bool = False,
        neighbours: Neighbours | None = None,
        strong_share: float = 1.0,
    ) -> None:
        if batch_statistics not in ("joint", "separate"):
            raise ValueError(f'batch_statistics must be "joint" or "separate", not {batch_statistics!r}')
        self.network, self.average = network, average
        self.batch_statistics = batch_statistics
        self.micro_batch = micro_batch if batch_statistics == "separate" else None
        self.compiled = compiled
        self.sharded, self.taught, self.neighbours = sharded and world().size > 1, taught, neighbours
        self.strong_share = strong_share
        self.by_share = self.sharded and not taught
        self._draws = Draws()
        self._logits: Callable[[Tensor], Tensor] = torch.compile(network) if compiled else network
        features = getattr(network, "features", None)
        self._features: Callable[[Tensor], Tensor] | None = torch.compile(features) if compiled and features else features

    def begin(self, step: int) -> None:
        """Called before each step, whose number seeds the random numbers of the network (dropout) for a share."""
        self._draws.begin(step)

    def around(self, network: nn.Module) -> "Forward":
        """The same for another network, which a method trains in addition."""
        other = Forward(network, self.batch_statistics, self.micro_batch, sharded=self.sharded)
        other._draws = self._draws
        return other

    def __call__(
        self, *views: Tensor, gradient: tuple[bool, ...] | None = None, tracking: bool = True, own: bool = False
    ) -> list[Tensor]:
        """Logits of each view.

        Args:
            gradient: for each view, true if its logits have a gradient; by default all have.
            tracking: false leaves the running statistics of batch normalisation unchanged; batches are still normalised with
                their own.
            own: logits of this process's rows only, where `by_share` allows it.
        """
        if self.taught and gradient is not None and any(gradient) and not all(gradient):
            pairs = list(zip(views, gradient, strict=True))
            answers = iter(self._answer(*(view for view, wanted in pairs if not wanted)))
            learned = iter(self(*(view for view, wanted in pairs if wanted), tracking=tracking))
            return [next(learned if wanted else answers) for wanted in gradient]
        with self._own_draws():
            logits = self._run(self._logits, views, gradient, tracking)
        return logits if own else self._gathered(logits)[0]

    def together(self, *views: Tensor, tracking: bool = True, by_features: bool = False) -> list[Tensor]:
        """Logits of each view as one batch, whose statistics they share, also with "separate".

        Args:
            by_features: the head makes them from the features of all passes, as in `encode`.
        """
        with self._own_draws():
            call = self._features if by_features else self._logits
            assert call is not None, "a method that encodes says so with needs_features"
            (found,) = self._run(call, (torch.cat(views),), None, tracking)
            logits = self._head(found) if by_features else found
        return self._gathered(torch.split(logits, [len(view) for view in views]))[0]

    def encode(self, *views: Tensor, gradient: tuple[bool, ...] | None = None, tracking: bool = True) -> list[Encoded]:
        """Features and logits of each view; arguments as in a call."""
        assert self._features is not None, "a method that encodes says so with needs_features"
        wanted, logits = gradient or (True,) * len(views), []
        with self._own_draws():
            features = self._run(self._features, views, gradient, tracking)
            for feature, want in zip(features, wanted, strict=True):
                with torch.set_grad_enabled(want and torch.is_grad_enabled()):
                    logits.append(self._head(feature))
        return [Encoded(*pair) for pair in zip(*self._gathered(features, logits), strict=True)]

    def head(self, features: Tensor, name: str | None = None, averaged: bool = False) -> Tensor:
        """Output of the network's head, or of the method's head of that name, for features.

        Args:
            features: features of the rows of all processes.
            averaged: use the head of the averaged weights.
        """
        with self._own_draws():
            found = self._head(self.own(features), name, averaged)
        return self._gathered([found])[0][0]

    @torch.no_grad()
    def teach(self, *views: Tensor) -> list[Tensor]:
        """Logits of each view by the averaged weights, without gradient, normalised with the batch as in training."""
        assert self.average is not None, "this loop keeps no averaged weights"
        with frozen_running_statistics(self.average):
            return self._averaged(self.average, views, batch_statistics=True)

    @torch.no_grad()
    def _answer(self, *views: Tensor) -> list[Tensor]:
        """Logits by which pseudo-labels are made: `teach`, smoothed by the neighbours if there are any."""
        if self.neighbours is None:
            return self.teach(*views)
        assert self.average is not None
        assert self._features is not None, "neighbours need a network that shows its features"
        with frozen_running_statistics(self.average):
            found = self._averaged(self.average.features, views, batch_statistics=True)  # type: ignore[arg-type]  # a method of it
        return [self.neighbours(features, self._head(features, averaged=True)) for features in found]

    @torch.no_grad()
    def teach_features(self, *views: Tensor) -> list[Tensor]:
        """Features of each view by the averaged weights, without gradient, normalised with the running statistics."""
        assert self.average is not None, "this loop keeps no averaged weights"
        return self._averaged(self.average.features, views, batch_statistics=False)  # type: ignore[arg-type]  # a method of it

    def rows(self, view: Tensor) -> int:
        """Number of rows of all processes: a method draws random numbers for all of them and takes its `own`."""
        return sum(numbers_of_rows([len(view)])[0]) if self.sharded else len(view)

    def whole(self, view: Tensor, first: int | None = None) -> Tensor:
        """The rows of all processes, or the first `first` of them, for methods that mix samples."""
        if not self.sharded:
            return view if first is None else view[:first]
        (numbers,) = numbers_of_rows([len(view)])
        if first is not None:
            numbers = [min(max(first - sum(numbers[:rank]), 0), number) for rank, number in enumerate(numbers)]
        return gather_rows(view[: numbers[world().rank]], numbers)

    def own(self, whole: Tensor) -> Tensor:
        """This process's share of rows that all processes have, like the views of a call."""
        return own_rows(whole) if self.sharded else whole

    def _gathered(self, *kinds: Sequence[Tensor]) -> list[list[Tensor]]:
        """Each kind of output, for each view: the rows of all processes, in one message per kind."""
        if not self.sharded:
            return [list(shares) for shares in kinds]
        by_process = list(zip(*numbers_of_rows([len(share) for share in kinds[0]]), strict=True))
        found = []
        for shares in kinds:
            whole = gather_rows(torch.cat(list(shares)), [sum(each) for each in by_process])
            parts = torch.split(whole, [number for each in by_process for number in each])
            views = (torch.cat(parts[view :: len(shares)]) for view in range(len(shares)))
            found.append([view if share.requires_grad else view.detach() for view, share in zip(views, shares, strict=True)])
        return found

    def _own_draws(self) -> AbstractContextManager[None]:
        if not self.sharded:
            return nullcontext()
        parameter = next(self.network.parameters(), None)
        return self._draws.own(torch.device("cpu") if parameter is None else parameter.device)

    def _head(self, features: Tensor, name: str | None = None, averaged: bool = False) -> Tensor:
        network = self.average if averaged else self.network
        assert network is not None, "this loop keeps no averaged weights"
        head = network.head if name is None else network.heads[name]  # type: ignore[index]  # a ModuleDict
        out: Tensor = head(features)  # type: ignore[operator]  # a module's attribute is untyped
        return out

    def _averaged(self, call: Callable[[Tensor], Tensor], views: tuple[Tensor, ...], batch_statistics: bool) -> list[Tensor]:
        assert self.average is not None
        was = self.average.training
        self.average.train(batch_statistics)
        try:
            with self._own_draws():
                return self._gathered([self._pass(call, view) for view in views])[0]
        finally:
            self.average.train(was)

    def _run(
        self, call: Callable[[Tensor], Tensor], views: tuple[Tensor, ...], gradient: tuple[bool, ...] | None, tracking: bool
    ) -> list[Tensor]:
        wanted = gradient or (True,) * len(views)
        with nullcontext() if tracking else frozen_running_statistics(self.network):
            if self.batch_statistics == "joint":
                with torch.set_grad_enabled(any(wanted) and torch.is_grad_enabled()):
                    whole = torch.split(call(torch.cat(views)), [len(v) for v in views])
                return [out if want else out.detach() for out, want in zip(whole, wanted, strict=True)]
            found = []
            for view, want in zip(views, wanted, strict=True):
                with torch.set_grad_enabled(want and torch.is_grad_enabled()):
                    found.append(self._pass(call, view))
            return found

    def _pass(self, call: Callable[[Tensor], Tensor], view: Tensor) -> Tensor:
        """One view, in passes of nearly equal size."""
        number = 1 if self.micro_batch is None else -(-len(view) // self.micro_batch)
        found = [call(piece) for piece in torch.tensor_split(view, max(number, 1))]
        return found[0] if len(found) == 1 else torch.cat(found)


class RecordedForward(Forward):
    """A Forward that remembers its output for each view of this step, for a method around another."""

    def __init__(self, inner: Forward) -> None:
        self.network, self.average = inner.network, inner.average
        self.batch_statistics, self.micro_batch = inner.batch_statistics, inner.micro_batch
        self.compiled, self.sharded, self.taught, self._draws = inner.compiled, inner.sharded, inner.taught, inner._draws
        self.by_share, self.neighbours, self.strong_share = (
            False,
            inner.neighbours,
            1.0,
        )  # a method around another wants the outputs of all views
        self.inner = inner
        self._seen: list[tuple[Tensor, Encoded]] = []

    def __call__(
        self, *views: Tensor, gradient: tuple[bool, ...] | None = None, tracking: bool = True, own: bool = False
    ) -> list[Tensor]:
        assert not own, "a method around another sees all rows"
        return [encoded.logits for encoded in self.encode(*views, gradient=gradient, tracking=tracking)]

    def encode(self, *views: Tensor, gradient: tuple[bool, ...] | None = None, tracking: bool = True) -> list[Encoded]:
        found = self.inner.encode(*views, gradient=gradient, tracking=tracking)
        self._seen += zip(views, found, strict=True)
        return found

    def together(self, *views: Tensor, tracking: bool = True, by_features: bool = True) -> list[Tensor]:
        return self.inner.together(*views, tracking=tracking, by_features=by_features)  # as every call here encodes

    def of(self, view: Tensor) -> Encoded:
        """The output for this very tensor, the first time it was given."""
        for seen, encoded in self._seen:
            if seen is view:
                return encoded
        raise LookupError("the inner method has not shown this view to the network")


@contextmanager
def frozen_running_statistics(network: nn.Module) -> Iterator[None]:
    """In this block batch normalisation normalises with the batch and does not move its running statistics."""
    norms = [m for m in network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True
