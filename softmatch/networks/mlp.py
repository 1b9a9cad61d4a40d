"""A multilayer perceptron for vectors."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from softmatch.networks.heads import FeatureNetwork


class MLP(FeatureNetwork):
    """Linear–ReLU for each hidden width, then a linear head; two hidden layers in the paper's two-moons experiment."""

    def __init__(self, in_features: int, num_classes: int, hidden: Sequence[int] = (64, 64)) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = in_features
        for size in hidden:
            layers += [nn.Linear(width, size), nn.ReLU()]
            width = size
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width, num_classes)

    def features(self, inputs: Tensor) -> Tensor:
        """(B, D) → (B, hidden)."""
        out: Tensor = self.body(inputs.flatten(1))
        return out
