"""Token ids: the tokenizer's, padded and cut, and made again without the encoder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from softmatch.data.preparations import preparation_from
from softmatch.data.preparations import text_preparations as tokens
from softmatch.data.preparations.text_preparations import TokenPreparation, fit_tokens
from softmatch.errors import InputError
from softmatch.views import TextViews
from tests.tiny_encoder import make_text_encoder

TEXTS = ["the cats sat", "", "a bird", "zebra"]
IDS = [[2, 5, 7, 20, 10, 3], [2, 3, 0, 0, 0, 0], [2, 6, 9, 3, 0, 0], [2, 1, 3, 0, 0, 0]]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_text_encoder(tmp_path_factory.mktemp("bert"))


def test_ids_are_padded_to_the_longest(bert: Path) -> None:
    prepared = fit_tokens([TEXTS], "body", str(bert))
    ids = prepared(TEXTS)
    assert ids.dtype == torch.int32
    assert ids.tolist() == IDS
    assert (prepared.takes, prepared.columns) == ("text", ("body",))
    assert prepared(TEXTS[2:3]).tolist() == IDS[2:3], "one text has the same shape as all of them"
    assert prepared([]).shape == (0, 6)


def test_longer_texts_are_cut_at_the_end(bert: Path) -> None:
    assert fit_tokens([TEXTS], "body", str(bert))(["the cat sat on the mat on the tree"]).tolist() == [[2, 5, 7, 10, 12, 3]]
    assert fit_tokens([["cat " * 500]], "body", str(bert)).length == 64, "no more than the encoder takes"
    assert fit_tokens([["cat " * 500]], "body", str(bert), most=10).length == 10
    assert fit_tokens([TEXTS], "body", str(bert), most=10).length == 6


def test_more_tokens_than_usual_are_read_where_they_are_asked_for(tmp_path: Path) -> None:
    folder = make_text_encoder(tmp_path)
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"max_position_embeddings": 512}))
    assert fit_tokens([["cat " * 500]], "body", str(folder), most=400).length == 400
    assert fit_tokens([["cat " * 900]], "body", str(folder), most=900).length == 512


def test_many_texts_are_read_a_part_at_a_time(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "TEXTS", 3)
    prepared = fit_tokens([TEXTS], "body", str(bert))
    assert prepared.length == 6
    assert prepared(TEXTS * 2).tolist() == IDS * 2


def test_the_tokenizer_is_saved_with_it(tmp_path: Path) -> None:
    folder = make_text_encoder(tmp_path / "bert")
    prepared = fit_tokens([TEXTS], "body", str(folder))
    settings, tensors = json.loads(json.dumps(prepared.settings())), prepared.tensors()
    folder.rename(tmp_path / "gone")
    again = preparation_from(settings, tensors)
    assert isinstance(again, TokenPreparation)
    assert again(TEXTS).tolist() == IDS
    assert again.settings() == prepared.settings()
    assert again.describe() == prepared.describe()


def test_views_know_the_tokens(bert: Path, tmp_path: Path) -> None:
    views = TextViews(**fit_tokens([TEXTS], "body", str(bert)).view_options)
    assert (views.pad, views.mask, views.special) == (0, 4, (0, 1, 2, 3, 4))
    without = make_text_encoder(tmp_path / "no mask", mask=False)
    assert fit_tokens([TEXTS], "body", str(without)).view_options == {"pad": 0, "mask": None, "special": [0, 1, 2, 3]}


def test_damaged_saved_files_are_refused(bert: Path) -> None:
    prepared = fit_tokens([TEXTS], "body", str(bert))
    with pytest.raises(InputError, match="damaged: KeyError 'tokenizer'"):
        preparation_from(prepared.settings(), {})
    with pytest.raises(InputError, match="the saved tokenizer is damaged"):
        preparation_from(prepared.settings(), {"tokenizer": prepared.tensors()["tokenizer"][:50]})
