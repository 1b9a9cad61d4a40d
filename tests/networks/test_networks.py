"""Networks: parameter counts of the paper's code bases, shapes, names."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from softmatch.errors import InputError
from softmatch.networks import MLP, SmallConv, WideResNet, build_network, choose_network


@pytest.mark.parametrize(("depth", "width", "classes", "parameters"), [(28, 2, 10, 1_469_642), (28, 8, 100, 23_409_092)])
def test_wide_resnets_have_the_published_number_of_parameters(depth: int, width: int, classes: int, parameters: int) -> None:
    assert sum(p.numel() for p in WideResNet(depth, width, classes).parameters()) == parameters


@pytest.mark.parametrize(
    ("name", "shape"),
    [("mlp", (2,)), ("mlp", (1, 8, 8)), ("small-conv", (1, 8, 8)), ("small-conv-24", (3, 16, 16)), ("wrn-10-1", (3, 32, 32))],
)
def test_logits_and_features(name: str, shape: tuple[int, ...]) -> None:
    network = build_network(name, shape, 7)
    inputs = torch.randn(5, *shape)
    assert network(inputs).shape == (5, 7)
    assert torch.allclose(network.head(network.features(inputs)), network(inputs), atol=1e-5)
    network(inputs).sum().backward()
    assert all(p.grad is not None for p in network.parameters())


def test_wide_resnet_initialisation() -> None:
    torch.manual_seed(0)
    network = WideResNet(28, 2, 10)
    conv = network.stages[-1].conv2
    assert abs(float(conv.weight.detach().std()) - (2 / (9 * 128)) ** 0.5) < 1e-3
    biases = [m.bias for m in network.modules() if isinstance(m, nn.Conv2d)]
    assert all(bias is not None and not bias.detach().any() for bias in biases)


def test_batch_norm_momentum_reaches_every_layer() -> None:
    for network in (build_network("wrn-10-1", (3, 8, 8), 3, 0.2), build_network("small-conv", (1, 8, 8), 3, 0.2)):
        norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
        assert norms
        assert all(norm.momentum == 0.2 for norm in norms)


def test_auto_chooses_by_the_data() -> None:
    assert choose_network("auto", "vector", (2,)) == "mlp"
    assert choose_network("auto", "image", (1, 8, 8)) == "small-conv"
    assert choose_network("auto", "image", (3, 32, 32)) == "wrn-28-2"
    assert choose_network("wrn-10-1", "image", (1, 8, 8)) == "wrn-10-1"


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [("wrn-11-2", (3, 8, 8), "10, 16, 22"), ("wnr-28-2", (3, 8, 8), "wrn-28-2"), ("wrn-10-1", (2,), "use mlp")],
)
def test_impossible_networks_are_refused(name: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_network(name, shape, 3)


def test_the_two_moons_network_is_the_papers_three_layer_perceptron() -> None:
    assert sum(isinstance(m, nn.Linear) for m in MLP(2, 2).modules()) == 3
    assert not any(isinstance(m, nn.BatchNorm1d) for m in MLP(2, 2).modules())
    assert SmallConv(10).head.in_features == 64
