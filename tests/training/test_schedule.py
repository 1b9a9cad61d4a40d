"""Learning rate and weight decay."""

from __future__ import annotations

import pytest
import torch

from softmatch.networks import SmallConv
from softmatch.training.schedule import cosine_factor, make_optimizer, set_learning_rate


@pytest.mark.parametrize(("share", "factor"), [(0, 1.0), (0.25, 0.941544), (0.5, 0.773010), (0.75, 0.514103), (1, 0.195090)])
def test_cosine_factor(share: float, factor: float) -> None:
    assert cosine_factor(round(share * 2**20), 2**20) == pytest.approx(factor, abs=1e-6)


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_weight_decay_spares_biases_and_normalisation(name: str) -> None:
    network = SmallConv(10)
    optimizer = make_optimizer(network, name, 0.1, 0.5)  # type: ignore[arg-type]  # parametrised literal
    decayed = {id(p) for group in optimizer.param_groups if group["weight_decay"] for p in group["params"]}
    for key, parameter in network.named_parameters():
        assert (id(parameter) in decayed) == (key.endswith("weight") and parameter.ndim > 1), key
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(network.parameters()))


def test_sgd_is_nesterov_with_momentum() -> None:
    optimizer = make_optimizer(SmallConv(10), "sgd", 0.1, 0.0)
    assert isinstance(optimizer, torch.optim.SGD)
    assert all(group["nesterov"] and group["momentum"] == 0.9 for group in optimizer.param_groups)


def test_learning_rate_reaches_all_groups() -> None:
    optimizer = make_optimizer(SmallConv(10), "adam", 0.1, 0.1)
    set_learning_rate(optimizer, 0.02)
    assert [group["lr"] for group in optimizer.param_groups] == [0.02, 0.02]


def test_shrinking_decay_does_not_follow_the_learning_rate() -> None:
    network = SmallConv(10)
    optimizer = make_optimizer(network, "adam", 0.1, 0.25, "shrink")
    assert not any(group["weight_decay"] for group in optimizer.param_groups)
    set_learning_rate(optimizer, 0.0)
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(parameter.detach(), before[name] * (0.75 if parameter.ndim > 1 else 1.0))
