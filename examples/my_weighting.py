"""A weighting function of your own, used without registration or changes to the package.

softmatch train digits --method examples/my_weighting.py:Margin
softmatch train digits --method examples/my_weighting.py:Margin --method-options.power 2
"""

from __future__ import annotations

from torch import Tensor

from softmatch import Weighting


class Margin(Weighting):
    """λ = (p₁ − p₂)^power: the margin between the two most likely classes."""

    def __init__(self, power: float = 1.0) -> None:
        super().__init__()
        self.power = power

    def forward(self, probs: Tensor, pseudo_labels: Tensor | None = None) -> Tensor:
        first, second = probs.topk(2, dim=-1).values.unbind(-1)
        return (first - second) ** self.power
