"""ResNet-50 (He et al. 2016) with the stride on the 3×3 convolution, as in today's ImageNet results."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from softmatch.networks.heads import FeatureNetwork

EXPANSION = 4
BLOCKS = (3, 4, 6, 3)
"""Bottlenecks in each stage."""


class Bottleneck(nn.Module):
    """1×1, 3×3 (with the stride), 1×1 to four times the channels, each with batch normalisation; plus a shortcut."""

    def __init__(self, channels: int, inner: int, stride: int, momentum: float) -> None:
        super().__init__()
        outer = inner * EXPANSION
        self.conv1 = nn.Conv2d(channels, inner, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(inner, momentum=momentum)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(inner, momentum=momentum)
        self.conv3 = nn.Conv2d(inner, outer, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(outer, momentum=momentum)
        self.shortcut: nn.Module | None = None
        if stride != 1 or channels != outer:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, outer, 1, stride, bias=False), nn.BatchNorm2d(outer, momentum=momentum)
            )

    def forward(self, inputs: Tensor) -> Tensor:
        out = F.relu(self.norm1(self.conv1(inputs)), inplace=True)
        out = F.relu(self.norm2(self.conv2(out)), inplace=True)
        out = self.norm3(self.conv3(out))
        return F.relu(out + (inputs if self.shortcut is None else self.shortcut(inputs)), inplace=True)


class ResNet(FeatureNetwork):
    """A 7×7 stem with stride 2 and pooling, four stages of bottlenecks, average pooling, linear head.

    Args:
        batch_norm_momentum: share of a new batch in the running statistics (PyTorch's sense).
    """

    def __init__(self, num_classes: int, in_channels: int = 3, batch_norm_momentum: float = 0.1) -> None:
        super().__init__()
        self.stem = nn.Conv2d(in_channels, 64, 7, 2, 3, bias=False)
        self.norm = nn.BatchNorm2d(64, momentum=batch_norm_momentum)
        stages: list[nn.Module] = []
        channels = 64
        for stage, number in enumerate(BLOCKS):
            inner = 64 * 2**stage
            for position in range(number):
                stages.append(Bottleneck(channels, inner, 2 if stage and not position else 1, batch_norm_momentum))
                channels = inner * EXPANSION
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(channels, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def features(self, inputs: Tensor) -> Tensor:
        """(B, channels, H, W) → (B, 2048)."""
        out = F.relu(self.norm(self.stem(inputs)), inplace=True)
        out = F.max_pool2d(out, 3, 2, 1)
        return self.stages(out).mean((2, 3))  # type: ignore[no-any-return]  # Sequential's call is untyped
