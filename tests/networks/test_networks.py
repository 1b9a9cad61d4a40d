"""Networks: parameter counts of the paper's code bases, shapes, names."""

from pathlib import Path

import pytest
import torch
from torch import nn

from softmatch.errors import InputError
from softmatch.networks import MLP, ResNet, SmallConv, WideResNet, build_network, choose_network, describe_network


@pytest.mark.parametrize(
    ("depth", "width", "classes", "parameters"), [(28, 2, 10, 1_469_642), (28, 8, 100, 23_409_092), (37, 2, 10, 5_933_770)]
)
def test_wide_resnets_have_the_published_number_of_parameters(depth: int, width: int, classes: int, parameters: int) -> None:
    assert sum(p.numel() for p in WideResNet(depth, width, classes).parameters()) == parameters


def test_resnet_50_has_the_published_number_of_parameters() -> None:
    network = ResNet(1000)
    assert sum(p.numel() for p in network.parameters()) == 25_557_032
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d) and m.kernel_size != (1, 1)]
    assert sum(m.stride == (2, 2) for m in convolutions) == 4, "the stem and the 3×3 convolutions of three stages halve the image"


def test_a_fourth_stage_halves_the_image_in_every_stage() -> None:
    network = WideResNet(37, 1, 10).eval()
    assert network.stages(network.stem(torch.zeros(1, 3, 96, 96))).shape == (1, 128, 6, 6)
    three = WideResNet(28, 1, 10).eval()
    assert three.stages(three.stem(torch.zeros(1, 3, 32, 32))).shape == (1, 64, 8, 8)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("mlp", (2,)),
        ("mlp", (1, 8, 8)),
        ("mlp-32", (5,)),
        ("small-conv", (1, 8, 8)),
        ("small-conv-24", (3, 16, 16)),
        ("wrn-10-1", (3, 32, 32)),
        ("wrn-13-1", (1, 16, 16)),
        ("resnet-50", (3, 32, 32)),
    ],
)
def test_logits_and_features(name: str, shape: tuple[int, ...]) -> None:
    network = build_network(name, shape, 7)
    inputs = torch.randn(5, *shape)
    assert network(inputs).shape == (5, 7)
    torch.testing.assert_close(network.head(network.features(inputs)), network(inputs), atol=1e-3, rtol=1e-4)
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
    for name in ("wrn-10-1", "small-conv", "resnet-50"):
        network = build_network(name, (3, 8, 8), 3, 0.2)
        norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
        assert norms
        assert all(norm.momentum == 0.2 for norm in norms)


def test_auto_chooses_by_the_data() -> None:
    assert choose_network("auto", "vector", (2,)) == "mlp"
    assert choose_network("auto", "image", (1, 8, 8)) == "small-conv"
    assert choose_network("auto", "image", (3, 32, 32)) == "wrn-28-2"
    assert choose_network("auto", "image", (3, 96, 96)) == "wrn-37-2"
    assert choose_network("auto", "image", (3, 224, 224)) == "resnet-50"
    assert choose_network("wrn-10-1", "image", (1, 8, 8)) == "wrn-10-1"


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("wrn-11-2", (3, 8, 8), "10, 16, 22"),
        ("wnr-28-2", (3, 8, 8), "wrn-28-2"),
        ("wrn-28-0", (3, 8, 8), "width"),
        ("wrn-10-1", (2,), "use mlp"),
        ("mlp-0", (2,), "no network 'mlp-0'"),
    ],
)
def test_impossible_networks_are_refused(name: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_network(name, shape, 3)


def test_the_two_moons_network_is_the_papers_three_layer_perceptron() -> None:
    assert sum(isinstance(m, nn.Linear) for m in MLP(2, 2).modules()) == 3
    assert not any(isinstance(m, nn.BatchNorm1d) for m in MLP(2, 2).modules())
    assert SmallConv(10).head.in_features == 64


@pytest.mark.parametrize("name", ["wrn-10-1", "small-conv", "resnet-50"])
def test_channels_last_changes_nothing_but_the_speed(name: str) -> None:
    network = build_network(name, (3, 32, 32), 4).eval()
    inputs = torch.randn(4, 3, 32, 32)
    expected = network(inputs)
    fast = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs
    torch.testing.assert_close(fast(inputs.contiguous(memory_format=torch.channels_last)), expected, atol=1e-3, rtol=1e-3)


OWN = """
from torch import nn

def make(num_classes, shape):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], num_classes))

network = make(3, (1, 2, 2))
number = 7
"""


def test_a_network_of_the_users_own(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(OWN)
    assert build_network(f"{file}:make", (3, 8, 8), 5)(torch.zeros(2, 3, 8, 8)).shape == (2, 5)
    first, second = (build_network(f"{file}:network", (1, 2, 2), 3) for _ in range(2))
    with torch.no_grad():
        next(first.parameters()).zero_()
    assert next(second.parameters()).any(), "a network given as an object is copied, or two runs would train one"
    with pytest.raises(InputError, match="made a int"):
        build_network(f"{file}:number", (1, 2, 2), 3)
    with pytest.raises(InputError, match="has no 'mak'"):
        build_network(f"{file}:mak", (1, 2, 2), 3)


def test_a_network_object_or_function(tmp_path: Path) -> None:
    given = nn.Linear(4, 3)
    copied = build_network(given, (4,), 3)
    assert copied is not given
    assert torch.equal(copied.weight, given.weight)
    assert isinstance(build_network(lambda num_classes: nn.Linear(4, num_classes), (4,), 3), nn.Linear)
    assert describe_network(given) == "torch.nn.modules.linear:Linear"
    assert describe_network("wrn-10-1") == "wrn-10-1"


def test_lazy_layers_are_refused() -> None:
    with pytest.raises(InputError, match="lazy layers"):
        build_network(lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(3)), (3, 8, 8), 3)
