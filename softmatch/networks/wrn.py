"""Wide residual networks WRN-d-k (Zagoruyko & Komodakis 2016) as FixMatch defines them."""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn import functional as F

from softmatch.networks.heads import FeatureNetwork

SLOPE = 0.1


def norm_act(norm: nn.Module, inputs: Tensor) -> Tensor:
    """Normalise, then LeakyReLU in place: its derivative follows from its result, so nothing else is stored for it."""
    return F.leaky_relu(norm(inputs), SLOPE, inplace=True)


class Block(nn.Module):
    """Pre-activation block: BN, LeakyReLU, 3×3, BN, LeakyReLU, 3×3, plus a 1×1 shortcut if channels change."""

    def __init__(self, channels: int, out_channels: int, stride: int, activate_shortcut: bool, momentum: float) -> None:
        super().__init__()
        self.activate_shortcut = activate_shortcut
        self.norm1 = nn.BatchNorm2d(channels, eps=1e-3, momentum=momentum)
        self.conv1 = nn.Conv2d(channels, out_channels, 3, stride, 1)
        self.norm2 = nn.BatchNorm2d(out_channels, eps=1e-3, momentum=momentum)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, 1)
        changes = channels != out_channels or stride != 1
        self.shortcut = nn.Conv2d(channels, out_channels, 1, stride) if changes else None

    def forward(self, inputs: Tensor) -> Tensor:
        activated = norm_act(self.norm1, inputs)
        out = self.conv2(norm_act(self.norm2, self.conv1(activated)))
        kept = activated if self.activate_shortcut else inputs
        summed: Tensor = out + (kept if self.shortcut is None else self.shortcut(kept))
        return summed


class WideResNet(FeatureNetwork):
    """Stem of 16 channels, stages of blocks with 16k, 32k, 64k … channels, average pooling, linear head.

    Args:
        depth: 6n + 4 (10, 16, 22, 28 …): three stages of n blocks, the last two halve the image. 8n + 5 (13, 21, 29, 37 …):
            four stages of n blocks, each of which halves it (WRN-37-2 for STL-10's larger images).
        width: k.
        batch_norm_momentum: share of a new batch in the running statistics (PyTorch's sense).
    """

    def __init__(
        self, depth: int, width: int, num_classes: int, in_channels: int = 3, batch_norm_momentum: float = 0.001
    ) -> None:
        super().__init__()
        strides: tuple[int, ...]
        if depth >= 10 and (depth - 4) % 6 == 0:
            blocks, strides = (depth - 4) // 6, (1, 2, 2)
        elif depth >= 13 and (depth - 5) % 8 == 0:
            blocks, strides = (depth - 5) // 8, (2, 2, 2, 2)
        else:
            raise ValueError(f"the depth of a WRN is 10, 16, 22, 28, … or, with a fourth stage, 13, 21, 29, 37, …, not {depth}")
        if width < 1:
            raise ValueError(f"the width of a WRN is 1 or more, not {width}")
        self.stem = nn.Conv2d(in_channels, 16, 3, 1, 1)
        stages: list[nn.Module] = []
        channels = 16
        for stage, stride in enumerate(strides):
            out_channels = 16 * 2**stage * width
            for number in range(blocks):
                first = number == 0
                stages.append(Block(channels, out_channels, stride if first else 1, first and stage == 0, batch_norm_momentum))
                channels = out_channels
        self.stages = nn.Sequential(*stages)
        self.norm = nn.BatchNorm2d(channels, eps=1e-3, momentum=batch_norm_momentum)
        self.head = nn.Linear(channels, num_classes)
        self._initialize()

    def _initialize(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                fan_out = module.kernel_size[0] * module.kernel_size[1] * module.out_channels
                nn.init.normal_(module.weight, 0.0, math.sqrt(2.0 / fan_out))
                assert module.bias is not None
                nn.init.zeros_(module.bias)
        nn.init.xavier_normal_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def features(self, inputs: Tensor) -> Tensor:
        """(B, channels, H, W) → (B, channels of the last stage)."""
        return norm_act(self.norm, self.stages(self.stem(inputs))).mean((2, 3))
