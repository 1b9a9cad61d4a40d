"""A residual network for series: three blocks of three convolutions along time."""

from itertools import pairwise

from torch import Tensor, nn

from softmatch.networks.heads import FeatureNetwork

KERNELS = (7, 5, 3)
LONG = 256
"""Longer series are shortened to at most this many values by the first convolution."""


class SeriesNet(FeatureNetwork):
    """A first convolution, then three residual blocks as in Wang et al. 2017, pooling between them, average over time.

    Args:
        channels: of the series.
        length: of the series; it sets the stride of the first convolution.
        width: channels of the first block; the others have twice as many.
    """

    def __init__(self, num_classes: int, channels: int, length: int, width: int = 32, batch_norm_momentum: float = 0.1) -> None:
        super().__init__()
        stride = -(-length // LONG)
        self.first = nn.Sequential(
            nn.Conv1d(channels, width, 2 * stride + 5, stride, stride + 2, bias=False),
            nn.BatchNorm1d(width, momentum=batch_norm_momentum),
            nn.ReLU(inplace=True),
        )
        sizes = (width, width, 2 * width, 2 * width)
        self.blocks = nn.ModuleList(_Block(before, after, batch_norm_momentum) for before, after in pairwise(sizes))
        self.head = nn.Linear(2 * width, num_classes)

    def features(self, inputs: Tensor) -> Tensor:
        """(B, channels, T) → (B, 2·width)."""
        out: Tensor = self.first(inputs)
        for number, block in enumerate(self.blocks):
            out = block(out if number == 0 else nn.functional.max_pool1d(out, 2, ceil_mode=True))
        return out.mean(2)


class _Block(nn.Module):
    def __init__(self, before: int, after: int, momentum: float) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = before
        for kernel in KERNELS:
            layers.append(nn.Conv1d(channels, after, kernel, padding=kernel // 2, bias=False))
            layers += [nn.BatchNorm1d(after, momentum=momentum), nn.ReLU(inplace=True)]
            channels = after
        self.body = nn.Sequential(*layers[:-1])
        plain: list[nn.Module] = [nn.Conv1d(before, after, 1, bias=False)] if before != after else []
        self.shortcut = nn.Sequential(*plain, nn.BatchNorm1d(after, momentum=momentum))

    def forward(self, inputs: Tensor) -> Tensor:
        out: Tensor = nn.functional.relu(self.body(inputs) + self.shortcut(inputs))
        return out
