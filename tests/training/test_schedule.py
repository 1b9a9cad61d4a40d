"""Learning rate and weight decay."""

from pathlib import Path

import pytest
import torch

from softmatch.networks import SmallConv, Tuning, build_network
from softmatch.training.schedule import cosine_factor, make_optimizer, set_learning_rate, triangular_factor
from tests.tiny_encoder import make_text_encoder


@pytest.mark.parametrize(("share", "factor"), [(0, 1.0), (0.25, 0.941544), (0.5, 0.773010), (0.75, 0.514103), (1, 0.195090)])
def test_cosine_factor(share: float, factor: float) -> None:
    assert cosine_factor(round(share * 2**20), 2**20) == pytest.approx(factor, abs=1e-6)


def test_warm_up_is_linear_and_the_cosine_begins_after_it() -> None:
    found = [cosine_factor(step, 20, 4) for step in range(20)]
    assert found[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert found[12] == pytest.approx(0.773010, abs=1e-6), "half of what is left"
    assert found[19] == pytest.approx(0.278520, abs=1e-6)
    assert [cosine_factor(step, 3, 3) for step in range(3)] == pytest.approx([1 / 3, 2 / 3, 1])
    assert [cosine_factor(step, 20, 0) for step in range(20)] == [cosine_factor(step, 20) for step in range(20)]


def test_the_learning_rate_falls_from_layer_to_layer(tmp_path: Path) -> None:
    network = build_network(f"encoder={make_text_encoder(tmp_path)}", (8,), 5, tuning=Tuning("gelu"))
    optimizer = make_optimizer(network, "adamw", 0.1, 0.5, layer_decay=0.5)
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    for rate in (0.1, 0.08):
        set_learning_rate(optimizer, rate)
        found = {names[id(p)]: (group["lr"], group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]}
        assert found.keys() == dict(network.named_parameters()).keys()
        for name, (lr, decay) in found.items():
            power = 3 if "embeddings" in name else 2 if ".layer.0." in name else 1 if ".layer.1." in name else 0
            assert lr == pytest.approx(rate * 0.5**power), name
            assert decay == (0.5 if network.get_parameter(name).ndim > 1 else 0.0), name
    first = make_optimizer(network, "adamw", 0.1, 0.5, layer_decay=0.5)
    assert [group["lr"] for group in first.param_groups] == pytest.approx([0.1, 0.1, 0.05, 0.05, 0.025, 0.025, 0.0125, 0.0125])
    plain = make_optimizer(network, "adamw", 0.1, 0.5)
    assert [len(group["params"]) for group in plain.param_groups] == [17, 24]
    assert not any("scale" in group for group in plain.param_groups), "state of optimisers that were saved before fits"
    other = make_optimizer(SmallConv(10), "sgd", 0.1, 0.0, layer_decay=0.5)  # what a method trains besides
    assert [group["lr"] for group in other.param_groups] == [0.1, 0.1]


def test_what_is_new_on_an_encoder_may_learn_faster(tmp_path: Path) -> None:
    network = build_network(f"encoder={make_text_encoder(tmp_path)}", (8,), 5, tuning=Tuning("gelu"))
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    for layer_decay in (1.0, 0.5):
        optimizer = make_optimizer(network, "adamw", 0.1, 0.5, layer_decay=layer_decay, head_rate=20.0)
        found = {names[id(p)]: group["lr"] for group in optimizer.param_groups for p in group["params"]}
        assert {name for name, lr in found.items() if lr == pytest.approx(2.0)} == {
            name for name in found if name.startswith(("head.", "hidden."))
        }
        assert found["backbone.model.encoder.layer.1.output.dense.weight"] == pytest.approx(0.1 * layer_decay)
    other = make_optimizer(SmallConv(10), "sgd", 0.1, 0.0, head_rate=20.0)  # what a method trains besides
    assert [group["lr"] for group in other.param_groups] == [0.1, 0.1]


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


def test_the_triangle_rises_over_a_fifth_and_ends_at_zero() -> None:
    found = [triangular_factor(step, 20) for step in range(21)]
    assert found[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert found[12] == pytest.approx(0.5)
    assert found[20] == 0.0
    assert [triangular_factor(step, 8, 2) for step in range(3)] == [0.5, 1.0, 1.0]
    assert triangular_factor(0, 1) == 1.0
