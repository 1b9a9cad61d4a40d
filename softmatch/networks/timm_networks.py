"""Networks of the library timm by name, without pretrained weights: --network timm:NAME."""

import re
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from softmatch.errors import InputError, first_line

TIMM = "timm:"
"""Prefix of the name of a network of timm."""


class TimmNetwork(nn.Module):
    """A network of timm without its classifier, and a linear head.

    Args:
        model: made with num_classes=0, so that it returns pooled features.
    """

    def __init__(self, model: Any, num_classes: int) -> None:
        super().__init__()
        self.body = model
        self.head = nn.Linear(getattr(model, "head_hidden_size", None) or model.num_features, num_classes)

    def features(self, x: Tensor) -> Tensor:
        return self.body(x).flatten(1)  # type: ignore[no-any-return]  # the library is untyped

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))  # type: ignore[no-any-return]  # of nn.Module


def build_timm(network: str, shape: Sequence[int], num_classes: int, batch_norm_momentum: float) -> nn.Module:
    """Build the network of a name such as timm:resnet18 for images of `shape`; its weights are random."""
    name = network.removeprefix(TIMM)
    if not re.fullmatch(r"\w[\w.]*", name):
        raise InputError(f"network {network!r}: give a name of timm's list, such as timm:resnet18, without a hub or a path.")
    if len(shape) != 3:
        raise InputError(f"network {network!r} is for images, but these items are not: use mlp, series, or your own.")
    try:
        import timm
    except Exception as error:  # ImportError, or an error of torchvision's, if that was built for another torch
        reason = first_line(error).rstrip(".")
        raise InputError(
            f"network {network!r} needs timm, which cannot be imported: {reason}. Run `pip install timm` with a torchvision for "
            "this torch, or choose a network of softmatch's own, such as wrn-28-2."
        ) from error
    options: dict[str, Any] = {"pretrained": False, "num_classes": 0, "in_chans": shape[0]}
    try:
        try:
            model = timm.create_model(name, img_size=tuple(shape[1:]), **options)
        except TypeError:  # a network for images of any size has no such option
            model = timm.create_model(name, **options)
    except Exception as error:  # each model of the library has its own errors
        raise InputError(f"network {network!r} cannot be built by timm for images {tuple(shape)}: {first_line(error)}") from error
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.momentum = batch_norm_momentum
    return TimmNetwork(model, num_classes)
