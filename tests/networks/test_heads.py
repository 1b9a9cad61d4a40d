"""Further heads: trained and averaged with the network, gone or in the place of its own head at the end."""

import copy

import torch
from torch import nn

from softmatch.networks import MLP, build_network
from softmatch.networks.heads import Headed, Projector, feature_size, trained


def test_the_size_of_features_is_known_for_networks_that_show_them() -> None:
    assert feature_size(MLP(4, 3, (7, 5))) == 5
    for name in ("small-conv-8", "wrn-10-1", "resnet-50"):
        network = build_network(name, (3, 32, 32), 6).eval()
        size = feature_size(network)
        assert size is not None
        with torch.no_grad():
            images = torch.randn(2, 3, 32, 32)
            features = network.features(images)  # type: ignore[operator]  # an attribute of a module is untyped
            assert features.shape == (2, size)
            assert torch.equal(network.head(features), network(images))  # type: ignore[operator]  # as above
    assert feature_size(nn.Sequential(nn.Linear(4, 3))) is None


def test_logits_are_those_of_the_networks_own_head_until_the_end() -> None:
    network = MLP(4, 3)
    headed = Headed(network, {"second": nn.Linear(64, 3), "rotation": nn.Linear(64, 4)})
    inputs = torch.randn(5, 4)
    assert torch.equal(headed(inputs), network(inputs))
    assert torch.equal(headed.head(headed.features(inputs)), network(inputs))
    assert trained(headed) is network
    final = trained(headed, "second")
    assert torch.equal(final(inputs), headed.heads["second"](network.features(inputs)))
    assert torch.equal(trained(headed)(inputs), headed(inputs)), "the network itself keeps its head"
    assert final.state_dict().keys() == network.state_dict().keys()
    assert final.head.weight is headed.heads["second"].weight, "weights are shared, not copied"  # type: ignore[union-attr]  # a linear layer
    assert trained(network, "second") is network


def test_heads_are_copied_and_saved_with_the_network() -> None:
    headed = Headed(MLP(4, 3), {"second": nn.Linear(64, 3)})
    again = copy.deepcopy(headed)
    assert {name for name, _ in headed.named_parameters()} == {name for name, _ in again.named_parameters()}
    assert "heads.second.weight" in headed.state_dict()


def test_embeddings_lie_on_the_unit_sphere_in_float32() -> None:
    projector = Projector(6, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        embeddings = projector(torch.randn(5, 6))
    assert embeddings.dtype == torch.float32
    torch.testing.assert_close(embeddings.norm(dim=1), torch.ones(5))
