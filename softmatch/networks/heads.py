"""Networks with a linear head on features, additional heads for methods, and settings for the head of an encoder."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch.errors import InputError


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


Head = Literal["linear", "gelu"]


@dataclass(frozen=True)
class Tuning:
    """Settings for fine-tuning a pretrained encoder; by default all of it is trained, with a linear head.

    Attributes:
        head: "gelu" adds a hidden layer with dropout and GELU below the linear one, as in USB's code.
        layers: train only the last N layers, the modules after them and the head; 0: the head only. The frozen part has no
            dropout, and its batch normalisation keeps its statistics.
        lora: train only low-rank updates of this rank to the layers' linear maps, and the head.
        cached: the inputs of the network are activations below these layers, or items as usual.
    """

    head: Head = "linear"
    layers: int | None = None
    lora: int | None = None
    cached: bool = False

    def __post_init__(self) -> None:
        if self.head not in get_args(Head):
            raise InputError(f"head = {self.head!r}: it must be linear or gelu.")
        if self.layers is not None and self.lora is not None:
            raise InputError(
                "whole layers (--tune last-N, --tuned-layers) and low-rank updates of all layers (--tune lora, --lora) exclude "
                "each other. Leave one out."
            )


SCALE = 2.0
"""Factor of low-rank updates."""


class Adapted(nn.Module):
    """A frozen linear map W with a trained low-rank update: W + 2·B·A (LoRA, Hu et al. 2022). B starts at zero."""

    def __init__(self, base_layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base_layer = base_layer.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.empty(rank, base_layer.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base_layer.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_A, a=5**0.5)

    @property
    def weight(self) -> Tensor:
        """W, whose number type some encoders ask for."""
        return self.base_layer.weight

    def forward(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.base_layer(inputs)
        return out + SCALE * F.linear(F.linear(inputs, self.lora_A), self.lora_B)

    def plain(self) -> nn.Linear:
        """The map with the update added to its weights, which changes them."""
        self.base_layer.weight += SCALE * self.lora_B @ self.lora_A
        return self.base_layer


def add_adapters(model: nn.Module, inside: Sequence[str], rank: int, name: object) -> None:
    """Give every linear map of an encoder's layers a low-rank update, inside and outside attention.

    Args:
        inside: names of the module lists that hold the layers.
    """
    found = [
        (path, module)
        for path, module in model.named_modules()
        if type(module) is nn.Linear and any(path.startswith(f"{each}.") for each in inside)
    ]
    if not found:
        raise InputError(
            f"--tune lora: encoder {name} has no layers with linear maps. Use another --tune, or choose another encoder."
        )
    for path, module in found:
        parent, _, own = path.rpartition(".")
        setattr(model.get_submodule(parent), own, Adapted(module, rank))


@torch.no_grad()
def merged(network: nn.Module) -> nn.Module:
    """A copy of the network with its adapters merged into the weights; the network itself if it has none."""
    if not any(isinstance(module, Adapted) for module in network.modules()):
        return network
    plain = copy.deepcopy(network)
    for path, module in [*plain.named_modules()]:
        if isinstance(module, Adapted):
            parent, _, own = path.rpartition(".")
            setattr(plain.get_submodule(parent), own, module.plain())
    return plain
