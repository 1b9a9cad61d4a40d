"""The layers of encoders of several families, by structure."""

import pytest
from torch import nn

from softmatch.encoders.backbones import Backbone, feature_size
from softmatch.encoders.layers import depths, find_layers, recorded_calls
from softmatch.errors import InputError

SIZES = {"num_attention_heads": 2, "intermediate_size": 32, "hidden_size": 16, "num_hidden_layers": 3}
SEVERAL = {"encoder_layers": 3, "encoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_layers": 1}
CASES = {
    # settings; names of the lists; what comes after; what is before though it was made later
    "bert": ({"model_type": "bert", **SIZES}, ("encoder.layer",), set(), None),
    "bart": (
        {"model_type": "bart", "d_model": 16, "vocab_size": 40, "decoder_attention_heads": 2, "decoder_ffn_dim": 8, **SEVERAL},
        ("layers",),
        set(),
        "layernorm_embedding.weight",
    ),
    "t5": (
        {"model_type": "t5", "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 3, "num_heads": 2, "vocab_size": 40},
        ("block",),
        {"final_layer_norm"},
        None,
    ),
    "mpnet": (
        {"model_type": "mpnet", **SIZES, "vocab_size": 40},
        ("encoder.layer",),
        set(),
        "encoder.relative_attention_bias.weight",
    ),
    "xlm": (
        {"model_type": "xlm", "emb_dim": 16, "n_layers": 3, "n_heads": 2, "vocab_size": 40},
        ("attentions", "layer_norm1", "ffns", "layer_norm2"),
        set(),
        None,
    ),
    "vit": (
        {"model_type": "vit", **SIZES, "image_size": 16, "patch_size": 8},
        ("layers",),
        {"layernorm", "pooler", "pooler.dense", "pooler.activation"},
        None,
    ),
}


@pytest.mark.parametrize("name", list(CASES))
def test_layers_and_what_is_before_and_after_them(name: str) -> None:
    import transformers

    settings, lists, after, before = CASES[name]
    config = transformers.AutoConfig.for_model(**settings)
    backbone = Backbone(transformers.AutoModel.from_config(config), "image" if name == "vit" else "text").eval()
    with recorded_calls(backbone.model) as calls:
        feature_size(backbone, 16, name)
    backbone.layers = found = find_layers(backbone.model, calls)
    assert (found.lists, found.number, set(found.after)) == (lists, 3, after)
    assert [found.depth(f"{lists[0]}.{layer}.some.weight") for layer in range(3)] == [3, 2, 1]
    assert found.depth(lists[0]) == found.depth("") == 4
    assert all(found.depth(f"{module}.weight") == 0 for module in after)
    for last in (1, 3):
        if name == "xlm" or (name == "t5" and last == 1):  # whose layers lie in several lists, or need the first one
            with pytest.raises(InputError, match=f"--tune last-{last}: the layers of encoder {name} cannot be computed"):
                backbone.refuse_uncut(last, 16, name)
        else:
            backbone.refuse_uncut(last, 16, name)
    assert backbone.model.get_submodule(lists[0]).__len__() == 3, "all layers are there again"
    every = depths(nn.Sequential(backbone, nn.Linear(2, 2)))
    assert set(every.values()) == {1, 2, 3, 4, 0}
    assert every["1.weight"] == 0
    if before is not None:
        assert every[f"0.model.{before}"] == 4
    seen = len(calls)
    feature_size(backbone, 16, name)
    assert len(calls) == seen, "nothing is left that listens"


def test_networks_without_known_layers() -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    assert find_layers(network, ["", "0", "1"]) is None
    assert set(depths(network).values()) == {0}
    unused = nn.ModuleDict({"lists": nn.ModuleList([nn.Linear(2, 2)])})
    assert find_layers(unused, ["other"]) is None
