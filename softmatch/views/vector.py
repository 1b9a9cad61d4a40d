"""Views of vectors: standardised features with small (ω) or large (Ω) Gaussian noise; Ω also drops and swaps features."""

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from softmatch.views.rows import check_number, cut


class VectorViews:
    """ω(x) = z + N(0, w²) and Ω(x) = z̃ + N(0, s²), z the standardised features; the medium view has the noise √(w·s).

    In z̃ some features are swapped with those of other samples, then some are dropped. By default z̃ = z. The medium view has
    half of both probabilities.

    Args:
        mean, std: mean and standard deviation of each feature over the training data.
        weak_noise, strong_noise: w and s, in standard deviations of the features.
        swap: probability that a feature is replaced by the same feature of another sample of the batch, as SCARF (Bahri et al.
            2022) corrupts tables.
        drop: probability that a feature is replaced by its mean.
    """

    kind = "vector"

    def __init__(
        self,
        mean: Sequence[float],
        std: Sequence[float],
        weak_noise: float = 0.02,
        strong_noise: float = 0.15,
        swap: float = 0.0,
        drop: float = 0.0,
    ) -> None:
        for name, share in (("swap", swap), ("drop", drop)):
            check_number(name, share, "a probability between 0 and 1", 1.0)
        for name, noise in (("weak_noise", weak_noise), ("strong_noise", strong_noise)):
            check_number(name, noise, "a number of 0 or more", sys.float_info.max)
        self.mean = torch.as_tensor(mean, dtype=torch.float32)
        self.std = torch.as_tensor(std, dtype=torch.float32).clamp_min(1e-12)
        self.weak_noise, self.strong_noise, self.swap, self.drop = weak_noise, strong_noise, swap, drop

    def plain(self, items: Tensor) -> Tensor:
        return (items.float() - self.mean.to(items.device)) / self.std.to(items.device)

    def weak(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._corrupted(items, generator, part, 0.0, self.weak_noise)

    def medium(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._corrupted(items, generator, part, 0.5, (self.weak_noise * self.strong_noise) ** 0.5)

    def strong(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._corrupted(items, generator, part, 1.0, self.strong_noise)

    def _corrupted(self, items: Tensor, generator: Generator, part: slice | None, most: float, noise: float) -> Tensor:
        """Swap and drop features with `most` times the probabilities, and add noise. Swapped features may come from all rows.

        A single sample keeps its own. Nothing is drawn for a probability of 0, so that the noise is that of views without it.
        """
        swap, drop, features = most * self.swap, most * self.drop, self.plain(items)
        own, rows = cut(features, part)
        if swap and rows.number > 1:
            chosen = torch.rand(features.shape, generator=generator)[rows.part] < swap
            ahead = torch.randint(1, rows.number, features.shape, generator=generator)[rows.part]
            other = (torch.arange(rows.number)[rows.part].view(-1, *[1] * (own.ndim - 1)) + ahead) % rows.number
            swapped = features.gather(0, other.to(own.device, non_blocking=True))
            own = torch.where(chosen.to(own.device, non_blocking=True), swapped, own)
        if drop:
            lost = torch.rand(features.shape, generator=generator)[rows.part] < drop
            own = own.masked_fill(lost.to(own.device, non_blocking=True), 0.0)
        drawn = torch.randn(features.shape, generator=generator)[rows.part]
        return own + noise * drawn.to(own.device, non_blocking=True)

    def settings(self) -> dict[str, Any]:
        rest = {name: getattr(self, name) for name in ("weak_noise", "strong_noise", "swap", "drop")}
        return {"kind": self.kind, "mean": self.mean.tolist(), "std": self.std.tolist(), **rest}
