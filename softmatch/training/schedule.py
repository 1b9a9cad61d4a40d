"""Schedules of the learning rate, and optimisers whose weight decay spares biases and normalisation."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import nn

from softmatch.encoders.layers import depths, new_parameters
from softmatch.errors import InputError
from softmatch.training.muon import Muon

RISE = 0.2
"""Share of a triangular schedule in which the learning rate rises."""
OTHERS, MOMENTUM = 0.5, 0.9
"""Learning-rate factor and momentum of parameters that Muon does not orthogonalise."""


def cosine_factor(step: int, total_steps: int, warmup: int = 0) -> float:
    """max(0, cos(7πk/16K)): 1 at the start, 0.195 at the end.

    With W steps of warm-up, (k + 1)/W in those and then, as in USB's code, max(0, cos(7π(k − W)/16(K − W))).

    Example:
        >>> round(cosine_factor(5, 10), 6)
        0.77301
    """
    if step < warmup:
        return (step + 1) / warmup
    return max(0.0, math.cos(7.0 * math.pi * (step - warmup) / (16.0 * max(total_steps - warmup, 1))))


def triangular_factor(step: int, total_steps: int, warmup: int = 0) -> float:
    """Rise linearly to 1 over `warmup` steps, by default a fifth of all, then fall linearly to 0 after the last step.

    Example:
        >>> [triangular_factor(step, 10) for step in (0, 1, 2, 6)]
        [0.5, 1.0, 1.0, 0.5]
    """
    rise = warmup or max(round(RISE * total_steps), 1)
    return (step + 1) / rise if step < rise else (total_steps - step) / max(total_steps - rise, 1)


def make_optimizer(
    network: nn.Module,
    name: Literal["sgd", "adam", "adamw", "muon"],
    lr: float,
    weight_decay: float,
    decay: Literal["gradient", "shrink"] = "gradient",
    layer_decay: float = 1.0,
    head_rate: float = 1.0,
) -> torch.optim.Optimizer:
    """SGD with Nesterov momentum 0.9, Adam, AdamW or Muon; weight decay on tensors with more than one dimension only.

    Muon is for convolutions, whose norms it keeps constant; all other parameters are trained by SGD at half the learning rate.

    Args:
        decay: "gradient" leaves weight decay to the optimiser; "shrink" multiplies the weights by 1 − weight_decay after
            each step, independent of the learning rate, as the code behind the long-tailed results does.
        layer_decay: factor d per layer: the k-th layer of an encoder below the head has d^k times the head's learning rate, the
            embeddings one power less than the first layer, as in USB's code.
        head_rate: learning-rate factor of new parameters on an encoder, such as the head.
    """
    parameters = {name: p for name, p in network.named_parameters() if p.requires_grad}
    rates = _rates(network, list(parameters), layer_decay, head_rate)
    weights: list[torch.Tensor] = [p for p in parameters.values() if p.ndim > 1]
    groups: list[dict[str, Any]] = []
    for rate in sorted(set(rates.values()), reverse=True):
        here = [p for name, p in parameters.items() if rates[name] == rate]
        scale = {} if len(set(rates.values())) == 1 and rate == 1.0 else {"scale": rate}
        groups.append(
            {"params": [p for p in here if p.ndim > 1], "weight_decay": weight_decay if decay == "gradient" else 0.0, **scale}
        )
        groups.append({"params": [p for p in here if p.ndim <= 1], "weight_decay": 0.0, **scale})
    groups = [group for group in groups if group["params"]]
    optimizer: torch.optim.Optimizer
    if name == "muon":
        optimizer = Muon(_muon_groups(weights, groups), lr=lr)
    elif name == "sgd":
        optimizer = torch.optim.SGD(groups, lr=lr, momentum=0.9, nesterov=True, foreach=True)
    else:
        optimizer = (torch.optim.Adam if name == "adam" else torch.optim.AdamW)(groups, lr=lr, foreach=True)
    if decay == "shrink":

        @torch.no_grad()
        def shrink(*_: object) -> None:
            torch._foreach_mul_(weights, 1.0 - weight_decay)

        optimizer.register_step_post_hook(shrink)
    set_learning_rate(optimizer, lr)
    return optimizer


def _muon_groups(weights: Sequence[torch.Tensor], groups: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put convolutions, which are orthogonalised and not decayed, into a group of their own."""
    convolutions = [weight for weight in weights if weight.ndim == 4]
    if not convolutions:
        raise InputError("the optimiser muon is for networks with convolutions. Use sgd or adam.")
    found: list[dict[str, Any]] = [{"params": convolutions}]
    for group in groups:
        others = [parameter for parameter in group["params"] if parameter.ndim != 4]
        scale = OTHERS * group.get("scale", 1.0)
        found.append({**group, "params": others, "scale": scale, "orthogonal": False, "momentum": MOMENTUM})
    return [group for group in found if group["params"]]


def _rates(network: nn.Module, names: Sequence[str], layer_decay: float, head_rate: float) -> dict[str, float]:
    """Learning rate of each parameter as a multiple of the run's."""
    below = dict.fromkeys(names, 0) if layer_decay == 1.0 else depths(network)
    new = set() if head_rate == 1.0 else new_parameters(network)
    return {name: layer_decay ** below[name] * (head_rate if name in new else 1.0) for name in names}


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of all groups, times the scale of those that have one."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get("scale", 1.0)
