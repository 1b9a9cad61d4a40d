"""Networks by name. Each has `features(x)` and a linear `head`; its forward pass gives logits."""

from __future__ import annotations

import re
from collections.abc import Sequence

from torch import nn

from softmatch.errors import InputError, nearest
from softmatch.networks.mlp import MLP
from softmatch.networks.small import SmallConv
from softmatch.networks.wrn import WideResNet

__all__ = ["MLP", "SmallConv", "WideResNet", "build_network", "choose_network"]

SMALL_SIDE = 16


def choose_network(name: str, kind: str, shape: Sequence[int]) -> str:
    """The name "auto" stands for: mlp for vectors, small-conv for images up to 16 pixels, wrn-28-2 for larger ones."""
    if name != "auto":
        return name
    if kind == "vector":
        return "mlp"
    return "small-conv" if max(shape[-2:]) <= SMALL_SIDE else "wrn-28-2"


def build_network(name: str, shape: Sequence[int], num_classes: int, batch_norm_momentum: float = 0.001) -> nn.Module:
    """A new network for items of `shape` (without the batch dimension).

    Args:
        name: "mlp", "small-conv", "small-conv-16" (16 channels instead of 32), or "wrn-d-k".
    """
    if name == "mlp":
        size = 1
        for side in shape:
            size *= side
        return MLP(size, num_classes)
    wide = re.fullmatch(r"wrn-(\d+)-(\d+)", name)
    small = re.fullmatch(r"small-conv(?:-(\d+))?", name)
    if wide is None and small is None:
        raise InputError(f"there is no network {name!r}. {nearest(name, ('mlp', 'small-conv', 'wrn-10-2', 'wrn-28-2'))}")
    if len(shape) != 3:
        raise InputError(f"network {name!r} is for images; these items are vectors: use mlp.")
    if small is not None:
        return SmallConv(num_classes, shape[0], int(small[1] or 32), batch_norm_momentum)
    assert wide is not None
    try:
        return WideResNet(int(wide[1]), int(wide[2]), num_classes, shape[0], batch_norm_momentum)
    except ValueError as error:
        raise InputError(f"network {name!r}: {error}") from error
