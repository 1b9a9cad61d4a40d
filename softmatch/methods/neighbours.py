"""Predictions smoothed by those on similar samples of the last steps, before a method makes pseudo-labels of them."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch.state import Queue

LENGTH, TEMPERATURE = 2560, 0.1
"""Number of samples that are remembered, and the temperature of their similarity."""


class Neighbours(nn.Module):
    """p' = (1 − α)·p + α·Σ_j softmax_j(cos(z, z_j)/T)·p_j over the remembered samples j of earlier steps.

    Features z and predictions p are those of the averaged weights on weak views. The memory-smoothed pseudo-labels of CoMatch
    (Li, Xiong and Hoi, 2021) are of this form, with features of a head of their own. Not of the SoftMatch paper.

    Args:
        share: α.
    """

    def __init__(self, num_features: int, num_classes: int, share: float) -> None:
        super().__init__()
        self.share = share
        self.features = Queue(LENGTH, (num_features,))
        self.probs = Queue(LENGTH, (num_classes,))

    @torch.no_grad()
    def forward(self, features: Tensor, logits: Tensor) -> Tensor:
        """log p' (B, C) of features (B, D) and logits (B, C), which are remembered for the next steps.

        Shapes do not depend on the number of remembered samples: those that are missing have no weight.
        """
        directions, probs = F.normalize(features.float(), dim=-1), torch.softmax(logits.float(), -1)
        known = self.features.filled()
        similarity = (directions @ self.features.values.T / TEMPERATURE).masked_fill(~known, -torch.inf)
        around = torch.softmax(similarity, -1).nan_to_num(0.0) @ self.probs.values  # NaN before the first step
        share = self.share * known.any()
        smoothed = (1.0 - share) * probs + share * around
        self.features.push(directions)
        self.probs.push(probs)
        return smoothed.clamp_min(1e-9).log()
