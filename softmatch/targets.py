"""p̂: the target of the strong view, a distribution over classes (B, C)."""

import torch
from torch import Tensor


def hard(probs: Tensor) -> Tensor:
    """One-hot argmax, ties to the lowest class (the paper's p̂)."""
    return torch.zeros_like(probs).scatter_(-1, probs.argmax(-1, keepdim=True), 1.0)


def soft(probs: Tensor) -> Tensor:
    """The prediction itself."""
    return probs


def sharpened(probs: Tensor, temperature: float) -> Tensor:
    """sharpen_T(p) ∝ p^(1/T) = softmax(z / T), computed through logarithms so that small T does not underflow."""
    return torch.softmax(probs.clamp_min(torch.finfo(probs.dtype).tiny).log() / temperature, dim=-1)


def cross_entropy(target: Tensor, logits: Tensor) -> Tensor:
    """H(target, softmax(logits)) of each sample, in float32: (B, C), (B, C) → (B,)."""
    return -(target * torch.log_softmax(logits.float(), dim=-1)).sum(-1)


def kl_divergence(target: Tensor, logits: Tensor) -> Tensor:
    """KL(target ‖ softmax(logits)) of each sample: the cross-entropy minus the target's entropy, with the same gradient."""
    entropy: Tensor = torch.special.entr(target).sum(-1)
    return cross_entropy(target, logits) - entropy
