"""Networks by name. Each has `features(x)` and a linear `head`; its forward pass returns logits."""

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch.overrides import TorchFunctionMode

from softmatch.errors import InputError, nearest
from softmatch.networks.heads import Tuning
from softmatch.networks.residual import ResNet, WideResNet
from softmatch.networks.series_network import SeriesNet
from softmatch.networks.shallow import Shallow
from softmatch.networks.small import MLP, SmallConv
from softmatch.networks.timm_networks import TIMM, build_timm
from softmatch.plugins import call_own, find_own

__all__ = [
    "MLP", "Network", "ResNet", "SeriesNet", "Shallow", "SmallConv", "Tuning", "WideResNet", "build_network", "choose_network",
    "describe_network", "is_encoder", "is_own", "shapes_only",
]  # fmt: skip

NAMES = ("mlp", "series", "shallow", "small-conv", "wrn-10-2", "wrn-28-2", "wrn-28-8", "wrn-37-2", "resnet-50")
Network = str | nn.Module | Callable[..., nn.Module]
"""A name, a network, or a function that returns one."""
ENCODER = "encoder="
"""Prefix of the name of a pretrained encoder, before its folder or its id on the hub."""
OTHERS = {1: "vectors: use mlp", 2: "series: use series"}
SIDES = {16: "small-conv", 64: "wrn-28-2", 128: "wrn-37-2"}
"""Network for images up to this side."""


def choose_network(name: str, kind: str, shape: Sequence[int]) -> str:
    """The name, or the network that "auto" selects.

    mlp for vectors and arrays of any shape, series for series; for images small-conv up to 16 pixels, wrn-28-2 up to 64,
    wrn-37-2 up to 128, then resnet-50.
    """
    if name != "auto":
        return name
    if kind == "text":
        raise InputError("token ids need the network they were made for: encoder= with the folder or id of the encoder.")
    if kind in ("array", "series", "vector"):
        return "series" if kind == "series" else "mlp"
    return next((chosen for side, chosen in SIDES.items() if max(shape[-2:]) <= side), "resnet-50")


def describe_network(network: Network) -> str:
    """The name to show and save: a built-in name, or module:name of the user's network."""
    if isinstance(network, str):
        return network
    named = type(network) if isinstance(network, nn.Module) else network
    return f"{getattr(named, '__module__', 'unknown')}:{getattr(named, '__qualname__', 'network')}"


def is_own(network: Network) -> bool:
    """True for the user's code, false for built-in and pretrained networks, and those of timm."""
    return not isinstance(network, str) or (":" in network and not is_encoder(network) and not network.startswith(TIMM))


def is_encoder(network: Network) -> bool:
    """True for a pretrained encoder that is fine-tuned."""
    return isinstance(network, str) and network.startswith(ENCODER)


def build_network(
    network: Network,
    shape: Sequence[int],
    num_classes: int,
    batch_norm_momentum: float = 0.001,
    architecture: Mapping[str, Any] | None = None,
    tuning: Tuning | None = None,
) -> nn.Module:
    """A new network for items of `shape` (without the batch dimension).

    Args:
        network: "mlp", or "mlp-256" with two hidden layers of 256 instead of 64; "series", "shallow" or "small-conv", or with 16
            channels instead of 32 "series-16", "shallow-16", "small-conv-16"; "wrn-d-k"; "resnet-50"; "encoder=…" with a
            folder or an id of the Hugging Face hub: a pretrained encoder with a new head, for images or token ids; "timm:NAME";
            or "file.py:name" or "module:name". These, or the objects themselves, are an nn.Module, which is copied, or a function
            or class that returns one and gets those of `num_classes`, `shape`, `in_channels` and `batch_norm_momentum` for which
            it has parameters.
        architecture: result of `architecture()` of a saved network with a pretrained encoder: the network is made without the
            encoder's files and without its weights.
        tuning: trained part and head of a pretrained encoder; ignored by other networks.
    """
    if is_own(network):
        context = {"num_classes": num_classes, "shape": tuple(shape), "in_channels": shape[0]}
        return _own(network, {**context, "batch_norm_momentum": batch_norm_momentum})
    assert isinstance(network, str)
    name = network
    if is_encoder(name):
        from softmatch.networks.pretrained import build_pretrained  # imports transformers, which takes seconds

        return build_pretrained(name.removeprefix(ENCODER), shape, num_classes, batch_norm_momentum, architecture, tuning)
    if name.startswith(TIMM):
        return build_timm(name, shape, num_classes, batch_norm_momentum)
    if (plain := re.fullmatch(r"mlp(?:-([1-9]\d{0,4}))?", name)) is not None:
        return MLP(prod(shape), num_classes, (int(plain[1] or 64),) * 2)
    if (along := re.fullmatch(r"series(?:-([1-9]\d{0,3}))?", name)) is not None:
        if len(shape) != 2:
            raise InputError(f"network {name!r} is for series; give arrays of series with --arrays series.")
        return SeriesNet(num_classes, shape[0], shape[1], int(along[1] or 32), batch_norm_momentum)
    wide = re.fullmatch(r"wrn-(\d{1,4})-(\d{1,4})", name)
    small = re.fullmatch(r"(shallow|small-conv)(?:-([1-9]\d{0,3}))?", name)
    if wide is None and small is None and name != "resnet-50":
        raise InputError(
            f"there is no network {name!r}. {nearest(name, NAMES)} Any wrn-d-k works; give a network of your own as "
            "file.py:name, one of timm as timm:NAME, a pretrained one as encoder=FOLDER."
        )
    if len(shape) != 3:
        raise InputError(
            f"network {name!r} is for images, but these items are {OTHERS.get(len(shape), 'not: use mlp, or your own')}."
        )
    if name == "resnet-50":
        return ResNet(num_classes, in_channels=shape[0], batch_norm_momentum=batch_norm_momentum)
    if small is not None and small[1] == "shallow":
        return Shallow(num_classes, shape[0], min(shape[1:]), int(small[2] or 32), batch_norm_momentum)
    if small is not None:
        return SmallConv(num_classes, shape[0], int(small[2] or 32), batch_norm_momentum)
    assert wide is not None
    try:
        return WideResNet(int(wide[1]), int(wide[2]), num_classes, shape[0], batch_norm_momentum)
    except ValueError as error:
        raise InputError(f"network {name!r}: {error}") from error


def _own(network: Network, context: dict[str, Any]) -> nn.Module:
    label = describe_network(network)
    found: Any = find_own(network) if isinstance(network, str) else network
    if isinstance(found, nn.Module):
        return copy.deepcopy(found)
    built = call_own(found, context, {}, f"network {label!r}") if callable(found) else found
    if not isinstance(built, nn.Module):
        raise InputError(f"{label} must be or make an nn.Module; it is or made a {type(built).__name__}.")
    if any(isinstance(parameter, UninitializedParameter) for parameter in built.parameters()):
        raise InputError(f"{label} has lazy layers, whose sizes must be known when the network is built.")
    return built


INITIALISERS = ("normal_", "uniform_", "trunc_normal_")


class _Uninitialised(TorchFunctionMode):
    """Skip random initialisation; on the meta device torch would first import a compiler for it, which takes seconds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        given = dict(kwargs or {})
        if getattr(func, "__name__", "") in INITIALISERS:
            tensor: Tensor = args[0] if args else given["tensor"]
            return tensor
        return func(*args, **given)


@contextmanager
def shapes_only() -> Iterator[None]:
    """In this block new modules are on the meta device, and no initial weights are drawn."""
    with torch.device("meta"), _Uninitialised():
        yield
