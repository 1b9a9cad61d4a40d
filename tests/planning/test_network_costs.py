"""Networks counted without memory, beside numbers that are known or computed by hand."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from softmatch.config import Config
from softmatch.errors import InputError
from softmatch.networks import build_network
from softmatch.planning.network_costs import (
    ENCODERS,
    CountedOperations,
    NetworkCost,
    count_encoder,
    encoder_sizes,
    planned_network,
)

BERT = ENCODERS["google-bert/bert-base-uncased"]


def counted(name: str, shape: tuple[int, ...], classes: int) -> NetworkCost:
    return planned_network(name, shape, classes)[1]


def test_a_perceptron_is_counted_as_by_hand() -> None:
    cost = counted("mlp-4", (3,), 2)
    weights = 3 * 4 + 4 * 4 + 4 * 2
    assert cost.parameters == weights + 4 + 4 + 2
    assert cost.state == 4 * cost.parameters
    assert cost.forward == 2 * weights
    # Backward: by the weights of all three layers, by the inputs of the last two.
    assert cost.backward == 2 * weights + 2 * (4 * 4 + 4 * 2)
    # Kept: the input, and what the two hidden layers make.
    assert cost.saved == 4 * (3 + 4 + 4)
    assert cost.features == 4


def test_the_papers_network_is_counted() -> None:
    cost = counted("wrn-28-2", (3, 32, 32), 10)
    assert cost.parameters == sum(parameter.numel() for parameter in build_network("wrn-28-2", (3, 32, 32), 10).parameters())
    assert cost.parameters == 1_469_642
    # By hand: a 3×3 convolution of 16·2^s·2 channels has 9·1024·32² products in every stage, seven of them and a half.
    stage, first = 9 * 32 * 32 * 1024, 9 * 16 * 32 * 1024
    shortcuts = 16 * 32 * 1024 + 32 * 64 * 256 + 64 * 128 * 64
    stem, head = 9 * 3 * 16 * 1024, 128 * 10
    halves = 2 * (9 * 32 * 64 * 256)
    assert cost.forward == 2 * (7 * stage + first + 2 * 7 * stage + halves + shortcuts + stem + head)
    assert cost.backward == pytest.approx(2 * cost.forward, rel=0.003)


def test_a_network_for_imagenet_has_its_known_size() -> None:
    cost = counted("resnet-50", (3, 224, 224), 1000)
    assert cost.parameters == 25_557_032
    assert cost.forward == pytest.approx(2 * 4.09e9, rel=0.001)


def test_what_is_kept_for_the_backward_pass_is_what_torch_keeps() -> None:
    network, kept = build_network("small-conv-8", (1, 8, 8), 10).train(), dict[int, torch.Tensor]()

    def keep(value: torch.Tensor) -> torch.Tensor:
        kept[value.untyped_storage().data_ptr()] = value
        return value

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        network(torch.randn(16, 1, 8, 8))
    own = {value.untyped_storage().data_ptr() for value in (*network.parameters(), *network.buffers())}
    real = sum(value.untyped_storage().nbytes() for place, value in kept.items() if place not in own)
    planned = counted("small-conv-8", (1, 8, 8), 10).saved
    assert planned * 16 == pytest.approx(real, rel=0.02)  # batch statistics are kept once, not for each image


def test_operations_are_counted_without_those_that_only_look() -> None:
    value = torch.zeros(6)
    with CountedOperations() as counter:
        nn.functional.relu(value.view(2, 3).t() + 1.0)
    assert counter.number == 2
    assert counter.largest == 24


def test_items_that_a_network_cannot_take_are_refused() -> None:
    with pytest.raises(InputError, match="The network small-conv cannot be planned for items of 3×2×2"):
        planned_network("small-conv", (3, 2, 2), 10)


def test_bert_base_has_its_published_number_of_parameters_and_flops() -> None:
    cost = count_encoder(BERT, Config(), 2, 10)
    assert cost.parameters - (768 + 1) * 2 == 109_482_240 - (768 * 768 + 768)  # without the pooler
    assert cost.trained == cost.parameters
    assert cost.forward == 12 * (10 * 2 * (4 * 768**2 + 2 * 768 * 3072) + 4 * 10 * 10 * 768)
    assert cost.backward == 2 * cost.forward
    assert count_encoder(BERT, Config(head="gelu"), 2, 10).parameters - cost.parameters == 768 * 768 + 768


def test_a_part_of_an_encoder_costs_a_part() -> None:
    whole = count_encoder(BERT, Config(), 2, 64)
    last = count_encoder(BERT, Config(tuned_layers=3), 2, 64)
    assert last.trained == 3 * (4 * 768**2 + 2 * 768 * 3072 + 9 * 768 + 3072) + 769 * 2
    assert (last.forward, last.backward) == (whole.forward, whole.backward / 4)
    assert last.saved == 64 * (3 * (40 * 768 + 8 * 3072) + 8 * 768)
    low_rank = count_encoder(BERT, Config(lora=8), 2, 64)
    assert low_rank.trained == 12 * 8 * (4 * 2 * 768 + 2 * (768 + 3072)) + 769 * 2
    assert low_rank.backward == whole.backward / 2


def test_sizes_of_an_encoder_are_read_from_its_folder(tmp_path: Path) -> None:
    keys = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")
    about = {**dict(zip(keys, (2, 16, 32, 4, 100), strict=True)), "max_position_embeddings": 64}
    (tmp_path / "config.json").write_text(json.dumps(about))
    assert encoder_sizes(str(tmp_path)) == (2, 16, 32, 4, 100, 64)


@pytest.mark.parametrize(
    ("content", "message"), [("{", "is damaged"), ("[]", "num_hidden_layers"), ('{"hidden_size": 3}', "--dry-run")]
)
def test_a_folder_that_says_nothing_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(InputError, match=message):
        encoder_sizes(str(tmp_path))


def test_an_unknown_encoder_is_refused() -> None:
    with pytest.raises(InputError, match=r"The sizes of the encoder 'nobody/knows' are not known.*bert-base-uncased"):
        encoder_sizes("nobody/knows")
