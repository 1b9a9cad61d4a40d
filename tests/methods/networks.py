"""A small network with batch normalisation that shows its features, for tests of methods that use them."""

from __future__ import annotations

from torch import Tensor, nn


class Normalised(nn.Module):
    """Linear and batch normalisation, with ReLU where asked for, and a linear head."""

    def __init__(self, inputs: int = 5, features: int = 8, classes: int = 3, relu: bool = False) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, features), nn.BatchNorm1d(features), *([nn.ReLU()] if relu else []))
        self.head = nn.Linear(features, classes)

    def features(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.body(inputs)
        return out

    def forward(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.head(self.features(inputs))
        return out
