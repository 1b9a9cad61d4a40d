"""Views of vectors: standardised features with Gaussian noise, small (ω) and large (Ω)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor


class VectorViews:
    """ω(x) = z + N(0, w²) and Ω(x) = z + N(0, s²), z the standardised features; the medium view has the noise √(w·s).

    Args:
        mean, std: of each feature over the training data.
        weak_noise, strong_noise: w and s, in standard deviations of the features.
    """

    kind = "vector"

    def __init__(self, mean: Sequence[float], std: Sequence[float], weak_noise: float = 0.02, strong_noise: float = 0.15) -> None:
        self.mean = torch.as_tensor(mean, dtype=torch.float32)
        self.std = torch.as_tensor(std, dtype=torch.float32).clamp_min(1e-12)
        self.weak_noise, self.strong_noise = weak_noise, strong_noise

    def plain(self, items: Tensor) -> Tensor:
        return (items.float() - self.mean.to(items.device)) / self.std.to(items.device)

    def weak(self, items: Tensor, generator: Generator) -> Tensor:
        return self._noisy(items, self.weak_noise, generator)

    def medium(self, items: Tensor, generator: Generator) -> Tensor:
        return self._noisy(items, (self.weak_noise * self.strong_noise) ** 0.5, generator)

    def strong(self, items: Tensor, generator: Generator) -> Tensor:
        return self._noisy(items, self.strong_noise, generator)

    def _noisy(self, items: Tensor, scale: float, generator: Generator) -> Tensor:
        noise = torch.randn(items.shape, generator=generator).to(items.device, non_blocking=True)
        return self.plain(items) + scale * noise

    def settings(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "mean": self.mean.tolist(),
            "std": self.std.tolist(),
            "weak_noise": self.weak_noise,
            "strong_noise": self.strong_noise,
        }
