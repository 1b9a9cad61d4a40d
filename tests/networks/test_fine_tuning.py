"""What of an encoder is trained: parameters, dropout and batch statistics of the rest."""

from pathlib import Path

import pytest
import torch
from torch import nn

from softmatch.errors import InputError
from softmatch.networks import Tuning, build_network
from tests.tiny_encoder import make_resnet, make_text_encoder, make_vit

IDS = torch.tensor([[2, 5, 7, 10, 3], [2, 6, 3, 0, 0]])


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"encoder={make_text_encoder(tmp_path_factory.mktemp('bert'))}"


def _trained(network: nn.Module) -> set[str]:
    """Beginnings of the names of what is trained."""
    names = (name.removeprefix("backbone.model.") for name, p in network.named_parameters() if p.requires_grad)
    return {".".join(name.split(".")[:3]) if name.startswith("encoder") else name.split(".")[0] for name in names}


def test_only_the_last_layers_and_the_head_are_trained(bert: str) -> None:
    everything = {"embeddings", "encoder.layer.0", "encoder.layer.1", "head"}
    assert _trained(build_network(bert, (5,), 3)) == everything
    assert _trained(build_network(bert, (5,), 3, tuning=Tuning(layers=2))) == everything - {"embeddings"}
    assert _trained(build_network(bert, (5,), 3, tuning=Tuning(layers=1))) == {"encoder.layer.1", "head"}
    assert _trained(build_network(bert, (5,), 3, tuning=Tuning("gelu", 0))) == {"hidden", "head"}
    with pytest.raises(InputError, match="--tuned-layers 3: this encoder has 2"):
        build_network(bert, (5,), 3, tuning=Tuning(layers=3))


def test_what_comes_after_the_layers_is_trained_with_them(tmp_path: Path) -> None:
    name = f"encoder={make_vit(tmp_path)}"
    assert {"layernorm", "pooler", "layers"} <= _trained(build_network(name, (3, 16, 16), 3, tuning=Tuning(layers=1)))
    assert _trained(build_network(name, (3, 16, 16), 3, tuning=Tuning(layers=0))) == {"head"}


def test_frozen_layers_drop_nothing_in_training(bert: str) -> None:
    for layers, differs in ((None, True), (1, True), (0, False)):
        network = build_network(bert, (5,), 3, tuning=Tuning(layers=layers)).eval().train()
        assert network.backbone.training
        below = network.backbone.model.encoder.layer[0]
        assert any(module.training for module in below.modules()) == (layers is None)
        assert torch.equal(network.features(IDS), network.features(IDS)) != differs
        assert network.features(IDS).requires_grad == (layers != 0)


def test_batch_normalisation_below_keeps_its_statistics(tmp_path: Path) -> None:
    network = build_network(f"encoder={make_resnet(tmp_path)}", (3, 16, 16), 3, 0.5, tuning=Tuning(layers=1))
    norms = {name: module for name, module in network.named_modules() if isinstance(module, nn.BatchNorm2d)}
    before = {name: norm.running_mean.clone() for name, norm in norms.items() if norm.running_mean is not None}
    network(torch.randn(8, 3, 16, 16)).sum().backward()
    moved = {name for name, norm in norms.items() if not torch.equal(before[name], norm.running_mean)}  # type: ignore[arg-type]  # they have one
    assert moved == {name for name in norms if ".stages.1." in name}


def test_what_excludes_each_other_is_refused() -> None:
    with pytest.raises(InputError, match="--tuned-layers and --lora exclude each other"):
        Tuning(layers=1, lora=8)
    with pytest.raises(InputError, match="it must be linear or gelu"):
        Tuning(head="cubic")  # type: ignore[arg-type]  # what is wrong about it
