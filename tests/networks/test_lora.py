"""Low-rank adapters: what they change, what is trained, and a network without them that computes the same."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from softmatch.encoders.layers import depths
from softmatch.errors import InputError
from softmatch.networks import Tuning, build_network
from softmatch.networks.heads import merged
from softmatch.networks.pretrained import Pretrained
from tests.tiny_encoder import make_resnet, make_text_encoder, make_vit

IDS = torch.tensor([[2, 5, 7, 10, 3, 0, 0, 0], [2, 6, 3, 0, 0, 0, 0, 0]])


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"encoder={make_text_encoder(tmp_path_factory.mktemp('bert'))}"


def _draw_adapters(network: nn.Module) -> None:
    """As training would leave them: at first B is 0."""
    for name, parameter in network.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter, std=0.5)


def test_only_adapters_of_all_linear_maps_and_the_head_are_trained(bert: str) -> None:
    network = build_network(bert, (8,), 5, tuning=Tuning(lora=4))
    trained = {name: tuple(p.shape) for name, p in network.named_parameters() if p.requires_grad}
    adapters = [name for name in trained if not name.startswith("head.")]
    assert len(adapters) == 2 * 6 * 2, "two layers of four maps of attention and two between, A and B of each"
    assert all("lora_A" in name or "lora_B" in name for name in adapters)
    assert {min(trained[name]) for name in adapters} == {4}
    assert {depths(network)[name] for name in adapters} == {1, 2}
    assert all(depths(network)[name] == (2 if ".layer.0." in name else 1) for name in adapters)
    torch.manual_seed(0)
    plain = build_network(bert, (8,), 5)
    torch.manual_seed(0)
    same = build_network(bert, (8,), 5, tuning=Tuning(lora=4))
    assert torch.allclose(plain.eval()(IDS), same.eval()(IDS), atol=1e-6), "nothing is changed at first, and the head is the same"


@pytest.mark.parametrize("kind", ["text", "image"])
def test_a_merged_network_computes_the_same_without_the_library(
    kind: str, bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, shape, batch = (
        (bert, (8,), IDS) if kind == "text" else (f"encoder={make_vit(tmp_path)}", (3, 16, 16), torch.randn(2, 3, 16, 16))
    )
    network = build_network(name, shape, 5, tuning=Tuning(lora=2)).eval()
    before = network(batch)
    _draw_adapters(network)
    logits = network(batch)
    assert not torch.allclose(logits, before, atol=0.1)
    plain = merged(network)
    assert torch.equal(network(batch), logits), "the network itself stays as it is"
    assert torch.allclose(plain(batch), logits, atol=1e-5)
    assert not any("lora" in key or "base_layer" in key for key in plain.state_dict())
    assert isinstance(plain, Pretrained)
    monkeypatch.setitem(sys.modules, "peft", None)
    again = build_network("encoder=/gone", shape, 5, architecture=json.loads(json.dumps(plain.architecture()))).eval()
    again.load_state_dict(plain.state_dict())
    assert torch.equal(again(batch), plain(batch))
    assert merged(again) is again
    with pytest.raises(InputError, match=r"--lora needs a further library: pip install 'softmatch\[lora\]'"):
        build_network(name, shape, 5, tuning=Tuning(lora=2))


def test_encoders_without_linear_maps_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no layers with linear maps"):
        build_network(f"encoder={make_resnet(tmp_path)}", (3, 8, 8), 5, tuning=Tuning(lora=2))
