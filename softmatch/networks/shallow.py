"""Shallow, wide networks that learn much in few steps: whitened patches, a few blocks, the maximum over positions."""

from math import log2

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch.networks.heads import FeatureNetwork

STEM_SIDE = 56
"""Largest side of the map behind the whitening convolution, which halves or quarters larger images."""
LARGEST_STRIDE = 8
DIRECTIONS = 24
"""Number of principal directions of the patches that are kept."""
MOST_BLOCKS = 4
PATCHES = 100_000
FLOOR = 5e-4
"""Added to each variance as a share of the mean variance, so that directions that hardly vary do not amplify noise."""


class Shallow(FeatureNetwork):
    """Frozen whitening convolution, then blocks conv–pool–norm–ReLU–conv–norm–ReLU, maximum over positions, linear head.

    The design follows the speed records on CIFAR-10 (github.com/KellerJordan/cifar10-airbench): patches are whitened by
    their own covariance, each with both signs; the first filters of a convolution begin as the identity; there are no
    shortcuts. The number of blocks follows from the side: 1 for 8 pixels, 2 for 16, 3 for 28 to 32, 4 for 64 and more.

    Args:
        side: smaller side of the images in pixels.
        width: channels of the first block; the others have four times as many. Of fewer than three blocks, all have.
    """

    def __init__(
        self, num_classes: int, in_channels: int = 3, side: int = 32, width: int = 32, batch_norm_momentum: float = 0.1
    ) -> None:
        super().__init__()
        stride = 1
        while side > stride * STEM_SIDE and stride < LARGEST_STRIDE:
            stride *= 2
        kernel = max(stride, 2)
        directions = min(in_channels * kernel**2, DIRECTIONS)
        self.stem = nn.Conv2d(in_channels, 2 * directions, kernel, stride).requires_grad_(False)
        nn.init.zeros_(self.stem.bias)  # type: ignore[arg-type]  # it has one
        inner = (side - kernel) // stride + 1
        blocks = min(max(int(log2(max(inner, 1) / 3)), 1), MOST_BLOCKS)
        widths = ([width] if blocks > 2 else []) + [4 * width] * (blocks - (blocks > 2))
        layers: list[nn.Module] = []
        channels = 2 * directions
        for size in widths:
            norms = [nn.BatchNorm2d(size, momentum=batch_norm_momentum) for _ in range(2)]
            layers += [_convolution(channels, size), nn.MaxPool2d(2), norms[0], nn.ReLU()]
            layers += [_convolution(size, size), norms[1], nn.ReLU()]
            channels = size
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(channels, num_classes)
        nn.init.normal_(self.head.weight, std=channels**-0.5)
        nn.init.zeros_(self.head.bias)

    def features(self, inputs: Tensor) -> Tensor:
        """(B, channels, H, W) → (B, 4·width)."""
        out: Tensor = self.body(F.relu(self.stem(inputs)))
        return out.amax((2, 3))

    @torch.no_grad()
    def adapt(self, images: Tensor) -> None:
        """Set the whitening convolution by the patches of normalised training images (N, channels, H, W)."""
        (kernel, _), (stride, _) = self.stem.kernel_size, self.stem.stride
        patches = images.unfold(2, kernel, stride).unfold(3, kernel, stride).permute(0, 2, 3, 1, 4, 5).flatten(0, 2).flatten(1)
        patches = patches[:: -(-len(patches) // PATCHES)].double()
        variances, directions = torch.linalg.eigh(patches.T @ patches / len(patches))
        scale = (variances + FLOOR * variances.mean().clamp_min(1e-12)).rsqrt()
        filters = (directions * scale).T.flip(0)[: self.stem.out_channels // 2]
        filters = filters.reshape(-1, *self.stem.weight.shape[1:]).to(self.stem.weight)
        self.stem.weight.copy_(torch.cat([filters, -filters]))


def _convolution(channels: int, out_channels: int) -> nn.Conv2d:
    """A 3 × 3 convolution whose first filters pass their channel on."""
    layer = nn.Conv2d(channels, out_channels, 3, padding=1, bias=False)
    nn.init.dirac_(layer.weight.data[: min(channels, out_channels)])
    return layer
