"""Low-rank adapters (LoRA, Hu et al. 2022) in the layers of a pretrained encoder, through PEFT (extra `lora`)."""

from __future__ import annotations

import copy
import re
from typing import Any

import torch
from torch import nn

from softmatch.encoders.backbones import Backbone
from softmatch.errors import InputError

__all__ = ["add_adapters", "merged"]

ADAPTER = "default"
"""PEFT's name for a single adapter."""


def add_adapters(backbone: Backbone, rank: int, name: object) -> None:
    """Replace W by W + 2·B·A in every linear map of the layers, inside and outside attention; only A and B are trained.

    B starts at zero, so that nothing changes at first.

    Args:
        rank: rank of B·A.
        name: name of the encoder, for the message.

    Raises:
        InputError: PEFT is not installed, or there are no linear maps.
    """
    try:
        import peft
    except ImportError as error:
        raise InputError("--lora needs a further library: pip install 'softmatch[lora]'.") from error
    model, layers = backbone.model, backbone.layers
    inside = () if layers is None else layers.lists
    targets = [
        path
        for path, module in model.named_modules()
        if type(module) is nn.Linear and any(path.startswith(f"{each}.") for each in inside)
    ]
    if not targets:
        raise InputError(f"--lora: encoder {name} has no layers with linear maps. Leave it out, or choose another encoder.")
    config = peft.LoraConfig(
        r=rank, lora_alpha=2 * rank, lora_dropout=0.0, bias="none", target_modules="|".join(re.escape(path) for path in targets)
    )
    peft.inject_adapter_in_model(config, model, ADAPTER)


@torch.no_grad()
def merged(network: nn.Module) -> nn.Module:
    """A copy of the network with its adapters merged into the weights, without PEFT; the network itself if it has none."""
    if not any(_is_adapted(module) for module in network.modules()):
        return network
    plain = copy.deepcopy(network)
    for path, module in [*plain.named_modules()]:
        if _is_adapted(module):
            adapted: Any = module
            adapted.base_layer.weight += adapted.get_delta_weight(ADAPTER)
            parent, _, own = path.rpartition(".")
            setattr(plain.get_submodule(parent), own, adapted.base_layer)
    return plain


def _is_adapted(module: nn.Module) -> bool:
    return hasattr(module, "base_layer") and hasattr(module, "lora_A")
