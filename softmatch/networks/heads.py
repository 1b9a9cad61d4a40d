"""Further heads on a network's features, for methods that ask for them."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn import functional as F


def feature_size(network: nn.Module) -> int | None:
    """Size of the features that a linear `head` makes logits of; None for a network that does not show them."""
    head = getattr(network, "head", None)
    return head.in_features if callable(getattr(network, "features", None)) and isinstance(head, nn.Linear) else None


class Headed(nn.Module):
    """A network with further heads, which are trained and averaged with it. Its logits are still those of its own head."""

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
    """The network without further heads; where `final_head` is given, with that one instead of its own. Shares the weights."""
    if not isinstance(network, Headed):
        return network
    if final_head is None:
        return network.network
    plain = copy.copy(network.network)
    plain._modules = {**network.network._modules, "head": network.heads[final_head]}
    return plain


class Projector(nn.Module):
    """Linear–ReLU–Linear onto the unit sphere: the embeddings of methods that compare samples."""

    def __init__(self, num_features: int, size: int = 64) -> None:
        super().__init__()
        self.hidden = nn.Linear(num_features, num_features)
        self.out = nn.Linear(num_features, size)

    def forward(self, features: Tensor) -> Tensor:
        return F.normalize(self.out(F.relu(self.hidden(features))).float(), dim=-1)
