"""Networks with a linear head on features, and additional heads for methods that ask for them."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn import functional as F


def feature_size(network: nn.Module) -> int | None:
    """Size of the features below a linear `head`; None for a network without `features` or such a head."""
    head = getattr(network, "head", None)
    return head.in_features if callable(getattr(network, "features", None)) and isinstance(head, nn.Linear) else None


class FeatureNetwork(nn.Module):
    """A network whose logits are its linear `head` on its `features`."""

    head: nn.Linear

    def features(self, inputs: Tensor) -> Tensor:
        """A batch → (B, D)."""
        raise NotImplementedError(f"{type(self).__name__} must define features(inputs)")

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(inputs))
        return logits


class Headed(nn.Module):
    """A network with additional heads, which are trained and averaged with it. Its logits are still those of its own head."""

    def __init__(self, network: nn.Module, heads: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.network = network
        self.heads = nn.ModuleDict(dict(heads))

    @property
    def head(self) -> nn.Module:
        """The network's own."""
        return self.network.head  # type: ignore[return-value]  # an attribute of a module is untyped

    def features(self, inputs: Tensor) -> Tensor:
        """(B, …) → (B, D)."""
        out: Tensor = self.network.features(inputs)  # type: ignore[operator]  # an attribute of a module is untyped
        return out

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.network(inputs)
        return logits


def trained(network: nn.Module, final_head: str | None = None) -> nn.Module:
    """The network without additional heads, sharing its weights; with `final_head`, that head replaces its own."""
    if not isinstance(network, Headed):
        return network
    if final_head is None:
        return network.network
    plain = copy.copy(network.network)
    plain._modules = {**network.network._modules, "head": network.heads[final_head]}
    return plain


class Projector(nn.Module):
    """Linear–ReLU–Linear onto the unit sphere, for methods that compare samples by embeddings."""

    def __init__(self, num_features: int, size: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(num_features, num_features)
        self.out = nn.Linear(num_features, size)

    def forward(self, features: Tensor) -> Tensor:
        return F.normalize(self.out(F.relu(self.hidden(features))).float(), dim=-1)
