"""Mixup: samples and their targets, mixed with those of other samples in the same proportion."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from softmatch.methods.base import Forward
from softmatch.methods.match import PAPER_STEPS
from softmatch.methods.options import require


def mixing_shares(number: int, alpha: float, per_sample: bool = True) -> Tensor:
    """max(λ, 1 − λ) of λ ~ Beta(α, α), (number,): one λ per sample, or one for all."""
    beta = torch.distributions.Beta(alpha, alpha)
    share: Tensor = beta.sample((number if per_sample else 1,))
    return torch.maximum(share, 1.0 - share).expand(number)


def blend(first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    """λ·first + (1 − λ)·second of tensors (B, …), each row with its own share λ (B,)."""
    share = share.reshape(-1, *[1] * (first.dim() - 1))
    return share * first + (1.0 - share) * second


def mixup(inputs: Tensor, targets: Tensor, alpha: float, per_sample: bool = True) -> tuple[Tensor, Tensor]:
    """Mix each sample and its target with another of the same batch, chosen by a permutation; its own share is ≥ ½.

    Args:
        inputs: (B, …).
        targets: (B, C), distributions over classes.
    """
    partner = torch.randperm(len(inputs)).to(inputs.device)
    share = mixing_shares(len(inputs), alpha, per_sample).to(inputs.device)
    return blend(inputs, inputs[partner], share), blend(targets, targets[partner], share)


def mixed_logits(
    forward: Forward, views: Sequence[Tensor], targets: Sequence[Tensor], alpha: float, per_sample: bool = True
) -> tuple[Tensor, Tensor]:
    """Logits and targets, each (ΣB, C) in the order of the views, after mixup among the samples of all views.

    The passes are as large as the views, but their samples come from all of them: each pass normalises with, and moves the
    running statistics by, labelled and unlabelled samples together.
    """
    whole = [forward.whole(view) for view in views]
    inputs, mixed_targets = mixup(torch.cat(whole), torch.cat(list(targets)), alpha, per_sample)
    order = torch.randperm(len(inputs))
    parts = torch.split(inputs[order.to(inputs.device)], [len(view) for view in whole])
    passes = forward(*(forward.own(part) for part in parts))
    return torch.cat(passes)[torch.argsort(order).to(inputs.device)], mixed_targets


def view_names(name: str, number: int) -> tuple[str, ...]:
    """ "weak", "weak_2", … : independent views of one kind."""
    return (name, *(f"{name}_{i}" for i in range(2, number + 1)))


def ramp_steps(total_steps: int, ramp: float | None = None) -> int:
    """Length of the ramp of MixMatch and ReMixMatch; None: the authors' 2^14 of 2^20 steps, at most 40 % of the run."""
    share = min(PAPER_STEPS / 64 / total_steps, 0.4) if ramp is None else ramp
    return max(round(share * total_steps), 1)


def refuse_mixing_options(alpha: float, temperature: float, views: int, ramp: float | None, **weights: float) -> None:
    """Raise InputError for invalid options of MixMatch and ReMixMatch."""
    require("be positive", alpha=alpha, temperature=temperature)
    require("be 1 or more", views=views)
    require("lie in [0, 1]", ramp=ramp)
    require("be 0 or more", **weights)
