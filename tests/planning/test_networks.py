"""Networks counted without memory, beside numbers that are known or computed by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from softmatch.networks import build_network
from softmatch.planning.networks import CountedOperations, count_network, make_network


def test_a_perceptron_is_counted_as_by_hand() -> None:
    cost = count_network(make_network("mlp-4", (3,), 2), (3,))
    weights = 3 * 4 + 4 * 4 + 4 * 2
    assert cost.parameters == weights + 4 + 4 + 2
    assert cost.state == 4 * cost.parameters
    assert cost.forward == 2 * weights
    # Backward: by the weights of all three layers, by the inputs of the last two.
    assert cost.backward == 2 * weights + 2 * (4 * 4 + 4 * 2)
    assert cost.input_backward == cost.forward
    # Kept: the input, and what the two hidden layers make.
    assert cost.saved == 4 * (3 + 4 + 4)
    assert cost.norms == ()
    assert cost.features == 4


def test_the_papers_network_is_counted() -> None:
    cost = count_network(make_network("wrn-28-2", (3, 32, 32), 10), (3, 32, 32))
    assert cost.parameters == sum(parameter.numel() for parameter in build_network("wrn-28-2", (3, 32, 32), 10).parameters())
    assert cost.parameters == 1_469_642
    # By hand: a 3×3 convolution of 16·2^s·2 channels has 9·1024·32² products in every stage, seven of them and a half.
    stage, first = 9 * 32 * 32 * 1024, 9 * 16 * 32 * 1024
    shortcuts = 16 * 32 * 1024 + 32 * 64 * 256 + 64 * 128 * 64
    stem, head = 9 * 3 * 16 * 1024, 128 * 10
    halves = 2 * (9 * 32 * 64 * 256)
    assert cost.forward == 2 * (7 * stage + first + 2 * 7 * stage + halves + shortcuts + stem + head)
    assert cost.backward == pytest.approx(2 * cost.forward, rel=0.003)
    assert len(cost.norms) == 25
    assert sum(cost.norms) == 16 + 8 * 32 + 8 * 64 + 8 * 128


def test_a_network_for_imagenet_has_its_known_size() -> None:
    cost = count_network(make_network("resnet-50", (3, 224, 224), 1000), (3, 224, 224))
    assert cost.parameters == 25_557_032
    assert cost.forward == pytest.approx(2 * 4.09e9, rel=0.001)
    assert len(cost.norms) == 53


def test_what_is_kept_for_the_backward_pass_is_what_torch_keeps() -> None:
    network, kept = build_network("small-conv-8", (1, 8, 8), 10).train(), dict[int, torch.Tensor]()

    def keep(value: torch.Tensor) -> torch.Tensor:
        kept[value.untyped_storage().data_ptr()] = value
        return value

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        network(torch.randn(16, 1, 8, 8))
    own = {value.untyped_storage().data_ptr() for value in (*network.parameters(), *network.buffers())}
    real = sum(value.untyped_storage().nbytes() for place, value in kept.items() if place not in own)
    planned = count_network(make_network("small-conv-8", (1, 8, 8), 10), (1, 8, 8)).saved
    assert planned * 16 == pytest.approx(real, rel=0.02)  # batch statistics are kept once, not for each image


def test_operations_are_counted_without_those_that_only_look() -> None:
    value = torch.zeros(6)
    with CountedOperations() as counter:
        nn.functional.relu(value.view(2, 3).t() + 1.0)
    assert counter.number == 2
    assert counter.largest == 24
