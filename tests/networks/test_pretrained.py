"""Pretrained encoders: both modalities, what is trained of them, LoRA."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from softmatch.encoders import backbones
from softmatch.encoders.backbones import load_backbone
from softmatch.encoders.layers import depths
from softmatch.errors import InputError
from softmatch.networks import Tuning, build_network, choose_network, describe_network, is_own, pretrained
from softmatch.networks.heads import feature_size, merged
from softmatch.networks.pretrained import Pretrained
from tests.tiny_encoder import make_clip, make_resnet, make_text_encoder, make_vit

IDS = torch.tensor([[2, 5, 7, 10, 3, 0, 0, 0], [2, 6, 3, 0, 0, 0, 0, 0], [0] * 8])
MAKERS: dict[str, Callable[[Path], Path]] = {"text": make_text_encoder, "vit": make_vit, "resnet": make_resnet, "clip": make_clip}


@pytest.fixture(scope="module", params=list(MAKERS))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, tuple[int, ...], Tensor]:
    """Name of the network, shape of an item, a batch."""
    folder = MAKERS[request.param](tmp_path_factory.mktemp(request.param))
    if request.param == "text":
        return f"encoder={folder}", (8,), IDS
    return f"encoder={folder}", (3, 12, 12), torch.randn(4, 3, 12, 12)


def test_logits_and_features(case: tuple[str, tuple[int, ...], Tensor]) -> None:
    name, shape, batch = case
    network = build_network(name, shape, 5)
    assert network.training
    network(batch).sum().backward()
    assert all(p.grad is not None for p in network.parameters())
    network.eval()
    assert network(batch).shape == (len(batch), 5)
    assert torch.allclose(network.head(network.features(batch)), network(batch), atol=1e-6)
    assert feature_size(network) == 16
    assert torch.isfinite(network(batch)).all()


def test_the_head_follows_from_the_seed_and_the_encoder_from_its_file(case: tuple[str, tuple[int, ...], Tensor]) -> None:
    name, shape, _ = case
    built = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        built.append(build_network(name, shape, 5))
    first, same, other = (network.state_dict() for network in built)
    assert all(torch.equal(first[key], same[key]) for key in first)
    assert [key for key in first if not torch.equal(first[key], other[key])] == ["head.weight", "head.bias"]


def test_a_saved_network_is_made_again_without_the_encoder(case: tuple[str, tuple[int, ...], Tensor]) -> None:
    name, shape, batch = case
    network = build_network(name, shape, 5).eval()
    architecture = json.loads(json.dumps(network.architecture()))
    again = build_network("encoder=/gone", shape, 5, architecture=architecture)
    assert again.training
    again.load_state_dict(network.state_dict())
    assert torch.equal(again.eval()(batch), network(batch))
    assert json.loads(json.dumps(again.architecture())) == architecture  # type: ignore[operator]  # an attribute of a module
    assert "gone" not in json.dumps(architecture)


def test_an_architecture_of_another_kind_or_damaged_is_refused(tmp_path: Path) -> None:
    network = build_network(f"encoder={make_text_encoder(tmp_path)}", (8,), 5)
    with pytest.raises(InputError, match="for texts, and the items are images"):
        build_network("encoder=/gone", (3, 8, 8), 5, architecture=network.architecture())
    rest = {key: value for key, value in network.architecture().items() if key != "pad"}
    with pytest.raises(InputError, match="damaged: 'pad' is missing"):
        build_network("encoder=/gone", (8,), 5, architecture=rest)


def test_padding_changes_nothing(tmp_path: Path) -> None:
    network = build_network(f"encoder={make_text_encoder(tmp_path)}", (8,), 5).eval()
    alone = torch.cat([network(IDS[:1, :5]), network(IDS[1:2, :3]), network(IDS[2:, :1])])
    assert torch.allclose(network(IDS), alone, atol=1e-5)
    many = IDS.repeat(50, 1)  # more than a piece
    with torch.no_grad():
        assert torch.allclose(network(many), alone.repeat(50, 1), atol=1e-5)


def test_columns_of_padding_do_not_reach_the_encoder(tmp_path: Path) -> None:
    network = build_network(f"encoder={make_text_encoder(tmp_path)}", (8,), 5).eval()
    seen = []
    network.backbone.register_forward_pre_hook(lambda _, given: seen.append(tuple(given[0].shape)))
    network(IDS)
    network(IDS[1:])
    with torch.no_grad():
        network(IDS[:1].repeat(65, 1))
    assert seen == [(3, 5), (2, 3), (64, 5), (1, 5)]


def test_texts_of_unequal_lengths_go_through_in_pieces(tmp_path: Path) -> None:
    network = build_network(f"encoder={make_text_encoder(tmp_path)}", (60,), 5).eval()
    lengths = [60, 3, 57, 2, 30, 55, 29]  # with the 29 there were 3 + 5 + 30 + 31 tokens of padding in the first piece
    ids = torch.zeros(len(lengths), 60, dtype=torch.int64)
    for row, length in zip(ids, lengths, strict=True):
        row[:length] = torch.randint(5, 20, (length,))
    alone = torch.cat([network(row[None, :length]) for row, length in zip(ids, lengths, strict=True)])
    seen = []
    network.backbone.register_forward_pre_hook(lambda _, given: seen.append(tuple(given[0].shape)))
    logits = network(ids)
    assert seen == [(4, 60), (3, 29)]
    assert torch.allclose(logits, alone, atol=1e-5), "in the order in which they were given"
    logits[3].sum().backward()
    weights = network.backbone.model.embeddings.word_embeddings.weight
    assert set(weights.grad.abs().sum(1).nonzero().flatten().tolist()) == set(ids[3, :2].tolist())
    with torch.no_grad():
        assert torch.allclose(network(ids), alone, atol=1e-5)


def test_a_negative_id_is_a_place_without_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = build_network(f"encoder={make_text_encoder(tmp_path)}", (8,), 5).eval()
    cut, words = IDS[:2].clone(), network.backbone.model.embeddings.word_embeddings.weight
    cut[0, 2:4] = -1
    found = network(cut)
    assert not torch.allclose(found[0], network(IDS[:1])[0], atol=1e-2)
    assert torch.allclose(found[1], network(IDS[1:2])[0], atol=1e-5), "texts beside it are as they are"
    with torch.no_grad():
        words[7] = words[10] = 0.0
    assert torch.allclose(network(IDS[:1])[0], found[0], atol=1e-5), "as if the words had vectors of zeros; both count"
    given = []
    network.backbone.model.register_forward_pre_hook(lambda _, __, names: given.append(sorted(names)), with_kwargs=True)
    network(IDS)
    assert given == [["attention_mask", "input_ids"]], "nothing else changes where there is none"
    network.backbone.training = True  # what is inside still drops nothing
    for module in (backbones, pretrained):
        monkeypatch.setattr(module, "is_traced", lambda: True)
    assert torch.allclose(network(cut), found, atol=1e-5), "a compiled network cannot decide by the values"
    assert given[1:] == [["attention_mask", "inputs_embeds"]]


def test_an_encoder_that_takes_no_vectors_says_so(tmp_path: Path) -> None:
    backbone = load_backbone(make_clip(tmp_path), "text")
    assert backbone(IDS, IDS != 0).shape == (3, 16)
    with pytest.raises(InputError, match="choose views without span cutoff"):
        backbone(-IDS, IDS != 0)


def test_a_head_with_a_hidden_layer(case: tuple[str, tuple[int, ...], Tensor]) -> None:
    name, shape, batch = case
    network = build_network(name, shape, 5, tuning=Tuning("gelu"))
    assert network.hidden is not None
    frozen = build_network(name, shape, 5, tuning=Tuning("gelu", 0))
    assert not torch.equal(frozen(batch), frozen(batch)), "dropout of what the encoder makes"
    network.eval()
    features = network.features(batch)
    assert torch.allclose(features, nn.functional.gelu(network.hidden(network.encode(batch))), atol=1e-6)
    assert torch.allclose(network(batch), network.head(features), atol=1e-6)
    assert feature_size(network) == 16
    architecture = json.loads(json.dumps(network.architecture()))
    assert architecture["head"] == "gelu"
    again = build_network("encoder=/gone", shape, 5, architecture=architecture)
    again.load_state_dict(network.state_dict())
    assert torch.equal(again.eval()(batch), network(batch))


def test_a_text_network_can_be_exported(tmp_path: Path) -> None:
    network = build_network(f"encoder={make_text_encoder(tmp_path)}", (8,), 5).eval()
    exported = torch.export.export(network, (IDS,)).module()
    other = torch.tensor([[2, 5, 7, 10, 7, 10, 7, 3], [2, 3, 0, 0, 0, 0, 0, 0], [2, 6, 3, 0, 0, 0, 0, 0]])
    assert torch.allclose(exported(other), network(other), atol=1e-5)


def test_grey_images_and_other_sizes(tmp_path: Path) -> None:
    network = build_network(f"encoder={make_vit(tmp_path)}", (1, 28, 28), 5).eval()
    grey = torch.randn(2, 1, 28, 28)
    assert torch.equal(network(grey), network(grey.repeat(1, 3, 1, 1)))
    assert network(torch.randn(2, 3, 16, 16)).shape == (2, 5)


def test_batch_norm_momentum_reaches_every_layer(tmp_path: Path) -> None:
    network = build_network(f"encoder={make_resnet(tmp_path)}", (3, 8, 8), 5, 0.2)
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    assert norms
    assert all(norm.momentum == 0.2 for norm in norms)


def test_encoders_are_not_the_users_code() -> None:
    for name in ("encoder=/folder:with/colon", "encoder=org/name"):
        assert not is_own(name)
        assert choose_network(name, "text", (8,)) == describe_network(name) == name
    assert is_own("encoder.py:name")
    with pytest.raises(InputError, match="the folder does not exist"):
        build_network("encoder=/folder:with/colon", (8,), 3)


def test_texts_need_an_encoder() -> None:
    with pytest.raises(InputError, match="encoder="):
        choose_network("auto", "text", (8,))


def test_training_moves_the_encoder_and_lowers_the_loss(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = build_network(f"encoder={make_text_encoder(tmp_path)}", (6,), 2)
    words = torch.randint(5, 20, (32, 4))
    labels = torch.arange(32) % 2
    words[:, 1] = torch.where(labels == 1, 7, 8)  # the class is one of the words
    ids = torch.cat([torch.full((32, 1), 2), words, torch.full((32, 1), 3)], 1)
    query = "backbone.model.encoder.layer.0.attention.self.query.weight"
    weights, before = network.state_dict()[query].clone(), _loss(network, ids, labels)
    optimizer = torch.optim.AdamW(network.parameters(), 5e-3)
    for _ in range(40):
        loss = nn.functional.cross_entropy(network(ids), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert _loss(network, ids, labels) < before / 4
    assert not torch.equal(weights, network.state_dict()[query])


@torch.no_grad()
def _loss(network: nn.Module, ids: Tensor, labels: Tensor) -> float:
    loss = float(nn.functional.cross_entropy(network.eval()(ids), labels))
    network.train()
    return loss


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
        assert torch.equal(network.features(IDS[:2]), network.features(IDS[:2])) != differs
        assert network.features(IDS[:2]).requires_grad == (layers != 0)


def test_batch_normalisation_below_keeps_its_statistics(tmp_path: Path) -> None:
    network = build_network(f"encoder={make_resnet(tmp_path)}", (3, 16, 16), 3, 0.5, tuning=Tuning(layers=1))
    norms = {name: module for name, module in network.named_modules() if isinstance(module, nn.BatchNorm2d)}
    before = {name: norm.running_mean.clone() for name, norm in norms.items() if norm.running_mean is not None}
    network(torch.randn(8, 3, 16, 16)).sum().backward()
    moved = {name for name, norm in norms.items() if not torch.equal(before[name], norm.running_mean)}  # type: ignore[arg-type]  # they have one
    assert moved == {name for name in norms if ".stages.1." in name}


def test_what_excludes_each_other_is_refused() -> None:
    with pytest.raises(InputError, match=r"--tuned-layers\) and low-rank updates .* exclude each other"):
        Tuning(layers=1, lora=8)
    with pytest.raises(InputError, match="it must be linear or gelu"):
        Tuning(head="cubic")  # type: ignore[arg-type]  # what is wrong about it


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
    assert torch.allclose(plain.eval()(IDS[:2]), same.eval()(IDS[:2]), atol=1e-6), (
        "nothing is changed at first, and the head is the same"
    )


@pytest.mark.parametrize("kind", ["text", "image"])
def test_a_merged_network_computes_the_same(kind: str, bert: str, tmp_path: Path) -> None:
    name, shape, batch = (
        (bert, (8,), IDS[:2]) if kind == "text" else (f"encoder={make_vit(tmp_path)}", (3, 16, 16), torch.randn(2, 3, 16, 16))
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
    again = build_network("encoder=/gone", shape, 5, architecture=json.loads(json.dumps(plain.architecture()))).eval()
    again.load_state_dict(plain.state_dict())
    assert torch.equal(again(batch), plain(batch))
    assert merged(again) is again


def test_encoders_without_linear_maps_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no layers with linear maps"):
        build_network(f"encoder={make_resnet(tmp_path)}", (3, 8, 8), 5, tuning=Tuning(lora=2))
