"""Descriptions of models: what training writes is read, and a network is compared with its weights before it is made."""

import math
from typing import Any

import pytest

from softmatch.errors import InputError
from softmatch.files.tensors import Entry, Header
from softmatch.networks import build_network
from softmatch.runs.schema import describe, refuse_other_weights
from tests.refusals import refused

ABOUT: dict[str, Any] = {
    "format": 1,
    "network": "wrn-10-2",
    "shape": [3, 32, 32],
    "classes": ["a", "b"],
    "views": {"kind": "image", "mean": [0.5] * 3, "std": [0.2] * 3},
}
BERT = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 2}
TEXT: dict[str, Any] = {
    "network": "encoder=x",
    "shape": [12],
    "views": {"kind": "text", "pad": 0},
    "architecture": {"config": BERT, "of": "text", "pooler": False, "features": 16, "pad": 0, "pooling": "mean"},
}


def weights(shapes: dict[str, tuple[int, ...]]) -> Header:
    """The header of a file that holds tensors of these shapes."""
    entries, start = [], 0
    for name, shape in shapes.items():
        end = start + 4 * math.prod(shape)
        entries.append(Entry(name, "F32", shape, start, end))
        start = end
    return Header(tuple(entries), {})


def test_defaults_of_older_models_and_the_architecture_of_a_users_own() -> None:
    found = describe(ABOUT | {"another key": 1}, "run")
    assert found.temperature == 1.0
    assert found.preparation is None
    assert describe(ABOUT | {"network": "mine:net", "architecture": {"any": "thing"}}, "run").architecture == {"any": "thing"}


@pytest.mark.parametrize("name", ["wrn-10-2", "wrn-13-1", "small-conv-8", "resnet-50"])
def test_the_network_of_the_weights_is_accepted(name: str) -> None:
    shapes = {key: tuple(value.shape) for key, value in build_network(name, (3, 32, 32), 2).state_dict().items()}
    refuse_other_weights(describe(ABOUT | {"network": name}, "run"), weights(shapes), "run")
    del shapes["head.bias"]
    with pytest.raises(InputError, match=r"has 'head\.bias' of shape \(2,\), the file none"):
        refuse_other_weights(describe(ABOUT | {"network": name}, "run"), weights(shapes), "run")


@pytest.mark.parametrize(
    "config",
    [
        {"num_hidden_layers": 10**6},
        {"depths": [200, 200]},
        {"text_config": {"n_layers": 10**9}},
        {"hidden_sizes_of_stages": [8] * 1000},
    ],
)
def test_no_network_has_more_layers_than_weights(config: dict[str, Any]) -> None:
    changed = TEXT | {"architecture": TEXT["architecture"] | {"config": BERT | config}}
    refused("and there are 1 weights", refuse_other_weights, describe(ABOUT | changed, "run"), weights({"a": (1,)}), "run")


WRONG: list[dict[str, Any]] = [{"features": 10**12}, {"features": 0}, {"pad": -1}, {"pooling": "os.system"}, {"side": 10**6}]
WRONG += [{"config": []}, {"of": "sound"}, {"pooler": "yes"}, {"code": "x"}, {"head": "file.py:head"}]


@pytest.mark.parametrize("change", WRONG, ids=str)
def test_architectures_that_no_network_has_are_refused(change: dict[str, Any]) -> None:
    describe(ABOUT | TEXT, "run")
    with pytest.raises(InputError, match=r"the model in run cannot be read: model\.json"):
        describe(ABOUT | TEXT | {"architecture": TEXT["architecture"] | change}, "run")
