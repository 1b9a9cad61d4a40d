"""The network for series: its size, and any length."""

import pytest
import torch

from softmatch.networks import build_network, choose_network


@pytest.mark.parametrize(("name", "parameters"), [("series", 127_845), ("series-16", 32_437)])
def test_number_of_parameters(name: str, parameters: int) -> None:
    assert sum(weight.numel() for weight in build_network(name, (1, 140), 5).parameters()) == parameters


@pytest.mark.parametrize(("length", "inner"), [(8, 8), (140, 140), (256, 256), (257, 129), (5000, 250)])
def test_long_series_are_shortened_first(length: int, inner: int) -> None:
    network = build_network("series-8", (3, length), 4)
    inputs = torch.randn(2, 3, length)
    assert network.first(inputs).shape == (2, 8, inner)
    assert network.features(inputs).shape == (2, 16)
    network(inputs).sum().backward()
    assert all(weight.grad is not None for weight in network.parameters())


def test_auto_chooses_it_for_series() -> None:
    assert choose_network("auto", "series", (2, 100)) == "series"
