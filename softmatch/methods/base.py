"""The one interface between the training loop and a method: what it needs, the state it keeps, its loss on a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch.metrics import PseudoLabels
from softmatch.seen import refuse_invalid

BatchStatistics = Literal["joint", "separate"]
MakeOptimizer = Callable[[nn.Module], torch.optim.Optimizer]


class Labeled(NamedTuple):
    """A further labelled batch: its views by name, and its labels."""

    views: dict[str, Tensor]
    labels: Tensor


def _none() -> Tensor:
    return torch.zeros(0, dtype=torch.int64)


@dataclass(frozen=True)
class Batch:
    """One step's data: the views a method asked for, by name. The truth of unlabelled samples is not in it.

    Attributes:
        index: position of each unlabelled sample in the unlabelled set.
        labeled_index: position of each labelled sample in the labelled set.
        streams: the further labelled batches that the method asked for, by name.
    """

    labeled: dict[str, Tensor]
    labels: Tensor
    unlabeled: dict[str, Tensor]
    index: Tensor
    labeled_index: Tensor = field(default_factory=_none)
    streams: Mapping[str, Labeled] = field(default_factory=dict)


@dataclass(frozen=True)
class Output:
    """A method's loss on one batch, with its parts (detached) and what it made of the unlabelled samples."""

    loss: Tensor
    supervised_loss: Tensor
    unsupervised_loss: Tensor | None = None
    pseudo: PseudoLabels | None = None


class Encoded(NamedTuple):
    """What a network makes of a view: the input of its head (B, D), and the logits (B, C)."""

    features: Tensor
    logits: Tensor


class Forward:
    """The network as a method calls it: which views share batch statistics, and which need a gradient.

    "joint" runs all views of a call in one forward pass, so that they share the statistics of batch normalisation, as the
    paper's code base does. "separate" runs one pass per view, those without gradient cheaply. Without batch normalisation
    the two compute the same.

    Args:
        network: gives logits; for methods that use features it has `features(x)`, a linear `head`, and in `heads` what the
            method asked for.
        micro_batch: with "separate", the most samples in a pass. Each pass normalises with statistics of its own (ghost
            batches), and its activations stay in the processor's cache.
        average: the network of averaged weights, for methods with a teacher.
        compiled: compile the network with torch.compile.
    """

    def __init__(
        self,
        network: nn.Module,
        batch_statistics: BatchStatistics = "joint",
        micro_batch: int | None = None,
        average: nn.Module | None = None,
        compiled: bool = False,
    ) -> None:
        if batch_statistics not in ("joint", "separate"):
            raise ValueError(f'batch_statistics must be "joint" or "separate", not {batch_statistics!r}')
        self.network, self.average = network, average
        self.batch_statistics = batch_statistics
        self.micro_batch = micro_batch if batch_statistics == "separate" else None
        self.compiled = compiled
        self._logits: Callable[[Tensor], Tensor] = torch.compile(network) if compiled else network
        features = getattr(network, "features", None)
        self._features: Callable[[Tensor], Tensor] | None = torch.compile(features) if compiled and features else features

    def __call__(self, *views: Tensor, gradient: tuple[bool, ...] | None = None, tracking: bool = True) -> list[Tensor]:
        """Logits of each view.

        Args:
            gradient: for each view, whether its logits have a gradient; by default all have.
            tracking: false leaves the running statistics of batch normalisation as they are; batches still normalise
                with their own.
        """
        return self._run(self._logits, views, gradient, tracking)

    def encode(self, *views: Tensor, gradient: tuple[bool, ...] | None = None, tracking: bool = True) -> list[Encoded]:
        """Features and logits of each view; the arguments are those of a call."""
        assert self._features is not None, "a method that encodes says so with needs_features"
        features = self._run(self._features, views, gradient, tracking)
        wanted = gradient or (True,) * len(views)
        found = []
        for feature, want in zip(features, wanted, strict=True):
            with torch.set_grad_enabled(want and torch.is_grad_enabled()):
                found.append(Encoded(feature, self.head(feature)))
        return found

    def head(self, features: Tensor, name: str | None = None, averaged: bool = False) -> Tensor:
        """What the network's head, or the head of that name which the method asked for, makes of features.

        Args:
            averaged: use the head of averaged weights.
        """
        network = self.average if averaged else self.network
        assert network is not None, "this loop keeps no averaged weights"
        head = network.head if name is None else network.heads[name]  # type: ignore[index]  # a ModuleDict
        out: Tensor = head(features)  # type: ignore[operator]  # a module's attribute is untyped
        return out

    @torch.no_grad()
    def teach(self, *views: Tensor, batch_statistics: bool = True) -> list[Tensor]:
        """Logits of each view by the averaged weights, without gradient; running statistics stay as they are.

        Args:
            batch_statistics: normalise with the batch, as in training, or with the running statistics.
        """
        assert self.average is not None, "this loop keeps no averaged weights"
        return self._averaged(self.average, views, batch_statistics)

    @torch.no_grad()
    def teach_features(self, *views: Tensor, batch_statistics: bool = True) -> list[Tensor]:
        """Features of each view by the averaged weights; as `teach`."""
        assert self.average is not None, "this loop keeps no averaged weights"
        return self._averaged(self.average.features, views, batch_statistics)  # type: ignore[arg-type]  # a method of the module

    def _averaged(self, call: Callable[[Tensor], Tensor], views: tuple[Tensor, ...], batch_statistics: bool) -> list[Tensor]:
        assert self.average is not None
        was = self.average.training
        self.average.train(batch_statistics)
        try:
            with frozen_running_statistics(self.average) if batch_statistics else nullcontext():
                return [self._pass(call, view) for view in views]
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
    """A Forward that remembers what it made of each view of this step, so that a method around another sees it too."""

    def __init__(self, inner: Forward) -> None:
        self.network, self.average = inner.network, inner.average
        self.batch_statistics, self.micro_batch = inner.batch_statistics, inner.micro_batch
        self.inner = inner
        self._seen: list[tuple[Tensor, Encoded]] = []

    def __call__(self, *views: Tensor, gradient: tuple[bool, ...] | None = None, tracking: bool = True) -> list[Tensor]:
        return [encoded.logits for encoded in self.encode(*views, gradient=gradient, tracking=tracking)]

    def encode(self, *views: Tensor, gradient: tuple[bool, ...] | None = None, tracking: bool = True) -> list[Encoded]:
        found = self.inner.encode(*views, gradient=gradient, tracking=tracking)
        self._seen += zip(views, found, strict=True)
        return found

    def head(self, features: Tensor, name: str | None = None, averaged: bool = False) -> Tensor:
        return self.inner.head(features, name, averaged)

    def teach(self, *views: Tensor, batch_statistics: bool = True) -> list[Tensor]:
        return self.inner.teach(*views, batch_statistics=batch_statistics)

    def teach_features(self, *views: Tensor, batch_statistics: bool = True) -> list[Tensor]:
        return self.inner.teach_features(*views, batch_statistics=batch_statistics)

    def of(self, view: Tensor) -> Encoded:
        """What was made of this very tensor, the first time it was given."""
        for seen, encoded in self._seen:
            if seen is view:
                return encoded
        raise LookupError("the method inside has not shown this view to the network")


@contextmanager
def frozen_running_statistics(network: nn.Module) -> Iterator[None]:
    """Batch normalisation in this block normalises with the batch and does not move its running statistics."""
    norms = [m for m in network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True


class Method(nn.Module):
    """Base of every method. What a method needs beyond a loss on a batch it says here; the loop knows no method by name.

    Attributes:
        labeled_views, unlabeled_views: names of the views (of `softmatch.views`) that `step` finds in its batch; "weak_2" is
            a second weak view, drawn independently.
        streams: further labelled batches in `Batch.streams`, in their weak view: "balanced" has every class equally often;
            "validation" is of labelled samples that are kept out of training, `validation_share` of each class.
        kinds: the modalities it can serve.
        tracked_views: the unlabelled views that move the running statistics of batch normalisation; None: all.
        needs_features: it calls `Forward.encode`, so the network must have `features(x)` and a linear `head`.
        final_head: name of the head (of `heads`) that makes the predictions of the trained network; None: its own.
        survey_every: steps between two calls of `survey`; None: never.
        generations: parts of equal length that training is cut into; each begins with new weights.
        optimizers: of modules that the method trains by itself, by name; they are saved with the run.
    """

    labeled_views: tuple[str, ...] = ("weak",)
    unlabeled_views: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    validation_share: float = 0.0
    kinds: tuple[str, ...] = ("image", "vector", "text")
    tracked_views: tuple[str, ...] | None = None
    needs_features: bool = False
    final_head: str | None = None
    survey_every: int | None = None
    generations: int = 1

    def __init__(self) -> None:
        super().__init__()
        self.optimizers: dict[str, torch.optim.Optimizer] = {}

    def step(self, forward: Forward, batch: Batch) -> Output:
        """Update the state from this batch, and return its loss. Called once a training step."""
        raise NotImplementedError(f"{type(self).__name__} must define step(forward, batch)")

    def heads(self, num_features: int) -> dict[str, nn.Module]:
        """New heads on the network's features, by name; they are trained and averaged as parts of the network."""
        return {}

    def begin(self, network: nn.Module, make_optimizer: MakeOptimizer) -> None:
        """Called before the first step, and of each generation, with the network that will be trained.

        Args:
            make_optimizer: makes an optimiser as the run's own for another module; its learning rate follows the schedule.
        """

    def after_step(self, forward: Forward, batch: Batch) -> None:
        """Called after the network has been updated, with the batch of this step."""

    def survey(self, probs: Tensor) -> None:
        """Learn from the predictions (N_U, C) of the averaged network on all unlabelled samples."""

    def next_generation(self, probs: Tensor) -> None:
        """Called at the end of a generation with the predictions (N_U, C) of the averaged network."""

    def added_labels(self) -> Tensor | None:
        """Labels (N_U,) under which unlabelled samples are also labelled ones from now on, −1 for none; None: for no sample."""
        return None

    def statistics(self) -> dict[str, Tensor]:
        """State worth logging, by name."""
        return {}

    def weight_curve(self, num_classes: int) -> tuple[Tensor, Tensor] | None:
        """λ over the confidence now, or None for a method without such a function."""
        return None


def supervised_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """L_s = mean H(y, p(x)), in float32."""
    refuse_invalid("labeled_logits", logits)
    return F.cross_entropy(logits.float(), labels)


class Supervised(Method):
    """L = mean H(y, p(x)) on labelled samples alone: the twin that every run is compared with."""

    def forward(self, labeled_logits: Tensor, labels: Tensor) -> Tensor:
        return supervised_loss(labeled_logits, labels)

    def step(self, forward: Forward, batch: Batch) -> Output:
        (logits,) = forward(batch.labeled["weak"])
        loss = self(logits, batch.labels)
        return Output(loss=loss, supervised_loss=loss.detach())
