"""The shallow networks: sizes, whitening and what they accept."""

import pytest
import torch
from torch.nn import functional as F

from softmatch.networks import build_network
from softmatch.networks.shallow import Shallow


@pytest.mark.parametrize(
    ("name", "shape", "parameters", "blocks"),
    [
        ("shallow", (1, 8, 8), 158_514, 1),
        ("shallow", (1, 16, 16), 453_938, 2),
        ("shallow", (1, 28, 28), 493_234, 3),
        ("shallow", (3, 32, 32), 498_114, 3),
        ("shallow-16", (3, 32, 32), 127_106, 3),
        ("shallow-64", (3, 32, 32), 1_972_802, 3),
        ("shallow", (3, 96, 96), 793_538, 4),
        ("shallow", (3, 224, 224), 802_490, 4),
    ],
)
def test_parameters(name: str, shape: tuple[int, ...], parameters: int, blocks: int) -> None:
    network = build_network(name, shape, 10).eval()
    assert sum(p.numel() for p in network.parameters()) == parameters
    assert sum(isinstance(layer, torch.nn.MaxPool2d) for layer in network.modules()) == blocks
    assert network(torch.randn(2, *shape)).shape == (2, 10)


@pytest.mark.parametrize("side", [*range(8, 40), 48, 49, 64, 96, 97, 128, 160, 224, 512])
def test_any_side_from_8_pixels(side: int) -> None:
    network = Shallow(3, 1, side, width=4).eval()
    assert network(torch.randn(1, 1, side, side + 5)).shape == (1, 3)


def test_whitened_patches_are_uncorrelated_and_of_unit_variance() -> None:
    images = F.avg_pool2d(torch.randn(64, 3, 36, 36), 5, 1)  # neighbouring pixels are alike
    network = Shallow(10)
    network.adapt(images)
    out = network.stem(images)
    half = out.shape[1] // 2
    assert torch.equal(out[:, :half], -out[:, half:])
    patches = out[:, :half].permute(0, 2, 3, 1).flatten(0, 2)
    covariance = patches.T @ patches / len(patches)
    variances = covariance.diagonal()
    assert variances[:3].tolist() == pytest.approx([1.0] * 3, abs=0.02), "the main directions"
    assert bool((variances <= 1.001).all()), "directions that hardly vary are not amplified"
    assert float((covariance - covariance.diagonal().diag()).abs().max()) < 1e-3
    assert not network.stem.weight.requires_grad


def test_constant_images_give_finite_filters() -> None:
    network = Shallow(10)
    network.adapt(torch.zeros(4, 3, 32, 32))
    assert bool(torch.isfinite(network.stem.weight).all())


def test_first_filters_pass_their_channel_on() -> None:
    network = Shallow(10)
    first = next(layer for layer in network.body if isinstance(layer, torch.nn.Conv2d))
    maps = torch.randn(1, 24 * 2 // 2, 9, 9)
    assert torch.allclose(first(maps)[:, :24], maps[:, :24], atol=1e-6)
