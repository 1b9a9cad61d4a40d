"""The averaged weights."""

import pytest
import torch
from torch import nn

from softmatch.training.ema import ModelAverage


def test_average_follows_its_recursion() -> None:
    network = nn.Linear(1, 1, bias=False)
    average = ModelAverage(network, 0.9, warm=False)
    expected = float(network.weight.detach())
    for step, value in enumerate((1.0, -2.0, 5.0)):
        nn.init.constant_(network.weight, value)
        average.update(network, step)
        expected = 0.9 * expected + 0.1 * value
    assert abs(float(average.network.weight) - expected) < 1e-6  # type: ignore[arg-type]  # a Linear's weight


def test_a_warm_average_forgets_its_first_weights() -> None:
    network = nn.Linear(1, 1, bias=False)
    nn.init.constant_(network.weight, 100.0)
    warm, cold = ModelAverage(network, 0.999), ModelAverage(network, 0.999, warm=False)
    nn.init.constant_(network.weight, 0.0)
    for step in range(50):
        warm.update(network, step)
        cold.update(network, step)
    assert float(warm.network.weight) < 1e-3  # type: ignore[arg-type]  # a Linear's weight
    assert float(cold.network.weight) > 90  # type: ignore[arg-type]  # a Linear's weight


def test_momentum_zero_is_a_copy_and_buffers_are_copied() -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    average = ModelAverage(network, 0.0)
    network(torch.randn(8, 2)).sum().backward()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(1.0)
    average.update(network, 3)
    for mine, theirs in zip(average.network.state_dict().values(), network.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs)
    assert not any(p.requires_grad for p in average.network.parameters())


def test_what_is_not_trained_has_no_second_copy() -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))
    network[0].requires_grad_(False)
    average = ModelAverage(network, 0.5, warm=False)
    assert average.network[0].weight is network[0].weight  # type: ignore[index]  # a Sequential
    assert set(average.state()) == {name for name in network.state_dict() if not name.startswith("0.")}
    first = network[2].weight.detach().clone()
    with torch.no_grad():
        network[2].weight.add_(1.0)
    frozen = network[0].weight.clone()
    average.update(network, 0)
    assert torch.equal(network[0].weight, frozen)
    assert torch.allclose(average.network[2].weight, first + 0.5)  # type: ignore[index]  # a Sequential
    again = ModelAverage(network, 0.5)
    again.load_state(average.state())
    assert torch.equal(again.network[2].weight, average.network[2].weight)  # type: ignore[index]  # a Sequential
    with pytest.raises(RuntimeError, match=r"2\.weight"):
        again.load_state({name: value for name, value in average.state().items() if name != "2.weight"})
