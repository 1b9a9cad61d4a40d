"""Small networks: a multilayer perceptron for vectors, and a convolutional network for small images, sized for a laptop."""

from collections.abc import Sequence

from torch import Tensor, nn

from softmatch.networks.heads import FeatureNetwork


class MLP(FeatureNetwork):
    """Linear–ReLU for each hidden width, then a linear head; two hidden layers in the paper's two-moons experiment."""

    def __init__(self, in_features: int, num_classes: int, hidden: Sequence[int] = (64, 64)) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = in_features
        for size in hidden:
            layers += [nn.Linear(width, size), nn.ReLU()]
            width = size
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width, num_classes)

    def features(self, inputs: Tensor) -> Tensor:
        """(B, D) → (B, hidden)."""
        out: Tensor = self.body(inputs.flatten(1))
        return out


class SmallConv(FeatureNetwork):
    """Five 3×3 convolutions with batch normalisation, two poolings, average, linear head.

    Args:
        width: channels of the first two layers; the others have twice as many.
    """

    def __init__(self, num_classes: int, in_channels: int = 1, width: int = 32, batch_norm_momentum: float = 0.1) -> None:
        super().__init__()

        def layer(channels: int, out_channels: int) -> list[nn.Module]:
            return [
                nn.Conv2d(channels, out_channels, 3, padding=1, bias=False),
                nn.BatchNorm2d(out_channels, momentum=batch_norm_momentum),
                nn.LeakyReLU(0.1, inplace=True),
            ]

        self.body = nn.Sequential(
            *layer(in_channels, width),
            *layer(width, width),
            nn.MaxPool2d(2),
            *layer(width, 2 * width),
            *layer(2 * width, 2 * width),
            nn.MaxPool2d(2),
            *layer(2 * width, 2 * width),
        )
        self.head = nn.Linear(2 * width, num_classes)

    def features(self, inputs: Tensor) -> Tensor:
        """(B, channels, H, W) → (B, 2·width)."""
        out: Tensor = self.body(inputs)
        return out.mean((2, 3))
