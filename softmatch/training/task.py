"""The task of a run: all decisions made before training starts."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from softmatch.data import Split
from softmatch.data.evaluation import Evaluation
from softmatch.data.loading import read_plain
from softmatch.data.pictures import ImageFiles
from softmatch.data.preparations import Preparation, plain_preparation
from softmatch.data.preparations.images import ImagePreparation
from softmatch.data.sources import SOURCES
from softmatch.networks import Network, describe_network
from softmatch.runs.model import Model
from softmatch.seeds import stream
from softmatch.training.opening import Job
from softmatch.views import Views

SAMPLES = 16
CURVE_SAMPLES = 1000
"""Number of test samples for the error at records before the last, where there are more than twice as many."""


@dataclass(frozen=True)
class Activations:
    """Items of a task as rows of cached activations, of which the task's views are made.

    Attributes:
        plain: views of the items themselves, which the saved model has.
        items, augmented, test: rows (N, 1) of the items, (N, A, 1) of their versions, and (M, 1) of the test items.
    """

    plain: Views
    items: Tensor
    augmented: Tensor | None
    test: Tensor | None


@dataclass(frozen=True, kw_only=True)
class Task(Job):
    """A job with all decisions made before training starts.

    Attributes:
        split: training samples and, in `test`, held-out ones; of the saved model, or of a fold of its evaluation.
        num_features: size of the network's features; None where it does not show them.
        trained: number of parameters that training changes.
        activations: the items inside the encoder, if only its last layers are trained.
    """

    split: Split
    views: Views
    network: Network
    parameters: int
    num_features: int | None
    device: torch.device
    evaluation: Evaluation
    processes: int
    trained: int
    activations: Activations | None = None

    @property
    def items(self) -> Tensor | ImageFiles:
        """Items of the task's views."""
        return self.examples.items if self.activations is None else self.activations.items

    @property
    def augmented(self) -> Tensor | None:
        """Versions of the items, (N, A, …)."""
        return self.examples.augmented if self.activations is None else self.activations.augmented

    @property
    def item_views(self) -> Views:
        """Views of the items as they were read."""
        return self.views if self.activations is None else self.activations.plain

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one item."""
        return tuple(self.examples.items.shape[1:])

    @property
    def network_name(self) -> str:
        """Name of the network, as shown and saved."""
        return describe_network(self.network)

    @property
    def has_baseline(self) -> bool:
        """True if the same network is also trained on the labels only."""
        return self.config.baseline and self.config.method != "supervised" and self.evaluation.kind != "none"

    @property
    def may_choose(self) -> bool:
        """True if the baseline is saved where it is clearly better: never by a benchmark's test set or by hidden labels."""
        own = self.source not in SOURCES and self.config.labels is None and self.config.imbalance is None
        return own and self.config.keep == "best" and (self.evaluation.kind != "test" or self.config.test is not None)

    @property
    def pool_size(self) -> int:
        """Number of unlabelled samples, of which those in shards are not in the split."""
        streamed = self.examples.streamed
        return len(self.split.unlabeled if streamed is None else streamed.pool(self.split.unlabeled))

    @property
    def test(self) -> tuple[Tensor | ImageFiles, Tensor]:
        """Items and labels that the error is measured on."""
        if self.examples.test is not None:
            cached = None if self.activations is None else self.activations.test
            return self.examples.test.items if cached is None else cached, self.examples.test.labels
        return self.items[self.split.test], self.examples.labels[self.split.test]

    @property
    def curve(self) -> Tensor | None:
        """Positions in `test` of the samples that all records but the last are measured on; None for all of them."""
        number = len(self.test[1])
        if number <= 2 * CURVE_SAMPLES or self.evaluation.folds:
            return None
        return torch.randperm(number, generator=stream(self.config.seed, "curve"))[:CURVE_SAMPLES].sort().values

    @property
    def test_names(self) -> list[str]:
        """Names of the items of `test` in a user's own data; empty for other sources."""
        if self.examples.test is not None:
            return list(self.examples.test.names)
        return [self.examples.names[position] for position in self.split.test.tolist()] if self.examples.names else []

    @property
    def preparation(self) -> Preparation:
        """Preparation that turns files or rows into items."""
        if self.examples.preparation is not None:
            return self.examples.preparation
        if isinstance(self.examples.items, ImageFiles):
            return ImagePreparation.of_files(self.examples.items)
        return plain_preparation(self.examples.kind, self.shape)

    def model(self, network: nn.Module) -> Model:
        """Model of a trained network, with some training items as samples."""
        samples = self.some_items(SAMPLES)
        return Model(network, self.item_views, self.examples.classes, self.shape, self.preparation, samples=samples)

    def some_items(self, number: int) -> Tensor:
        """Return a few training items, spread over all of them."""
        pool = self.split.unlabeled
        chosen = self.examples.items[pool[:: max(len(pool) // number, 1)][:number]]
        return next(read_plain(chosen, number, 0)) if isinstance(chosen, ImageFiles) else chosen
