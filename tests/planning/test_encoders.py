"""Encoders of texts by formula."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from softmatch.config import Config
from softmatch.errors import InputError
from softmatch.planning.encoders import KNOWN, count_encoder, encoder_sizes

BERT = KNOWN["google-bert/bert-base-uncased"]
POOLER = 768 * 768 + 768


def test_bert_base_has_its_published_number_of_parameters() -> None:
    cost = count_encoder(BERT, Config(), 2, 128)
    assert cost.parameters - (768 + 1) * 2 == 109_482_240 - POOLER
    assert cost.trained == cost.parameters
    assert cost.features == 768


def test_flops_are_those_of_the_matrices_and_of_attention() -> None:
    cost = count_encoder(BERT, Config(), 2, 10)
    assert cost.forward == 12 * (10 * 2 * (4 * 768**2 + 2 * 768 * 3072) + 4 * 10 * 10 * 768)
    assert cost.backward == 2 * cost.forward


def test_a_part_of_an_encoder_costs_a_part() -> None:
    whole = count_encoder(BERT, Config(), 2, 64)
    last = count_encoder(BERT, Config(tuned_layers=3), 2, 64)
    assert last.trained == 3 * BERT.layer_parameters + 769 * 2
    assert last.forward == whole.forward
    assert last.backward == whole.backward / 4
    assert last.saved == 64 * (3 * (40 * 768 + 8 * 3072) + 8 * 768)
    low_rank = count_encoder(BERT, Config(lora=8), 2, 64)
    assert low_rank.trained == 12 * 8 * (4 * 2 * 768 + 2 * (768 + 3072)) + 769 * 2
    assert low_rank.backward == whole.backward / 2


def test_a_head_of_two_layers_is_larger() -> None:
    more = count_encoder(BERT, Config(head="gelu"), 2, 64).parameters - count_encoder(BERT, Config(), 2, 64).parameters
    assert more == 768 * 768 + 768


def test_sizes_are_read_from_a_folder(tmp_path: Path) -> None:
    about = {
        "num_hidden_layers": 2,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_attention_heads": 4,
        "vocab_size": 100,
        "max_position_embeddings": 64,
    }
    (tmp_path / "config.json").write_text(json.dumps(about))
    found = encoder_sizes(str(tmp_path))
    assert (found.layers, found.width, found.inner, found.positions) == (2, 16, 32, 64)


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "is not JSON"), ("[]", "must hold a JSON object"), ('{"hidden_size": 3}', "has no num_hidden_layers.*--dry-run")],
)
def test_a_folder_that_says_nothing_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(InputError, match=message):
        encoder_sizes(str(tmp_path))


def test_an_unknown_encoder_is_refused() -> None:
    with pytest.raises(InputError, match=r"the sizes of the encoder 'nobody/knows' are not known.*bert-base-uncased"):
        encoder_sizes("nobody/knows")
