"""Residual networks: WRN-d-k (Zagoruyko & Komodakis 2016) as FixMatch defines them, and ResNet-50 (He et al. 2016)."""

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
        if depth >= 10 and (depth - 4) % 6 == 0:
            blocks, strides = (depth - 4) // 6, [1, 2, 2]
        elif depth >= 13 and (depth - 5) % 8 == 0:
            blocks, strides = (depth - 5) // 8, [2, 2, 2, 2]
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
