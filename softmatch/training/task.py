"""The task of a run: everything that is decided before training starts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from softmatch.config import Config
from softmatch.data import Examples, Split
from softmatch.data.folds import Evaluation
from softmatch.data.loading import read_plain
from softmatch.data.pictures import ImageFiles
from softmatch.data.preparations import Preparation, plain_preparation
from softmatch.data.preparations.images import ImagePreparation
from softmatch.data.records import Finding
from softmatch.networks import Network, describe_network
from softmatch.views import Views


@dataclass(frozen=True)
class Task:
    """Everything decided before training starts.

    Attributes:
        name: a word for the source, in folders and headings.
        split: what is trained on and, in `test`, held out: of the saved model, or of a fold of its evaluation.
        findings: what was noticed about a user's own data.
        processes: how many train the network together.
        trained: parameters that training changes, where that is known.
    """

    source: str
    name: str
    config: Config
    examples: Examples
    split: Split
    views: Views
    network: Network
    parameters: int
    num_features: int | None
    device: torch.device
    evaluation: Evaluation
    findings: tuple[Finding, ...] = ()
    processes: int = 1
    trained: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one item."""
        return tuple(self.examples.items.shape[1:])

    @property
    def network_name(self) -> str:
        """As it is shown and saved."""
        return describe_network(self.network)

    @property
    def has_twin(self) -> bool:
        """Whether the same network is also trained on the labels alone, to compare with."""
        return self.config.baseline and self.config.method != "supervised" and self.evaluation.kind != "none"

    @property
    def test(self) -> tuple[Tensor | ImageFiles, Tensor]:
        """Items and labels that the error is measured on."""
        if self.examples.test is not None:
            return self.examples.test.items, self.examples.test.labels
        return self.examples.items[self.split.test], self.examples.labels[self.split.test]

    @property
    def test_names(self) -> list[str]:
        """What a user calls the items of `test`; none for other sources."""
        if self.examples.test is not None:
            return list(self.examples.test.names)
        return [self.examples.names[position] for position in self.split.test.tolist()] if self.examples.names else []

    @property
    def preparation(self) -> Preparation:
        """What makes items of files or rows."""
        if self.examples.preparation is not None:
            return self.examples.preparation
        if isinstance(self.examples.items, ImageFiles):
            return ImagePreparation.of_files(self.examples.items)
        return plain_preparation(self.examples.kind, self.shape)

    def some_items(self, number: int) -> Tensor:
        """A few of the items that are trained on."""
        chosen = self.examples.items[self.split.unlabeled[:number]]
        return next(read_plain(chosen, number, 0)) if isinstance(chosen, ImageFiles) else chosen
