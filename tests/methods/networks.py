"""What tests of methods share: a tiny network with batch normalisation, tiny batches, and real trainers on digits."""

from typing import Any

import torch
from torch import Tensor, nn

from softmatch.config import make_config
from softmatch.data import find_source
from softmatch.step import Batch, Labeled
from softmatch.training.loop import Trainer
from softmatch.training.setup import build_method, make_trainer
from tests.prepared import prepare


class Normalised(nn.Module):
    """Linear and batch normalisation, with ReLU where asked for, and a linear head."""

    def __init__(self, inputs: int = 5, features: int = 8, classes: int = 3, relu: bool = False) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, features), nn.BatchNorm1d(features), *([nn.ReLU()] if relu else []))
        self.head = nn.Linear(features, classes)

    def features(self, inputs: Tensor) -> Tensor:
        return self.body(inputs)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.features(inputs))


def normalised(inputs: int = 5, classes: int = 3) -> nn.Sequential:
    """The same without features to show; its batch normalisation is layer 1."""
    return nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Linear(8, classes))


def batch(
    *views: str,
    labeled: tuple[str, ...] = ("weak",),
    size: int = 6,
    inputs: int | tuple[int, ...] = 5,
    seed: int | None = None,
    streams: dict[str, Labeled] | None = None,
) -> Batch:
    """Four labelled samples of three classes and `size` unlabelled ones in these views (by default weak and strong)."""
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    shape = (inputs,) if isinstance(inputs, int) else inputs
    return Batch(
        labeled={name: torch.randn(4, *shape, generator=generator) for name in labeled},
        labels=torch.tensor([0, 1, 2, 0]),
        unlabeled={name: torch.randn(size, *shape, generator=generator) for name in views or ("weak", "strong")},
        index=torch.arange(size),
        streams=streams or {},
    )


def trainer(method: str, source: str = "digits", **settings: Any) -> Trainer:
    """A trainer of eight steps."""
    base = {"steps": 8, "evaluate_every": 4, "unlabeled_batch": 24, "threads": 1, "method": method}
    if source == "digits":
        base |= {"network": "small-conv-8"}
    task = prepare(source, make_config(find_source(source).defaults, base, settings))
    return make_trainer(task, build_method(task, task.config.method))
